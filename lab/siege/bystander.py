"""The bystander: reads of another organisation, health checks, and the size of the servers, while others attack."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from dataclasses import dataclass, field

from lab.siege.attack import Attack
from lab.siege.connection import Connection, in_time, request
from lab.siege.processes import usage
from lab.siege.site import Site

READERS = 4
"""Connections that read at once, each its next read when the one before is answered."""
PROBE_SECONDS = 0.01
SAMPLE_SECONDS = 0.05
PATIENCE_SECONDS = 20.0
"""Seconds after which an answer counts as failed."""


@dataclass
class Seen:
    """What the bystander saw: times in seconds, sizes in bytes."""

    seconds: float = 0.0
    reads: list[float] = field(default_factory=list[float])
    failed: Counter[str] = field(default_factory=Counter[str])
    wait: float = 0.0
    """The longest time until an answer came, of whatever kind."""
    health: list[float] = field(default_factory=list[float])
    rss: int = 0
    threads: int = 0

    def joined(self, other: Seen) -> Seen:
        """Return what was seen in both times."""
        return Seen(
            self.seconds + other.seconds,
            self.reads + other.reads,
            self.failed + other.failed,
            max(self.wait, other.wait),
            self.health + other.health,
            max(self.rss, other.rss),
            max(self.threads, other.threads),
        )

    @property
    def rate(self) -> float:
        """Answers a second with 200."""
        return len(self.reads) / self.seconds if self.seconds else 0.0


def p99(times: list[float]) -> float:
    """Return the 99th percentile, and the largest of fewer than a hundred."""
    if len(times) < 2:
        return max(times, default=float("inf"))
    return statistics.quantiles(times, n=100, method="inclusive")[98] if len(times) >= 100 else max(times)


async def watch(site: Site, attack: Attack, ended: asyncio.Event) -> Seen:
    """Ask, probe and sample until ``ended`` is set; a request that is then under way counts for as long as it took."""
    seen = Seen()
    started = time.perf_counter()
    work = [_ask(site, attack, seen, ended) for _ in range(READERS)]
    await asyncio.gather(*work, _probe(site.port, seen, ended), _sample(site, seen, ended))
    seen.seconds = time.perf_counter() - started
    return seen


async def _ask(site: Site, attack: Attack, seen: Seen, ended: asyncio.Event) -> None:
    asked = attack.asks(site)
    async with Connection(site.port) as connection:
        while not ended.is_set():
            started = time.perf_counter()
            status = await in_time(connection, asked, PATIENCE_SECONDS)
            seen.wait = max(seen.wait, time.perf_counter() - started)
            if status == "200":
                seen.reads.append(time.perf_counter() - started)
                continue
            if status not in attack.served:
                seen.failed[status] += 1
            await asyncio.sleep(0.01)


async def _probe(port: int, seen: Seen, ended: asyncio.Event) -> None:
    asked = request("GET", "/v1/healthz")
    async with Connection(port) as connection:
        while not ended.is_set():
            started = time.perf_counter()
            if await in_time(connection, asked, PATIENCE_SECONDS) != "200":
                seen.failed["healthz"] += 1
            seen.health.append(time.perf_counter() - started)
            await asyncio.sleep(PROBE_SECONDS)


async def _sample(site: Site, seen: Seen, ended: asyncio.Event) -> None:
    while not ended.is_set():
        for pid in site.pids:
            held = usage(pid)
            seen.rss, seen.threads = max(seen.rss, held.rss), max(seen.threads, held.threads)
        await asyncio.sleep(SAMPLE_SECONDS)
