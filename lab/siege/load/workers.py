"""Workers: runs that are queued on one PostgreSQL, done by one worker and by several."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg

from lab.siege.battle import database
from lab.siege.host import Host, Server
from lab.siege.load.quotas import can_limit, limited
from lab.siege.load.replicas import SHARE
from lab.siege.pace import Connections
from lab.siege.processes import cpu_seconds
from lab.siege.tenants import Tenant, expect, make_sessions, make_tenants, post

AT_ONCE = 16
EDGE = 10
"""The first and the last tenth of the runs do not count: workers do not start and end at the same moment."""
PATIENCE_SECONDS = 300.0
_ENDED = "SELECT ended_at FROM runs WHERE queue = %s AND state = 'succeeded' ORDER BY ended_at"
_WRITTEN = "SELECT count(*) FROM records WHERE tool = 'keep' AND phase = 'outcome' AND outcome = 'succeeded'"


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many workers there are, how many runs each number of them does, and how often."""

    workers: tuple[int, ...] = (1, 2)
    runs: int = 150
    rounds: int = 2


def measure(sizes: Sizes, *, shares: Sequence[float | None] | None = None) -> dict[str, Any]:
    """Return the runs a second of each number of workers, with a part of a core for each; ``None`` is all for all.

    A run is a call with an effect in a session of its own. By default both are measured, where this process may set
    quotas.
    """
    with database("postgres") as (folder, url), ExitStack() as stack:
        host = Host.of(folder, url)
        admin = host.make_key("admin", org=None, scopes=("capset:admin",))
        server = stack.enter_context(host.serving("server"))
        field = _Field(host, url, server, asyncio.run(_sessions(server, admin, sizes.runs)))
        chosen = shares or ((None, SHARE) if can_limit() else (None,))
        keys = [(share, count) for share in chosen for count in sizes.workers]
        rounds = [{key: field.measure(key[1], key[0]) for key in keys} for _ in range(sizes.rounds)]
        with psycopg.connect(url) as connection:
            count_row = connection.execute(_WRITTEN).fetchone()
        host.run("audit", "verify")
    rows = [_row(share, count, [measured[share, count] for measured in rounds]) for share, count in keys]
    return {"rows": rows, "queued": field.queued, "written": (count_row or (0,))[0], "verified": True}


def misses(measurement: dict[str, Any]) -> list[str]:
    """Return what of the promises a measurement misses: each run is done once."""
    if measurement["written"] != measurement["queued"]:
        return [f"{measurement['queued']} runs were queued, and {measurement['written']} are on record"]
    return []


@dataclass(frozen=True, slots=True)
class _Measured:
    """Runs a second, and the processor seconds of a run."""

    rate: float
    cpu: float


class _Field:
    """A server that takes runs, sessions, and how many runs were queued in all."""

    def __init__(self, host: Host, url: str, server: Server, sessions: Sequence[tuple[Tenant, str]]) -> None:
        self.queued = 0
        self._host = host
        self._url = url
        self._server = server
        self._sessions = sessions
        self._queues = 0

    def measure(self, count: int, share: float | None) -> _Measured:
        """Queue a run in each session, start so many workers, and see when the runs have ended."""
        self._queues += 1
        queue = f"queue{self._queues}"
        asyncio.run(self._queue(queue))
        with ExitStack() as stack:
            pids = [
                stack.enter_context(self._host.working(f"{queue}-{number}", "--queue", queue))
                for number in range(count)
            ]
            stack.enter_context(limited(pids, share))
            before = sum(map(cpu_seconds, pids))
            ends = self._wait(queue)
            cpu = sum(map(cpu_seconds, pids)) - before
        edge = len(ends) // EDGE
        middle = ends[edge : len(ends) - edge]
        return _Measured((len(middle) - 1) / (middle[-1] - middle[0]), cpu / len(ends))

    async def _queue(self, queue: str) -> None:
        connections = Connections(self._server.port)
        waiting = iter(self._sessions)

        async def work() -> None:
            for tenant, session in waiting:
                body = {"session_id": session, "tool": "keep", "arguments": {"text": "a run"}, "queue": queue}
                expect(await connections.ask(post("/v1/runs", tenant.key, body)), 202)

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
        connections.close()
        self.queued += len(self._sessions)

    def _wait(self, queue: str) -> list[float]:
        until, ends = time.monotonic() + PATIENCE_SECONDS, list[float]()
        with psycopg.connect(self._url, autocommit=True) as connection:
            while time.monotonic() < until:
                ends = [datetime.fromisoformat(row[0]).timestamp() for row in connection.execute(_ENDED, (queue,))]
                if len(ends) == len(self._sessions):
                    return ends
                time.sleep(0.25)
        raise RuntimeError(f"{len(ends)} of {len(self._sessions)} runs ended within {PATIENCE_SECONDS:g} s")


async def _sessions(server: Server, admin: str, count: int) -> list[tuple[Tenant, str]]:
    connections = Connections(server.port)
    owned_sessions = await make_sessions(connections, await make_tenants(connections, admin, 4, orgs=2), count)
    connections.close()
    return owned_sessions


def _row(share: float | None, count: int, rounds: Sequence[_Measured]) -> dict[str, Any]:
    return {
        "workers": count,
        "cores_each": share,
        "rate": round(statistics.median(measured.rate for measured in rounds), 1),
        "rates": [round(measured.rate, 1) for measured in rounds],
        "milliseconds_of_cpu": round(statistics.median(measured.cpu for measured in rounds) * 1e3, 1),
    }
