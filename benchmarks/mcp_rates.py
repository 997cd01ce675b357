"""Requests a second of ``tools/call`` under 16 connections, stateless: beside FastMCP, and the same call by REST."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack

from benchmarks.rest_call import call_of, running
from benchmarks.rest_rates import CONNECTIONS, installed
from benchmarks.row import Row

_VERSION = "2026-07-28"


def measure(*, quick: bool) -> list[Row]:
    """Return the ratios of the rates, the median of interleaved rounds."""
    rounds, requests = (1, 320) if quick else (7, 3_200)
    with ExitStack() as stack:
        folder = installed(stack.enter_context(tempfile.TemporaryDirectory()))
        serve = ["-c", "from capset.cli import main; main()", "serve", "--port", "0", "--insecure"]
        capset = stack.enter_context(running(serve, folder))[1]
        streaming = stack.enter_context(running(["-m", "benchmarks.fastmcp_server"], folder))[1]
        plain = stack.enter_context(running(["-m", "benchmarks.fastmcp_server", "--json"], folder))[1]
        rest = call_of(capset, "rates", "look")
        session = rest.split(b"/v1/sessions/")[1].split(b"/")[0].decode()
        ours, theirs = request_of(f"/mcp/sessions/{session}", "look"), request_of("/mcp", "look")
        found: list[tuple[float, float, float, float]] = []
        for _ in range(rounds + 1):  # the first is to warm up
            few = max(CONNECTIONS, requests // 10)
            found.append(
                (
                    rate(capset, ours, requests),
                    rate(streaming, theirs, few),
                    rate(plain, theirs, few),
                    rate(capset, rest, requests),
                )
            )
    mine, sse, plain_json, by_rest = (statistics.median(one[place] for one in found[1:]) for place in range(4))
    peers = {
        "tools/call": f"{mine:.0f}/s",
        "FastMCP": f"{sse:.0f}/s",
        "FastMCP, JSON only": f"{plain_json:.0f}/s",
        "REST call": f"{by_rest:.0f}/s",
    }
    of_sse, of_json, of_rest = (statistics.median(one[0] / one[place] for one in found[1:]) for place in (1, 2, 3))
    return [
        Row("MCP tools/call", round(of_sse, 1), "times the requests/s of FastMCP", 10, "at least", peers),
        Row("MCP tools/call, JSON", round(of_json, 1), "times the requests/s of FastMCP's JSON", 5, "at least", peers),
        Row(
            "MCP tools/call beside REST", round(of_rest, 2), "of the requests/s of a REST call", 0.9, "at least", peers
        ),
    ]


def request_of(path: str, tool: str) -> bytes:
    """Return a stateless request that calls a tool with two numbers."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": _VERSION,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "benchmark", "version": "1"},
    }
    params = {"name": tool, "arguments": {"a": 1, "b": 2}, "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        f"accept: application/json, text/event-stream\r\nmcp-protocol-version: {_VERSION}\r\n"
        f"mcp-method: tools/call\r\nmcp-name: {tool}\r\nuser-agent: benchmark\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def rate(address: str, request: bytes, requests: int) -> float:
    """Return how many requests a second are answered, 16 at once."""
    started = time.perf_counter()
    asyncio.run(_ask(address, request, requests // CONNECTIONS))
    return requests // CONNECTIONS * CONNECTIONS / (time.perf_counter() - started)


async def _ask(address: str, request: bytes, times: int) -> None:
    port = int(address.rpartition(":")[2])

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(times):
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            if not head.startswith(b"http/1.1 200"):
                raise RuntimeError(f"the server answered {head!r}")
            if b"transfer-encoding: chunked" in head:
                while await reader.readline() != b"0\r\n":
                    pass
                await reader.readline()
            else:
                await reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r")[0]))
        writer.close()
        await writer.wait_closed()

    await asyncio.gather(*(one() for _ in range(CONNECTIONS)))


if __name__ == "__main__":
    print(*measure(quick="--quick" in sys.argv), sep="\n")
