"""A call through the gateway beside that of its MCP server and through ContextForge, and a list of 500 tools."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from lab.benchmarks import context_forge
from lab.benchmarks.mcp_rates import request_of
from lab.benchmarks.rest_call import running
from lab.benchmarks.row import Row

TOOLS = 500
_MAIN = "from capset_cli import main; main()"


def measure(*, quick: bool) -> list[Row]:
    """Return the time that a gateway adds to a call, that of a list, and that of a peer; medians."""
    rounds, calls = (2, 50) if quick else (8, 300)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        upstream = stack.enter_context(running(["-m", "lab.benchmarks.mcp_upstream", "1"], folder))[1]
        single_gateway = stack.enter_context(_gateway(folder, "one", upstream))[1]
        many = stack.enter_context(running(["-m", "lab.benchmarks.mcp_upstream", str(TOOLS)], folder))[1]
        all_of_them = stack.enter_context(_gateway(folder, "many", many))[1]
        alone, through = request_of("/mcp", "look0"), request_of("/mcp", "up_look0")
        medians = [
            (asyncio.run(_median(upstream, alone, calls)), asyncio.run(_median(single_gateway, through, calls)))
            for _ in range(rounds)
        ]
        list_seconds = asyncio.run(_median(all_of_them, _list(), calls // 5))
        theirs = None if quick else _by_context_forge(Path(folder), upstream)
    direct, ours = (statistics.median(each[place] for each in medians[1:]) for place in (0, 1))
    peers = {
        "server alone": f"{direct * 1e3:.2f} ms",
        "through the gateway": f"{ours * 1e3:.2f} ms",
        "list of 500 tools": f"{list_seconds * 1e3:.1f} ms",
    }
    rows = [
        Row(
            "gateway, reading call less its server's own",
            round((ours - direct) * 1e3, 2),
            "ms",
            1.5,
            "at most",
            peers,
        ),
        Row("gateway, list of 500 tools", round(list_seconds * 1e3, 1), "ms", 20, "at most", peers),
    ]
    if theirs is not None:
        peer_times = {"ContextForge": f"{theirs * 1e3:.1f} ms", "capset": peers["through the gateway"]}
        name = "a reading call through ContextForge"
        rows.append(Row(name, round(theirs / ours, 1), "times one through capset's gateway", 1, "at least", peer_times))
    return rows


def _by_context_forge(folder: Path, upstream: str) -> float | None:
    """Return the seconds of the same call through ContextForge, where it is installed: it takes a while to start."""
    if not context_forge.is_installed():
        return None
    with context_forge.calling(folder, upstream, "look0") as (address, request):
        asyncio.run(_median(address, request, 20))  # to warm up
        return asyncio.run(_median(address, request, 60))  # it allows 100 a minute


def _gateway(folder: str, name: str, upstream: str) -> AbstractContextManager[tuple[int, str]]:
    host = upstream.removeprefix("http://")
    server = {
        "url": f"{upstream}/mcp",
        "internal": [host],
        "trust_first_use": True,
        "rules": {"*": {"effect": "read"}},
    }
    file = Path(folder, f"{name}.json")
    file.write_text(json.dumps({"mcp_servers": {"up": server}}))
    db = str(Path(folder, f"{name}.db"))
    return running(
        ["-c", _MAIN, "gateway", str(file), "--db", db, "--port", "0", "--insecure", "--principal", name], folder
    )


def _list() -> bytes:
    meta: dict[str, object] = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}).encode()
    head = (
        "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        "accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n"
        f"mcp-method: tools/list\r\nuser-agent: benchmark\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _median(address: str, request: bytes, times: int) -> float:
    """Return the seconds that one of many requests takes on one connection."""
    host, port = address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    request = request.replace(b"host: 127.0.0.1\r\n", f"host: {host}:{port}\r\n".encode())
    durations: list[float] = []
    for _ in range(times):
        started = time.perf_counter()
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        if not head.startswith(b"http/1.1 200"):
            raise RuntimeError(f"the server answered {head!r}")
        if b"transfer-encoding: chunked" in head:
            while (size := int((await reader.readline()).strip(), 16)) > 0:
                await reader.readexactly(size + 2)
            await reader.readline()
            durations.append(time.perf_counter() - started)
            continue
        body = await reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r")[0]))
        durations.append(time.perf_counter() - started)
        if b'"isError":true' in body or b'"error":{' in body:
            raise RuntimeError(f"the server answered {body!r}")
    writer.close()
    await writer.wait_closed()
    return statistics.median(durations)


if __name__ == "__main__":
    print(*measure(quick="--quick" in sys.argv), sep="\n")
