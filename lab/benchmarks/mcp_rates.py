"""Requests a second of ``tools/call`` under 16 connections, stateless: beside FastMCP, and the same call by REST.

Without FastMCP, which is in the dependency group ``peers``, only the row beside REST is measured.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from importlib.util import find_spec
from typing import Final

from lab.benchmarks.rest_call import call_of, running
from lab.benchmarks.rest_rates import CONNECTIONS, installed
from lab.benchmarks.row import Row

_VERSION: Final = "2026-07-28"
_OURS: Final = "tools/call"
_REST: Final = "REST call"
_PEERS: Final = {"FastMCP": (), "FastMCP, JSON only": ("--json",)}
"""With the options of their server."""
_ROWS: Final = (
    ("MCP tools/call", "FastMCP", "times the requests/s of FastMCP", 10),
    ("MCP tools/call, JSON", "FastMCP, JSON only", "times the requests/s of FastMCP's JSON", 5),
    ("MCP tools/call beside REST", _REST, "of the requests/s of a REST call", 0.9),
)


def measure(*, quick: bool) -> list[Row]:
    """Return the ratios of the rates, the median of interleaved rounds."""
    rounds, requests = (1, 320) if quick else (7, 3_200)
    with ExitStack() as stack:
        folder = installed(stack.enter_context(tempfile.TemporaryDirectory()))
        serve = ["-c", "from capset_cli import main; main()", "serve", "--port", "0", "--insecure"]
        capset = stack.enter_context(running(serve, folder))[1]
        rest = call_of(capset, "rates", "look")
        session = rest.split(b"/v1/sessions/")[1].split(b"/")[0].decode()
        ours, theirs = request_of(f"/mcp/sessions/{session}", "look"), request_of("/mcp", "look")
        calls = {_OURS: (capset, ours, requests), _REST: (capset, rest, requests)}
        for name, options in _PEERS.items() if find_spec("fastmcp") else ():
            peer = stack.enter_context(running(["-m", "lab.benchmarks.fastmcp_server", *options], folder))[1]
            calls[name] = peer, theirs, max(CONNECTIONS, requests // 10)
        samples = [{name: rate(*call) for name, call in calls.items()} for _ in range(rounds + 1)][
            1:
        ]  # the first warms up
    peers = {name: f"{statistics.median(sample[name] for sample in samples):.0f}/s" for name in calls}
    peers |= dict.fromkeys(_PEERS.keys() - calls.keys(), "not installed")
    return [
        Row(
            label,
            round(statistics.median(sample[_OURS] / sample[peer] for sample in samples), 2),
            unit,
            target,
            "at least",
            peers,
        )
        for label, peer, unit, target in _ROWS
        if peer in calls
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

    async def send_requests() -> None:
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

    await asyncio.gather(*(send_requests() for _ in range(CONNECTIONS)))


if __name__ == "__main__":
    print(*measure(quick="--quick" in sys.argv), sep="\n")
