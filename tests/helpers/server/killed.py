"""A server with a runner, on the database that it is given, which serves until it is killed.

It prints one line of JSON: its address, and the keys of ada and of one who may approve what she asks for. Tests start
it with ``serving``.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE

from scripts.packages import ROOT
from tests.helpers.cli.forking import Forked, warm
from tests.helpers.cli.support import ENVIRON
from tests.helpers.server.approving import till
from tests.helpers.server.runners import Parrot
from tests.helpers.server.support import site

_HERE = Path(__file__)


@dataclass(frozen=True, slots=True)
class Killed:
    """Such a server: its process, and what it printed."""

    process: Forked
    url: str
    key: str
    approver: str


@contextmanager
def serving(store: str) -> Generator[Killed]:
    """Start one on a database in a process of its own, and kill it at the end."""
    environ = {**dict(ENVIRON), "PYTHONPATH": str(ROOT)}
    modules = "tests.helpers.server.approving", "tests.helpers.server.runners", "tests.helpers.server.support"
    process = warm(_HERE, tuple(environ.items()), *modules, doors=True).start(
        [store], env=environ, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        yield Killed(process, **json.loads(process.stdout.readline()))
    finally:
        process.kill()
        process.communicate()


async def main(store: str) -> None:
    """Serve for ever."""
    async with site(till, store=store, generator=Parrot()) as server:
        approver = await server.key("bea")
        print(json.dumps({"url": server.url, "key": server.keys["ada"], "approver": approver}), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
