"""Runs: one fault at one moment at a site, and what came of it."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from lab.faults.matrix.book import Book
from lab.faults.matrix.cells import ENDING, Row
from lab.faults.matrix.faults import moment_of
from lab.faults.matrix.moments import MOMENTS, TARGET
from lab.faults.matrix.site import WORKERS, Site, opened
from tests.databases import Server
from tests.redis_servers import redis_server

RECOVERY_SECONDS = 10.0
"""How soon after a component's return each server is ready and makes a call."""
RUN_SECONDS = 150.0
"""How long one run may take in all."""


@dataclass(frozen=True)
class Run:
    """What came of one run."""

    seed: str
    recovery: float
    acknowledged: int
    lost: list[str]
    doubled: list[str]
    open_intents: int
    chain: str
    problems: list[str]

    @property
    def is_held(self) -> bool:
        """Whether all that is promised held."""
        return not self.misses

    @property
    def misses(self) -> list[str]:
        """What did not hold, a line each; of a run in which all else held, also that it recovered late."""
        late = [] if self.recovery <= RECOVERY_SECONDS else [f"seed {self.seed}: recovered after {self.recovery:.1f} s"]
        return self.wrongs or late

    @property
    def wrongs(self) -> list[str]:
        """What did not hold apart from the time, a line each."""
        lines = [
            *self.lost,
            *(f"twice: {name}" for name in self.doubled),
            *([self.chain] if self.chain else []),
            *(problem.strip().splitlines()[-1] for problem in self.problems),
            *([f"{self.open_intents} open intents"] if self.open_intents else []),
        ]
        return [f"seed {self.seed}: {line[:200]}" for line in lines]


