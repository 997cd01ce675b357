"""An attack: what it does, which answers it may get, and the bounds that hold meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from lab.siege.connection import Connection, in_time, request
from lab.siege.site import Member, Site

Work = Callable[[Site, float], Awaitable[Counter[str]]]
"""Attacks until a time in ``time.monotonic()`` seconds, and returns how often it was answered how."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What holds while an attack runs: seconds, a share of the rate without it, bytes."""

    health: float = 0.1
    rate: float = 0.5
    rss: int = 600_000_000
    recovered: float = 1.0
    wait: float = 5.0
    """The longest time until the bystander was answered."""
    p99: float = 5.0
    """The 99th percentile of those times."""


def read(site: Site) -> bytes:
    """Return a read of the bystander's."""
    return request("GET", f"/v1/agents/{site.bystander.agent}", site.bystander.key)


def call(member: Member, tool: str, arguments: str) -> bytes:
    """Return a call of one tool."""
    body = f'{{"tool":"{tool}","arguments":{arguments}}}'.encode()
    return request("POST", f"/v1/sessions/{member.session}/calls", member.key, body)


def instant_call(site: Site) -> bytes:
    """Return a call of the bystander's that a thread answers at once."""
    return call(site.bystander, "instant", '{"number":1}')


def write(site: Site) -> bytes:
    """Return a call of the bystander's that writes a file."""
    return call(site.bystander, "write_file", '{"path":"/note.txt","content":"noted"}')


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack. ``answers`` are the statuses that it may get, ``closed`` for a closed connection.

    ``asks`` returns what the bystander asks meanwhile, over and over, and ``served`` are the answers it may get.
    ``engines`` are those of the databases of servers that it is for.
    """

    name: str
    work: Work
    answers: frozenset[str]
    bounds: Bounds = Bounds()
    asks: Callable[[Site], bytes] = read
    served: frozenset[str] = frozenset({"200"})
    engines: tuple[str, ...] = ("sqlite", "postgres")


async def flood(
    port: int, until: float, http_request: bytes, *, connections: int = 8, timeout: float = 15.0
) -> Counter[str]:
    """Send a request over and over on some connections at once, and count the answers."""
    answers: Counter[str] = Counter()

    async def send_requests() -> None:
        async with Connection(port) as connection:
            while time.monotonic() < until:
                answers[await in_time(connection, http_request, timeout)] += 1

    await asyncio.gather(*(send_requests() for _ in range(connections)))
    return answers
