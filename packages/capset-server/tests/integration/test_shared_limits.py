"""Limits and budgets of three ``capset serve`` on one database: real processes, real HTTP (spec 4, G14, G15, G36)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import httpx2
import pytest

from tests.databases import require_scheme
from tests.helpers.cli.support import install
from tests.helpers.server.running import EVERYTHING, Running, running
from tests.helpers.server.support import call, make_agent

TILL = '''
import os

from capset import Capability, tool


def note(what):
    with open(os.environ["TILL"], "a") as file:
        file.write(what + "\\n")


@tool(effect="read", limits="3/1m")
async def peek() -> None:
    """Look, three times a minute."""
    note("peek")


@tool(effect="write", limits="3/1m")
async def stamp() -> None:
    """Stamp, three times a minute."""
    note("stamp")


@tool(effect="read")
async def glance() -> None:
    """Look."""
    note("glance")


@tool(effect="write")
async def mark() -> None:
    """Mark."""
    note("mark")


till = Capability("till", tools=[peek, stamp, glance, mark])
'''


class Servers:
    """Servers on one database, each with a folder of its own."""

    def __init__(self, folder: Path, db: str) -> None:
        self._folder = folder
        self._till = folder / "till.txt"
        packages = folder / "packages"
        packages.mkdir()
        install(packages, "till", TILL, capabilities={"till": "till:till"})
        self._environ = {"CAPSET_DB": db, "PYTHONPATH": str(packages), "TILL": str(self._till)}

    def start(self, stack: ExitStack, name: str) -> Running:
        """Start the server of a name, or start it again."""
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        return stack.enter_context(running(folder, **self._environ))

    def done(self) -> Counter[str]:
        """Return how often each tool's handler ran."""
        return Counter(self._till.read_text().split())


async def ask(clients: Iterable[httpx2.AsyncClient], session: str, tools: Iterable[str]) -> list[httpx2.Response]:
    """Make calls all at once, in turns over the clients."""
    several = list(clients)
    calls = [call(several[at % len(several)], session, tool) for at, tool in enumerate(tools)]
    return await asyncio.gather(*calls)


def codes(answers: Iterable[httpx2.Response]) -> Counter[str | None]:
    """Return how often calls were refused with each code; ``None`` is a call that was let through."""
    return Counter((answer.json().get("error") or {"code": None})["code"] for answer in answers)


@pytest.fixture(params=["sqlite", "postgresql"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Give the URL of a new database of each engine that servers can share."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'capset.db'}"
    require_scheme()
    return request.getfixturevalue("postgres_url")


@pytest.mark.gate
@pytest.mark.realtime
@pytest.mark.spec("D63", "G3", "G14", "G15", "G36")
async def test_three_servers_on_one_database_share_what_they_let_through(db: str, tmp_path: Path) -> None:
    group = Servers(tmp_path, db)
    with ExitStack() as servers:
        two, three = group.start(servers, "two"), group.start(servers, "three")
        with ExitStack() as first:
            first_server = group.start(first, "one")
            headers = {"Authorization": f"Bearer {first_server.key(org='acme', scopes=EVERYTHING)}"}
            async with AsyncExitStack() as stack:
                clients = [
                    await stack.enter_async_context(
                        httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=30, trust_env=False)
                    )
                    for server in (first_server, two, three)
                ]

                async def opened(**allowance: object) -> str:
                    agent = await make_agent(clients[0], "till", allowance=allowance or None)
                    return (await clients[1].post("/v1/sessions", json={"agent_id": agent["id"]})).json()["id"]

                # Fifty calls of each tool over all servers: each tool's own limit lets three through.
                answers = await ask(clients, await opened(), ["peek", "stamp", "stamp", "peek"] * 25)
                assert codes(answers) == {None: 6, "limit_exceeded": 94}
                assert group.done() == {"peek": 3, "stamp": 3}
                waits = [int(answer.headers["retry-after"]) for answer in answers if answer.status_code == 429]
                assert len(waits) == 94
                assert all(0 < wait <= 60 for wait in waits)

                # An agent's limit counts tools that read and tools that write together.
                mixed = await ask(
                    clients, await opened(limits=["3/1m"]), ["glance", "mark", "mark", "glance", "mark"] * 10
                )
                assert codes(mixed) == {None: 3, "limit_exceeded": 47}
                assert group.done().total() == 9

                # A session's budget is its own: one opening in each server, and another after a restart.
                session = await opened(session={"calls": 1})
                spent = await ask(clients, session, ["glance", "mark"] * 5)
                assert codes(spent) == {None: 1, "budget_exceeded": 9}
        restarted = group.start(servers, "one")
        async with httpx2.AsyncClient(base_url=restarted.url, headers=headers, timeout=30, trust_env=False) as client:
            assert codes(await ask([client], session, ["mark", "glance"])) == {"budget_exceeded": 2}
        assert group.done().total() == 10
        assert two.capset("audit", "verify").code == 0
