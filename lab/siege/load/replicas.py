"""Replicas: several servers on one PostgreSQL, each with its callers, and one chain that all of them write."""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import psycopg

from lab.siege.battle import database
from lab.siege.host import Host, Server
from lab.siege.load.callers import Called, keep_busy
from lab.siege.load.quotas import can_limit, limited
from lab.siege.pace import Connections, percentiles
from lab.siege.processes import cpu_seconds
from lab.siege.tenants import make_sessions, make_tenants

TENANTS, ORGS = 4, 2
AT_ONCE = 16
"""Calls under way at once at each server."""
WARM_SECONDS = 2.0
SHARE = 0.25
"""The part of a core that each server has where none may take what others need."""
TARGET = 1.7
"""How many times the calls of one server two of them take, where there are cores for both."""
_COUNT = "SELECT count(*) FROM records WHERE tool = 'keep' AND phase = 'outcome' AND outcome = 'succeeded'"


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many servers there are, and how often and for how many seconds each number of them is measured."""

    servers: tuple[int, ...] = (1, 2, 3)
    rounds: int = 5
    seconds: float = 6.0


def measure(sizes: Sizes, *, shares: Sequence[float | None] | None = None) -> dict[str, Any]:
    """Return the calls a second of each number of servers, with a part of a core for each; ``None`` is all for all.

    By default both are measured, where this process may set quotas.
    """
    with database("postgres") as (folder, url), ExitStack() as stack:
        host = Host.of(folder, url)
        admin = host.make_key("admin", org=None, scopes=("capset:admin",))
        postmaster = int((folder / "postgres/postmaster.pid").read_text().split()[0])
        servers = [stack.enter_context(host.serving(f"server{number}")) for number in range(max(sizes.servers))]
        field = _Field(servers, postmaster, asyncio.run(_sessions(servers[0], admin)))
        chosen = shares or ((None, SHARE) if can_limit() else (None,))
        keys = [(share, count) for share in chosen for count in sizes.servers]
        rounds = [{key: field.measure(key[1], key[0], sizes.seconds) for key in keys} for _ in range(sizes.rounds)]
        with psycopg.connect(url) as connection:
            count_row = connection.execute(_COUNT).fetchone()
        host.run("audit", "verify")
    rows = [_row(share, count, [measured[share, count] for measured in rounds]) for share, count in keys]
    return {"rows": rows, "acknowledged": field.acknowledged, "written": (count_row or (0,))[0], "verified": True}


def misses(measurement: dict[str, Any]) -> list[str]:
    """Return what of the promises a measurement misses; a ratio where the servers share the cores is no promise."""
    problems = [f"{row['odd']} odd answers of {row['servers']} servers" for row in measurement["rows"] if row["odd"]]
    if measurement["written"] != measurement["acknowledged"]:
        problems.append(
            f"{measurement['acknowledged']} calls were acknowledged, and {measurement['written']} are on record"
        )
    ratio = ratios(measurement).get((SHARE, 2))
    if ratio is not None and ratio < TARGET:
        problems.append(f"two servers took {ratio:.2f} times the calls of one, not {TARGET}")
    return problems


def ratios(measurement: dict[str, Any]) -> dict[tuple[float | None, int], float]:
    """Return how many times the calls of one server several took, by the cores of each and their number."""
    rates = {(row["cores_each"], row["servers"]): row["rate"] for row in measurement["rows"]}
    return {key: rate / rates[key[0], 1] for key, rate in rates.items() if (key[0], 1) in rates}


@dataclass(frozen=True, slots=True)
class _Measured:
    """Calls of one measurement, and the processor time of servers, PostgreSQL and callers."""

    called: list[Called]
    seconds: float
    servers: float
    postgres: float

    @property
    def calls(self) -> int:
        return sum(len(caller.seconds) for caller in self.called)


class _Field:
    """Servers that run, sessions of theirs, and how many calls were acknowledged in all."""

    def __init__(self, servers: Sequence[Server], postmaster: int, sessions: list[tuple[str, str]]) -> None:
        self.acknowledged = 0
        self._servers = servers
        self._postmaster = postmaster
        self._sessions = sessions

    def measure(self, count: int, share: float | None, seconds: float) -> _Measured:
        """Keep the first servers busy, each by callers in a process of its own."""
        chosen = self._servers[:count]
        pids = [server.pid for server in chosen]
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(count, context) as pool, limited(pids, share):
            self._call(pool, chosen, WARM_SECONDS)
            before = sum(map(cpu_seconds, pids)), cpu_seconds(self._postmaster)
            called = self._call(pool, chosen, seconds)
            after = sum(map(cpu_seconds, pids)), cpu_seconds(self._postmaster)
        return _Measured(called, seconds, after[0] - before[0], after[1] - before[1])

    def _call(self, pool: ProcessPoolExecutor, chosen: Sequence[Server], seconds: float) -> list[Called]:
        working = [pool.submit(keep_busy, server.port, self._sessions, AT_ONCE, seconds) for server in chosen]
        called = [future.result() for future in working]
        self.acknowledged += sum(len(caller.seconds) - caller.odd for caller in called)
        return called


async def _sessions(server: Server, admin: str) -> list[tuple[str, str]]:
    connections = Connections(server.port)
    tenants = await make_tenants(connections, admin, TENANTS, orgs=ORGS)
    owned_sessions = await make_sessions(connections, tenants, AT_ONCE)
    connections.close()
    return [(session, tenant.key) for tenant, session in owned_sessions]


def _row(share: float | None, count: int, rounds: Sequence[_Measured]) -> dict[str, Any]:
    calls = sum(measured.calls for measured in rounds)
    taken = sum(measured.seconds for measured in rounds)
    used = {
        "server": sum(measured.servers for measured in rounds),
        "postgres": sum(measured.postgres for measured in rounds),
        "callers": sum(each.cpu for measured in rounds for each in measured.called),
    }
    return {
        "servers": count,
        "cores_each": share,
        "rate": round(statistics.median(measured.calls / measured.seconds for measured in rounds), 1),
        "rates": [round(measured.calls / measured.seconds, 1) for measured in rounds],
        "calls": percentiles([second for measured in rounds for each in measured.called for second in each.seconds]),
        "odd": sum(each.odd for measured in rounds for each in measured.called),
        "cores": {name: round(seconds / taken, 2) for name, seconds in used.items()},
        "microseconds_a_call": {name: round(seconds / calls * 1e6) for name, seconds in used.items()},
    }
