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
    observed = Seen()
    started = time.perf_counter()
    work = [_ask(site, attack, observed, ended) for _ in range(READERS)]
    await asyncio.gather(*work, _probe(site.port, observed, ended), _sample(site, observed, ended))
    observed.seconds = time.perf_counter() - started
    return observed


async def _ask(site: Site, attack: Attack, observed: Seen, ended: asyncio.Event) -> None:
    http_request = attack.asks(site)
    async with Connection(site.port) as connection:
        while not ended.is_set():
            started = time.perf_counter()
            status = await in_time(connection, http_request, PATIENCE_SECONDS)
            observed.wait = max(observed.wait, time.perf_counter() - started)
            if status == "200":
                observed.reads.append(time.perf_counter() - started)
                continue
            if status not in attack.served:
                observed.failed[status] += 1
            await asyncio.sleep(0.01)


async def _probe(port: int, observed: Seen, ended: asyncio.Event) -> None:
    http_request = request("GET", "/v1/healthz")
    async with Connection(port) as connection:
        while not ended.is_set():
            started = time.perf_counter()
            if await in_time(connection, http_request, PATIENCE_SECONDS) != "200":
                observed.failed["healthz"] += 1
            observed.health.append(time.perf_counter() - started)
            await asyncio.sleep(PROBE_SECONDS)


async def _sample(site: Site, observed: Seen, ended: asyncio.Event) -> None:
    while not ended.is_set():
        for pid in site.pids:
            process_usage = usage(pid)
            observed.rss, observed.threads = (
                max(observed.rss, process_usage.rss),
                max(observed.threads, process_usage.threads),
            )
        await asyncio.sleep(SAMPLE_SECONDS)
