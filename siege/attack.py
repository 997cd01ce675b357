"""An attack: what it does, which answers it may get, and the bounds that hold meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from siege.connection import Connection, in_time
from siege.site import Site

Work = Callable[[Site, float], Awaitable[Counter[str]]]
"""Attacks until a time in ``time.monotonic()`` seconds, and returns how often it was answered how."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What holds while an attack runs: seconds, a share of the rate without it, bytes."""

    health: float = 0.1
    rate: float = 0.5
    rss: int = 600_000_000
    recovered: float = 1.0


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack. ``answers`` are the statuses that it may get, ``closed`` for a closed connection."""

    name: str
    work: Work
    answers: frozenset[str]
    bounds: Bounds = Bounds()


async def flood(port: int, until: float, asked: bytes, *, connections: int = 8, timeout: float = 15.0) -> Counter[str]:
    """Send a request over and over on some connections at once, and count the answers."""
    told: Counter[str] = Counter()

    async def one() -> None:
        async with Connection(port) as connection:
            while time.monotonic() < until:
                told[await in_time(connection, asked, timeout)] += 1

    await asyncio.gather(*(one() for _ in range(connections)))
    return told
