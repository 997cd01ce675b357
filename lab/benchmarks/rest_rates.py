"""Requests a second under 16 connections: a governed read over REST beside bare FastAPI, a durable write beside it."""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from capset import Capability, tool
from lab.benchmarks.rest_call import ask, call_of, running
from lab.benchmarks.row import Row

CONNECTIONS = 16
_METADATA = "Metadata-Version: 2.1\nName: capset-rates\nVersion: 1\n"
_ENTRY_POINTS = "[capset.capabilities]\nrates = lab.benchmarks.rest_rates:rates\n"


@tool(effect="read")
async def look(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="write")
async def keep(a: int, b: int) -> int:
    """Add two numbers, as if that changed something: an intent is durable before, an outcome after."""
    return a + b


rates: Capability = Capability("rates", tools=[look, keep])


def measure(*, quick: bool) -> list[Row]:
    """Return the ratios of the rates, the median of interleaved rounds."""
    rounds, requests = (1, 400) if quick else (7, 4_000)
    with ExitStack() as stack:
        folder = installed(stack.enter_context(tempfile.TemporaryDirectory()))
        serve = ["-c", "from capset_cli import main; main()", "serve", "--port", "0", "--insecure"]
        capset = stack.enter_context(running(serve, folder))[1]
        bare = stack.enter_context(running(["-m", "lab.benchmarks.bare_fastapi"], folder))[1]
        read, write = (call_of(capset, "rates", name) for name in ("look", "keep"))
        samples: list[tuple[float, float, float]] = []
        for _ in range(rounds + 1):  # the first is to warm up
            times = (_rate(bare, read, requests), _rate(capset, read, requests), _rate(capset, write, requests // 4))
            samples.append(times)
    fastapi, reads, writes = (statistics.median(sample[place] for sample in samples[1:]) for place in range(3))
    peers = {"bare FastAPI": f"{fastapi:.0f}/s", "REST read": f"{reads:.0f}/s", "durable write": f"{writes:.0f}/s"}
    of_bare = statistics.median(sample[1] / sample[0] for sample in samples[1:])
    of_read = statistics.median(sample[2] / sample[1] for sample in samples[1:])
    return [
        Row("REST read", round(of_bare, 2), "of the requests/s of bare FastAPI", 0.55, "at least", peers),
        Row("durable REST write", round(of_read, 2), "of the requests/s of a REST read", 0.36, "at least", peers),
    ]


def installed(folder: str) -> str:
    """Lay the capability into a folder as an installer does, and return the folder."""
    info = Path(folder, "capset_rates-1.dist-info")
    info.mkdir()
    (info / "METADATA").write_text(_METADATA)
    (info / "entry_points.txt").write_text(_ENTRY_POINTS)
    return folder


def _rate(address: str, request: bytes, requests: int) -> float:
    started = time.perf_counter()
    asyncio.run(ask(address, request, requests // CONNECTIONS, CONNECTIONS))
    return requests // CONNECTIONS * CONNECTIONS / (time.perf_counter() - started)


if __name__ == "__main__":
    print(*measure(quick="--quick" in sys.argv), sep="\n")
