"""Two servers on one database, and two workers where a site has some: each can be killed, frozen and started again."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capset import Kernel, Principal
from capset_server.auth.keys import create_key
from lab.faults.matrix.tools import ENTRY_POINTS, METADATA
from lab.siege.connection import Connection, request
from lab.siege.site import Member
from lab.siege.site import Site as Besieged
from tests.databases import Server
from tests.helpers.cli.forking import Forked, warm
from tests.helpers.cli.support import clean_environment
from tests.ports import unused_port
from tests.redis_servers import RedisServer

ROOT = Path(__file__).parents[3]
SERVE = Path(__file__).with_name("serve.py")
STEPS = 4
"""How many effects one turn has, one after the other."""
START_SECONDS = 30.0
WORKERS = 2
_SERVES = re.compile(r"serves http://127.0.0.1:(\d+)|capset works on ")
_SCOPES = ("capset:read", "capset:call", "capset:write", "capset:audit", "capset:approve")
_FILES = ("session_files:read", "session_files:write")


@dataclass
class Served:
    """One server or worker: the process that runs now, if any, and how to start the next."""

    name: str
    words: tuple[str, ...]
    """Its command line."""
    folder: Path
    environ: dict[str, str]
    preload: dict[str, str]
    """What its interpreter has to have in its environment when it starts."""
    port: int = 0
    process: Forked | None = None
    starts: int = 0

    @property
    def log(self) -> Path:
        """What its newest process has said."""
        return self.folder / f"{self.name}-{self.starts}.log"

    @property
    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Start its process, from a warm one, and do not wait until it serves."""
        self.starts += 1
        base = clean_environment(Path("/"), PYTHONPATH=str(ROOT), **self.preload)  # one warm process for all sites
        modules = ("lab.faults.matrix.tools", "psycopg", "capset.stores.sql")
        with self.log.open("w") as log:
            self.process = warm(SERVE, tuple(base.items()), *modules, doors=True).start(
                self.words,
                env={**self.environ, **self.preload}, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                text=True,
            )  # fmt: skip

    def signal(self, number: int) -> None:
        """Send its process a signal."""
        if self.process is not None:
            self.process.send_signal(number)

    async def ended(self, seconds: float) -> bool:
        """Wait until its process has ended, and return whether it has in time."""
        end = time.monotonic() + seconds
        while self.is_alive and time.monotonic() < end:  # noqa: ASYNC110  # a process has no event
            await asyncio.sleep(0.01)
        return not self.is_alive

    async def serves(self) -> None:
        """Wait until it has said that it serves. Raises ``RuntimeError`` if it has ended, or does not in time."""
        end = time.monotonic() + START_SECONDS
        while not _SERVES.search(self.log.read_text()):
            if not self.is_alive or time.monotonic() > end:
                raise RuntimeError(f"the {self.name} did not start: {self.log.read_text()[-2000:]}")
            await asyncio.sleep(0.02)

    def kill(self) -> None:
        """Kill its process, and wait for its end."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@dataclass
class Site:
    """Two servers on one database, workers beside them, and who may do what there."""

    folder: Path
    url: str
    postgres: Server | None
    servers: list[Served]
    workers: list[Served]
    redis: RedisServer | None = None
    key: str = ""
    approver: str = ""
    agent: str = ""
    disk: Path | None = None
    """The file that tells its disk to be full or slow, where it has such a disk."""
    clock: Path | None = None
    """The file that says how far the clock of the second server is off, where that can be."""

    async def ask(
        self, server: int, method: str, path: str, body: bytes = b"", *, key: str = "", idempotency: str = "",
        seconds: float = 15.0,
    ) -> tuple[int, Any]:  # fmt: skip
        """Ask a server on a connection of its own; the status is 0 where no answer came."""
        headers = {"idempotency-key": idempotency} if idempotency else {}
        async with Connection(self.servers[server].port) as connection:
            try:
                async with asyncio.timeout(seconds):
                    answer = await connection.ask(request(method, path, key or self.key, body, headers))
            except TimeoutError:
                return 0, None
        return answer.status, answer.body if "/files/" in path else json.loads(answer.body or b"null")

    async def session(self, server: int = 0) -> str:
        """Return a new session."""
        status, created = await self.ask(server, "POST", "/v1/sessions", json.dumps({"agent_id": self.agent}).encode())
        assert status == 201, (status, created)
        return created["id"]

    async def besieged(self) -> Besieged:
        """Return the same site as attacks know one; who attacks has a session of their own."""
        member = Member(self.key, self.agent, await self.session())
        return Besieged(
            tuple(server.port for server in self.servers), (), member, member, (), self.key, member, self.url, self.key
        )

    async def revive(self) -> list[str]:
        """Start the servers and workers whose processes have ended, as a supervisor would, and return their names."""
        gone = [process for process in (*self.servers, *self.workers) if not process.is_alive]
        for stopped in gone:
            stopped.start()
        return [process.name for process in gone]


@asynccontextmanager
async def opened(
    folder: Path,
    url: str,
    postgres: Server | None,
    *preloads: Mapping[str, str],
    workers: int = 0,
    redis: RedisServer | None = None,
) -> AsyncGenerator[Site]:
    """Start two servers on a database, and end them; ``preloads`` are variables for the interpreter of each."""
    assert len(preloads) == 2
    info = folder / "site/capset_faults-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(METADATA)
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    calls = [{"calls": [{"tool": "step", "arguments": {"number": n, "folder": str(folder)}}]} for n in range(STEPS)]
    (folder / "script.json").write_text(json.dumps({"steps": [*calls, {"text": "Done."}]}))
    environ = clean_environment(folder, PYTHONPATH=os.pathsep.join((str(folder / "site"), str(ROOT))))
    common = ("--db", url, "--model", f"script:{folder / 'script.json'}")
    beside = () if redis is None else ("--redis", redis.url)
    servers: list[Served] = []
    for number, preload in enumerate(preloads):
        port = unused_port()
        words = ("serve", "--port", str(port), "--unsigned", *common, *beside)
        servers.append(Served(f"server {number}", words, folder, environ, dict(preload), port))
    working = [Served(f"worker {number}", ("worker", *common), folder, environ, {}) for number in range(workers)]
    site = Site(folder, url, postgres, servers, working, redis)
    async with Kernel(store=url) as kernel:
        for name in ("key", "approver"):
            principal = Principal(name, org="faults", permissions=_FILES)
            setattr(site, name, (await create_key(kernel, name, principal, scopes=_SCOPES))[1])
    try:
        for some in (servers, working):  # a worker finds the tables made
            for process in some:
                process.start()
            for process in some:
                await process.serves()
        uses = ["fault_tools", "session_file_system", "stateless_todo_list"]
        body = json.dumps({"name": "worker", "capabilities": uses}).encode()
        status, created = await site.ask(0, "POST", "/v1/agents", body)
        assert status == 201, (status, created)
        site.agent = created["id"]
        yield site
    finally:
        for process in (*servers, *working):
            if process.is_alive:
                process.signal(signal.SIGCONT)
                process.signal(signal.SIGTERM)
        for process in (*servers, *working):
            await process.ended(15)
            process.kill()
