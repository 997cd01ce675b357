"""The server's CPU for one governed call over REST, against a raw ASGI echo of the same request on the same uvicorn."""

from __future__ import annotations

import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

from lab.benchmarks.row import Row

CONNECTIONS = 8
TARGET = 4


def measure(*, quick: bool) -> list[Row]:
    """Return the ratio of the two servers' CPU, the median of interleaved rounds; on Linux, where it can be told."""
    if sys.platform != "linux":
        return []
    rounds, requests = (1, 200) if quick else (7, 4_000)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        capset = stack.enter_context(
            running(["-c", "from capset_cli import main; main()", "serve", "--port", "0", "--insecure"], folder)
        )
        echo = stack.enter_context(running(["-m", "lab.benchmarks.echo"], folder))
        call = call_of(capset[1], "test_math", "add")
        ratios: list[float] = []
        costs: list[tuple[float, float]] = []
        for _ in range(rounds + 1):  # the first is to warm up
            measured = cpu_of(capset, call, requests), cpu_of(echo, call, requests)
            costs.append(measured)
            ratios.append(measured[0] / measured[1])
    ratio = statistics.median(ratios[1:])
    ours, theirs = (statistics.median(cost[place] for cost in costs[1:]) * 1e6 for place in (0, 1))
    peers = {"REST call": f"{ours:.0f} µs", "ASGI echo": f"{theirs:.0f} µs"}
    return [Row("REST call", round(ratio, 1), "times the CPU of an ASGI echo", TARGET, "at most", peers)]


def call_of(address: str, capability: str, name: str) -> bytes:
    """Make an agent and a session, and return the request that calls a tool in it with two numbers."""
    agent = post(address, "/v1/agents", {"name": "adder", "capabilities": [capability]})
    session = post(address, "/v1/sessions", {"agent_id": agent["id"]})
    body = json.dumps({"tool": name, "arguments": {"a": 1, "b": 2}}).encode()
    head = (
        f"POST /v1/sessions/{session['id']}/calls HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        f"accept: application/json\r\nuser-agent: benchmark\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def post(address: str, path: str, body: Any) -> Any:  # JSON data
    """Send JSON, and return the JSON of the answer."""
    headers = {"content-type": "application/json"}
    with urlopen(Request(address + path, json.dumps(body).encode(), headers)) as response:
        return json.load(response)


def cpu_of(server: tuple[int, str], request: bytes, requests: int) -> float:
    """Return the CPU seconds that a server takes for one of many requests."""
    before = cpu_seconds(server[0])
    asyncio.run(ask(server[1], request, requests // CONNECTIONS, CONNECTIONS))
    return (cpu_seconds(server[0]) - before) / (requests // CONNECTIONS * CONNECTIONS)


def cpu_seconds(pid: int) -> float:
    """Return a process's CPU time to the nanosecond: /proc counts ticks of 10 ms, of which a quick run may see none."""
    return time.clock_gettime((~pid << 3) | 2)  # what clock_getcpuclockid(3) gives on Linux


async def ask(address: str, request: bytes, times: int, connections: int) -> None:
    """Send a request so many times on each connection, the next when the one before is answered."""
    port = int(address.rpartition(":")[2])

    async def send_requests() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(times):
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(f"the server answered {head!r}")
            length = re.search(rb"(?i)content-length: (\d+)", head)
            await reader.readexactly(int(length[1]) if length else 0)
        writer.close()
        await writer.wait_closed()

    await asyncio.gather(*(send_requests() for _ in range(connections)))


START_SECONDS: Final = 120.0
"""How long a server or a worker may take to start or to end, on a machine that is busy."""


@contextmanager
def running(arguments: list[str], folder: str) -> Generator[tuple[int, str]]:
    """Start a server or a worker, and yield its process id, and what it says that it serves, or works on."""
    log = Path(folder, f"{arguments[-1]}-{time.monotonic_ns()}.log")
    root = str(Path(__file__).parents[2])
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=folder,
            stderr=stderr,
            env={**os.environ, "PYTHONPATH": os.pathsep.join((root, folder))},
        )
    try:
        end = time.monotonic() + START_SECONDS
        while (match := re.search(r"(?:serves|works on) (\S+)", log.read_text())) is None:
            if process.poll() is not None:
                raise RuntimeError(log.read_text())
            if time.monotonic() > end:
                raise RuntimeError(f"it did not start: {arguments}")
            time.sleep(0.1)
        yield process.pid, match[1]
    finally:
        process.terminate()
        process.wait(START_SECONDS)