class Machine:
    """The PostgreSQL servers, disks and clocks that sites are made with; made when they are first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._servers: dict[str, Server] = {}
        self.disk, self.clock = folder / "disk", folder / "clock"
        for path in (self.disk, self.clock):
            path.write_bytes(bytes(8))
        self.databases = folder / "databases"
        self.databases.mkdir()
        for path in (folder, self.databases):
            path.chmod(0o755)  # PostgreSQL's user reads there

    def missing(self, needs: str) -> str:
        """Return what is not installed here of what a site needs, if anything."""
        program = {"disk": "gcc", "clock": "gcc", "redis": "redis-server"}.get(needs)
        return program if program is not None and shutil.which(program) is None else ""

    def variables(self, needs: str) -> dict[str, str]:
        """Return the environment in which a process has such a disk or clock."""
        if needs not in ("disk", "clock"):
            return {}
        library, source = self.folder / f"{needs}.so", Path(__file__).with_name(f"{needs}.c")
        if not library.exists():
            subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
        settings = {"disk": {"CAPSET_DISK": str(self.disk), "CAPSET_DISK_FOLDER": str(self.databases)},
                "clock": {"CAPSET_CLOCK": str(self.clock)}}  # fmt: skip
        return {"LD_PRELOAD": str(library), **settings[needs]}

    async def postgres(self, needs: str) -> Server:
        """Return the PostgreSQL server for such sites; its own disk may be full, its clock is right."""
        kind = needs if needs == "disk" else ""
        if kind not in self._servers:
            folder = Path(tempfile.mkdtemp(prefix="pg-", dir=self.databases))
            folder.chmod(0o755)
            self._servers[kind] = await asyncio.to_thread(Server, folder, self.variables(kind))
            await self._servers[kind].prepare()
        return self._servers[kind]

    def remove(self) -> None:
        """Stop the PostgreSQL servers."""
        for server in self._servers.values():
            server.start()
            server.remove()


@contextmanager
def machine() -> Generator[Machine]:
    """Give a machine in a folder of its own, and remove it."""
    with tempfile.TemporaryDirectory(prefix="capset-faults-") as folder:
        host = Machine(Path(folder))
        try:
            yield host
        finally:
            host.remove()


@asynccontextmanager
async def site_for(machine: Machine, row: Row) -> AsyncGenerator[Site]:
    """Open a site on a new database, for the runs of a row."""
    preload = machine.variables(row.needs)
    preloads = ({}, preload) if row.needs == "clock" else (preload, preload)
    if row.needs == "disk" and row.engine == "PostgreSQL":
        preloads = ({}, {})  # it is PostgreSQL that writes
    workers = WORKERS if row.needs == "workers" else 0
    with (
        tempfile.TemporaryDirectory(prefix="site-", dir=machine.folder) as name,
        redis_server() if row.needs == "redis" else nullcontext() as redis,
    ):
        folder = Path(name)
        folder.chmod(0o755)
        if row.engine == "SQLite":
            data = machine.databases / f"{folder.name}"
            data.mkdir()
            async with opened(folder, f"sqlite:///{data / 'capset.db'}", None, *preloads, workers=workers) as site:
                site.disk, site.clock = machine.disk, machine.clock
                yield site
            return
        postgres = await machine.postgres(row.needs)
        with postgres.database() as url:
            async with opened(folder, url, postgres, *preloads, workers=workers, redis=redis) as site:
                site.disk, site.clock = machine.disk, machine.clock
                yield site


async def run(site: Site, row: Row, moment: str, seed: str, number: int) -> Run:
    """Have a fault befall a site at a moment, and return what came of it."""
    random = moment_of(f"{seed} {row.name} {moment} {number}")
    book = Book(site, await site.session(), f"{moment}-{number}", random)
    has_target = moment in ("starting", "draining")
    stop = asyncio.Event()
    began = asyncio.ensure_future(MOMENTS[moment](book, stop))
    try:
        async with asyncio.timeout(RUN_SECONDS):
            # Of a start, what matters are its first moments.
            await asyncio.sleep(random.uniform(0, 0.25) if moment == "starting" else random.uniform(0.2, 0.7))
            await row.strike(book, has_target)
            recovery = await _back(book, row, moment)
            stop.set()
            await began
            await book.repeat()
            findings = await book.check()
    except Exception:  # a run that goes wrong is a result, too
        return Run(seed, -1.0, 0, [], [], -1, "", [traceback.format_exc(limit=-3)])
    finally:
        stop.set()
        began.cancel()
    return Run(
        f"{seed} {number}", recovery, findings.acknowledged, findings.lost, findings.doubled, findings.open_intents,
        findings.chain, findings.problems,
    )  # fmt: skip


async def _back(book: Book, row: Row, moment: str) -> float:
    """Have what is gone start again, and return how long it took until all was well."""
    servers = book.site.servers
    if moment == "draining" and not await servers[TARGET].ended(20):
        book.problems.append("the server did not end within 20 s of SIGTERM")
        servers[TARGET].kill()
    since = time.monotonic()
    ended = await book.site.revive()
    if moment not in ("starting", "draining") and not (row.component in ("server", "worker") and row.fault in ENDING):
        book.problems += [f"the {name} ended by itself" for name in ended]
    recovery = await book.recovered(since)
    await asyncio.sleep(0.2)
    return recovery


def runs_of(row: Row, runs: int, seed: int) -> dict[str, list[Run]]:
    """Run the cells of a row, on one site; none if this machine lacks what they need."""
    with machine() as host:
        if missing := host.missing(row.needs):
            print(f"  {row.name}: left out, {missing} is not installed here", file=sys.stderr, flush=True)
            return {}
        return asyncio.run(_runs(host, row, runs, seed))


async def _runs(host: Machine, row: Row, runs: int, seed: int) -> dict[str, list[Run]]:
    runs_by_moment: dict[str, list[Run]] = {}
    async with site_for(host, row) as site:
        for moment in row.moments:
            runs_by_moment[moment] = [await run(site, row, moment, str(seed), number) for number in range(runs)]
            wrong = [miss for past_run in runs_by_moment[moment] for miss in past_run.misses]
            slowest = max(past_run.recovery for past_run in runs_by_moment[moment])
            summary = "; ".join(wrong) or f"held, back within {slowest:.1f} s"
            print(f"  {row.name}, {moment}: {summary}", file=sys.stderr, flush=True)
    return runs_by_moment
