"""A run of a call: the CPU of queueing it and of the worker that does it, beside the same call over REST; on SQLite."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from typing import Any
from urllib.request import urlopen

from lab.benchmarks.rest_call import call_of, cpu_of, cpu_seconds, post, running
from lab.benchmarks.row import Row

TARGET = 60
"""A run is a dozen transactions of two databases, a call of a tool that reads is one record: it must not grow."""
PATIENCE_SECONDS = 120.0
_MAIN = ["-c", "from capset_cli import main; main()"]


def measure(*, quick: bool) -> list[Row]:
    """Return how much more CPU a run takes than a call, on Linux, where that can be told."""
    if sys.platform != "linux":
        return []
    count, rounds = (20, 1) if quick else (200, 3)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        server, address = stack.enter_context(running([*_MAIN, "serve", "--insecure", "--port", "0"], folder))
        call = call_of(address, "test_math", "add")
        plain = statistics.median(cpu_of((server, address), call, 400) for _ in range(rounds))
        worker, _ = stack.enter_context(running([*_MAIN, "worker", "--insecure"], folder))
        session = _session(address)
        _wait(address, _queue(address, session, 10))  # to warm up
        idle = _idle(worker)
        costs: list[tuple[float, float, float]] = []
        for _ in range(rounds):
            before, began = (cpu_seconds(server), cpu_seconds(worker)), time.monotonic()
            queued = _queue(address, session, count)
            queueing = cpu_seconds(server) - before[0]
            _wait(address, queued)
            took = time.monotonic() - began
            costs.append((queueing / count, (cpu_seconds(worker) - before[1] - idle * took) / count, count / took))
    queueing, doing, rate = (statistics.median(cost[place] for cost in costs) for place in range(3))
    peers = {
        "REST call": f"{plain * 1e3:.2f} ms",
        "queueing": f"{queueing * 1e3:.2f} ms",
        "worker": f"{doing * 1e3:.2f} ms",
        "one worker": f"{rate:.0f}/s",
        "idle worker": f"{idle:.1%} of a core",
    }
    value = round((queueing + doing) / plain, 1)
    return [Row("a run of a call, CPU", value, "times the call over REST", TARGET, "at most", peers)]


def _session(address: str) -> str:
    agent = post(address, "/v1/agents", {"name": "runner", "capabilities": ["test_math"]})
    return post(address, "/v1/sessions", {"agent_id": agent["id"]})["id"]


def _queue(address: str, session: str, count: int) -> list[str]:
    body = {"session_id": session, "tool": "add", "arguments": {"a": 1, "b": 2}}
    return [post(address, "/v1/runs", body)["id"] for _ in range(count)]


def _wait(address: str, queued: list[str]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    for run in queued:
        while (state := _state(address, run)) in ("queued", "running"):
            if time.monotonic() > until:
                raise RuntimeError(f"the run {run} is {state} after {PATIENCE_SECONDS:g} s")
            time.sleep(0.1)
        if state != "succeeded":
            raise RuntimeError(f"the run {run} has {state}")


def _state(address: str, run: str) -> Any:  # JSON data
    with urlopen(f"{address}/v1/runs/{run}") as response:
        return json.load(response)["state"]


def _idle(worker: int, seconds: float = 3.0) -> float:
    """Return the part of a core that a worker takes with nothing to do."""
    before = cpu_seconds(worker)
    time.sleep(seconds)
    return (cpu_seconds(worker) - before) / seconds
