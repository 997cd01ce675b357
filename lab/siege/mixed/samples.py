"""Samples of a server under mixed load, and whether what it holds grows."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from lab.siege.pace import Timings, percentiles
from lab.siege.processes import cpu_seconds, usage

Sample = dict[str, Any]
"""``at`` seconds after the beginning: memory in bytes, descriptors, threads, cores, errors, and p99 by kind."""

WARM_SHARE = 0.25
"""The part of a soak that is left out of the slopes: what is made once is made there."""
WARM_SECONDS = 300.0
"""No more than these are left out."""
GROWTH = {"rss": 20_000_000, "descriptors": 10, "threads": 10}
"""By how much each may grow from the end of that part to the end of the soak, by the slope of its samples."""


class Sampler:
    """Samples of one server while others make its load."""

    def __init__(self, pid: int) -> None:
        self.samples: list[Sample] = []
        self.timings = Timings()
        self._pid = pid

    async def run(self, every: float) -> None:
        """Take a sample every so many seconds, until cancelled."""
        started = looked = time.monotonic()
        before, errors, taken = cpu_seconds(self._pid), 0, dict[str, int]()
        while True:
            await asyncio.sleep(every)
            now, cpu = time.monotonic(), cpu_seconds(self._pid)
            process_usage = usage(self._pid)
            new = {kind: times[taken.get(kind, 0) :] for kind, times in self.timings.seconds.items()}
            taken = {kind: len(times) for kind, times in self.timings.seconds.items()}
            error_count = self.timings.odd.total()
            self.samples.append(
                {
                    "at": round(now - started, 1),
                    "rss": process_usage.rss,
                    "descriptors": process_usage.descriptors,
                    "threads": process_usage.threads,
                    "cores": round((cpu - before) / (now - looked), 2),
                    "load": round(os.getloadavg()[0], 2),
                    "errors": error_count - errors,
                    "p99": {kind: percentiles(times)["p99"] for kind, times in sorted(new.items()) if times},
                }
            )
            looked, before, errors = now, cpu, error_count


def growth(samples: Sequence[Sample], name: str) -> float:
    """Return by how much something grew after the warm part: the median of all slopes, times the seconds."""
    settled = _settled(samples)
    slopes = [
        (later[name] - earlier[name]) / (later["at"] - earlier["at"]) for earlier, later in combinations(settled, 2)
    ]
    return statistics.median(slopes) * (settled[-1]["at"] - settled[0]["at"]) if slopes else 0.0


def _settled(samples: Sequence[Sample]) -> list[Sample]:
    end = samples[-1]["at"] if samples else 0.0
    return [sample for sample in samples if sample["at"] >= min(WARM_SHARE * end, WARM_SECONDS)]
