"""A crowd: many open sessions and followers on one server, and calls and turns at a steady rate among them."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lab.siege.battle import database
from lab.siege.host import Host, Server
from lab.siege.load.followers import Follower
from lab.siege.pace import Connections, Timings, keep_pace, percentiles
from lab.siege.processes import cpu_seconds, peak_rss, usage
from lab.siege.tenants import Tenant, call, expect, make_sessions, make_tenants, post

PRINCIPALS, ORGS = 20, 4
WARM_SECONDS = 5.0
PATIENCE_SECONDS = 60.0
"""How long the last events may take to arrive after the load has ended."""
OPEN_AT_ONCE = 32
SCRIPT = "steps:\n  - {text: Done., repeat: 10000}\n"
TARGET_MS, TARGET_BYTES = 250.0, 10**9


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many sessions and followers there are, and the calls a second for so many seconds."""

    sessions: int = 10_000
    followers: int = 1_000
    rate: float = 60.0
    seconds: float = 60.0


def measure(engine: str, sizes: Sizes) -> dict[str, Any]:
    """Return what a server on an engine made of a crowd."""
    with database(engine) as (folder, url):
        host = Host.of(folder, url)
        script = folder / "script.yaml"
        script.write_text(SCRIPT)
        admin = host.make_key("admin", org=None, scopes=("capset:admin",))
        with host.serving("server", "--model", f"script:{script}") as server:
            measurement = asyncio.run(_measure(server, admin, sizes))
        host.run("audit", "verify")
    return measurement


def misses(measurement: dict[str, Any]) -> list[str]:
    """Return what of the targets a measurement misses."""
    followers = measurement["followers"]
    bounds_met = {
        f"p99 of a call below {TARGET_MS:g} ms": measurement["calls"]["p99"] < TARGET_MS,
        "memory below 1 GB": measurement["peak_rss"] < TARGET_BYTES,
        f"answers as expected, not {measurement['odd']}": not measurement["odd"],
        "every stream open to the end, with all of its events": followers["complete"] == followers["opened"],
    }
    return [name for name, is_held in bounds_met.items() if not is_held]


async def _measure(server: Server, admin: str, sizes: Sizes) -> dict[str, Any]:
    connections = Connections(server.port)
    tenants = await make_tenants(connections, admin, PRINCIPALS, orgs=ORGS)
    started, idle = time.perf_counter(), usage(server.pid)
    sessions = await make_sessions(connections, tenants, sizes.sessions)
    making_seconds = time.perf_counter() - started
    followed = sessions[: sizes.followers]
    followers = await _open(server.port, followed)
    opened = usage(server.pid)
    timings = Timings()
    load = _Load(connections, sessions, timings)
    await keep_pace(sizes.rate, WARM_SECONDS, load.call)
    warm = Timings()
    load.timings, timings = warm, warm
    before, since = cpu_seconds(server.pid), time.perf_counter()
    await asyncio.gather(
        keep_pace(sizes.rate, sizes.seconds, load.call),
        keep_pace(len(followed) / sizes.seconds, sizes.seconds, load.turn),
    )
    share = (cpu_seconds(server.pid) - before) / (time.perf_counter() - since)
    await _arrived(followers)
    loaded = usage(server.pid)
    complete = sum(follower.is_open and not follower.gaps and follower.turns == 1 for follower in followers)
    measurement = {
        "sessions": {"made": len(sessions), "per_second": round(len(sessions) / making_seconds)},
        "followers": {
            "opened": len(followers),
            "complete": complete,
            "events": sum(follower.events for follower in followers),
        },
        "rate": sizes.rate,
        "seconds": sizes.seconds,
        "calls": percentiles(timings.seconds["call"]),
        "turns": percentiles(timings.seconds["turn"]),
        "odd": dict(timings.odd),
        "peak_rss": peak_rss(server.pid),
        "rss": {"idle": idle.rss, "opened": opened.rss, "loaded": loaded.rss},
        "descriptors": loaded.descriptors,
        "threads": loaded.threads,
        "server_cores": round(share, 2),
    }
    for follower in followers:
        follower.close()
    connections.close()
    return measurement


async def _open(port: int, followed: Sequence[tuple[Tenant, str]]) -> list[Follower]:
    remaining, followers = iter(followed), list[Follower]()

    async def work() -> None:
        for owner, session in remaining:
            followers.append(await Follower.open(port, session, owner.key))

    await asyncio.gather(*(work() for _ in range(OPEN_AT_ONCE)))
    return followers


async def _arrived(followers: Sequence[Follower]) -> None:
    """Wait until every stream has told of the end of its turn, or for as long as that may take."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end and not all(follower.turns or not follower.is_open for follower in followers):  # noqa: ASYNC110
        await asyncio.sleep(0.1)


class _Load:
    """The calls, of any session, and the turns, one in each followed session."""

    def __init__(self, connections: Connections, sessions: Sequence[tuple[Tenant, str]], timings: Timings) -> None:
        self.timings = timings
        self._connections = connections
        self._sessions = sessions
        self._random = random.Random(1)

    async def call(self, number: int, due: float) -> None:
        """Make a call of some session: every second one has an effect."""
        owner, session = self._random.choice(self._sessions)
        tool = ("repeat", "keep")[number % 2]
        await self._ask("call", due, call(session, owner.key, tool, text=f"number {number}"), 200)

    async def turn(self, number: int, due: float) -> None:
        """Begin the turn of a followed session."""
        owner, session = self._sessions[number]
        path = f"/v1/sessions/{session}/messages"
        await self._ask("turn", due, post(path, owner.key, {"content": "go on"}), 202)

    async def _ask(self, kind: str, due: float, http_request: bytes, status: int) -> None:
        timings, problem = self.timings, None
        try:
            expect(await self._connections.ask(http_request), status)
        except Exception as error:  # whatever it is, it is counted and told
            problem = str(error) or type(error).__name__
        timings.note(kind, time.perf_counter() - due, problem)
