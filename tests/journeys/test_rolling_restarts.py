"""Servers restarted one after the other under load, behind a proxy that asks who is ready (spec 10, D4, D5)."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, get_args

import httpx2
import pytest

from capset.definitions.calls.records import Outcome
from capset.stores.sql.schema.revisions import HEAD
from tests.databases import Server, connected, require_scheme
from tests.helpers.cli.support import Command, clean_environment, install
from tests.helpers.server.many_servers import ask_mcp
from tests.helpers.server.rest.turns import send
from tests.helpers.server.running import EVERYTHING, Running, running
from tests.helpers.server.sse import Event, following
from tests.helpers.server.support import call, make_agent
from tests.helpers.stores.sql.next_version import INDEXES, make_next_version
from tests.waiting import until

DELAY = 1.5
LOOK_SECONDS = 0.1
"""How often the proxy asks: several times within the delay."""
PACKAGE = '''
import asyncio
import os

from capset import Capability, tool


@tool(effect="write")
async def mark(number: int) -> int:
    """Leave a mark, and take some time."""
    with open(os.environ["MARKS"], "a") as file:
        file.write(f"{number}\\n")
    await asyncio.sleep(0.02 * (number % 10))
    return number


marks = Capability("marks", tools=[mark])
'''
TURN = [{"calls": [{"tool": "mark", "arguments": {"number": -1}}]}, {"text": "Done."}]


class Proxy(httpx2.AsyncBaseTransport):
    """Sends each request to the next server that was ready when it was last asked, and none a second time."""

    def __init__(self) -> None:
        self.servers: dict[str, httpx2.URL] = {}
        """Where the servers of each name are."""
        self.ready: list[str] = []
        self.sent: Counter[httpx2.URL] = Counter()
        self._turn = count()
        self._transport = httpx2.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request on."""
        url = self.servers[self.ready[next(self._turn) % len(self.ready)]]
        self.sent[url] += 1
        request.url = request.url.copy_with(host=url.host, port=url.port)
        request.headers["Host"] = url.netloc.decode()
        return await self._transport.handle_async_request(request)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    async def watch(self) -> None:
        """Ask all servers again and again whether they are ready."""
        async with httpx2.AsyncClient(timeout=2, trust_env=False) as client:
            while True:
                servers = [*self.servers.items()]
                answers = await asyncio.gather(*(_is_ready(client, url) for _, url in servers))
                self.ready = [name for (name, _), is_ready in zip(servers, answers, strict=True) if is_ready]
                await asyncio.sleep(LOOK_SECONDS)

    async def until_ready(self, *names: str) -> None:
        """Wait until these servers are ready, and no other."""
        await until(lambda: sorted(self.ready) == sorted(names), f"only {' and '.join(names)} to be ready")


async def _is_ready(client: httpx2.AsyncClient, url: httpx2.URL) -> bool:
    try:
        return (await client.get(url.join("/v1/readyz"))).status_code == 200
    except httpx2.TransportError:
        return False


@dataclass
class Load:
    """A client's requests, one after the other in each task, until ``over`` is set. Each has to succeed."""

    client: httpx2.AsyncClient
    session: str
    mcp: str
    over: asyncio.Event = field(default_factory=asyncio.Event)
    numbers: count[int] = field(default_factory=count)
    told: list[int] = field(default_factory=list[int])
    """The numbers of the marks that were acknowledged."""
    turns: int = 0
    events: list[Event] = field(default_factory=list[Event])
    streams: int = 0

    async def make_calls(self) -> None:
        """Leave marks over REST."""
        while not self.over.is_set():
            number = next(self.numbers)
            answer = await call(self.client, self.session, "mark", number=number)
            assert (answer.status_code, answer.json().get("data")) == (200, number), answer.text
            self.told.append(number)

    async def make_calls_of_mcp(self) -> None:
        """Leave marks over MCP."""
        while not self.over.is_set():
            number = next(self.numbers)
            params = {"name": "mark", "arguments": {"number": number}}
            answer = await ask_mcp(self.client, self.mcp, "tools/call", params=params)
            assert answer.status_code == 200, answer.text
            assert str(number) in answer.text
            assert '"isError":true' not in answer.text
            self.told.append(number)

    async def take_turns(self) -> None:
        """Have the agent take turns, each once the one before has ended."""
        while not self.over.is_set():
            assert (await send(self.client, self.session, "Go on.")).status_code == 202
            self.turns += 1
            await until(
                lambda: sum(event.type == "turn.ended" for event in self.events) >= self.turns, "the turn to end"
            )

    async def follow(self) -> None:
        """Follow the events, and come again with the last one's id whenever the stream ends, as browsers do."""
        while True:
            headers = {"Last-Event-ID": self.events[-1].id} if self.events else {}
            self.streams += 1
            async with following(self.client, f"/v1/sessions/{self.session}/events", headers=headers) as stream:
                async for event in stream:
                    self.events.append(event)


class Fleet:
    """Two servers on one database, and the proxy before them."""

    def __init__(self, folder: Path, db: str) -> None:
        self._folder = folder
        self._stacks: dict[str, ExitStack] = {}
        self.proxy = Proxy()
        self.running: dict[str, Running] = {}
        self.marks = folder / "marks"
        packages = folder / "packages"
        packages.mkdir()
        install(packages, "marks", PACKAGE, capabilities={"marks": "marks:marks"})
        (folder / "script.json").write_text(json.dumps({"steps": TURN * 2_000}))
        self._environ = {"CAPSET_DB": db, "PYTHONPATH": str(packages), "MARKS": str(self.marks)}
        self._next = folder / "next"

    def environ(self, *, is_next: bool) -> dict[str, str]:
        """Return the environment of a command, of the next version or of this one."""
        path = self._environ["PYTHONPATH"]
        return self._environ | ({"PYTHONPATH": f"{self._next}:{path}"} if is_next else {})

    def make_next(self) -> None:
        """Make the next version."""
        make_next_version(self._next)

    async def upgrade(self) -> None:
        """Bring the database to the next version's revision."""
        command = Command(self._folder, clean_environment(self._folder, **self.environ(is_next=True)))
        done = await asyncio.to_thread(command.anew, "db", "upgrade", "--json")
        assert done.code == 0, done.err

    async def start(self, name: str, *, is_next: bool = False) -> Running:
        """Start a server, or start it again."""
        server_folder = self._folder / name
        server_folder.mkdir(exist_ok=True)
        self._stacks[name] = ExitStack()
        model = f"script:{self._folder / 'script.json'}"
        environ = self.environ(is_next=is_next)
        starts = running(server_folder, "--drain-delay", str(DELAY), "--model", model, **environ)
        server = await asyncio.to_thread(self._stacks[name].enter_context, starts)
        self.proxy.servers[name] = httpx2.URL(server.url)
        self.running[name] = server
        return server

    async def stop(self, name: str) -> None:
        """Send a server SIGTERM, and see it end by itself, with 0."""
        await asyncio.to_thread(self._stacks.pop(name).close)

    async def close(self) -> None:
        """Stop what still runs."""
        await asyncio.gather(*map(self.stop, [*self._stacks]))


@asynccontextmanager
async def fleet(folder: Path, db: str) -> AsyncGenerator[Fleet]:
    """Give two servers that are ready."""
    opened_fleet = Fleet(folder, db)
    watching = asyncio.ensure_future(opened_fleet.proxy.watch())
    try:
        await asyncio.gather(*map(opened_fleet.start, ("one", "two")))
        await opened_fleet.proxy.until_ready("one", "two")
        yield opened_fleet
    finally:
        await opened_fleet.close()
        watching.cancel()


@asynccontextmanager
async def loaded(servers: Fleet) -> AsyncGenerator[Load]:
    """Load two servers by way of their proxy while inside; afterwards all is checked that was asked of them."""
    async with AsyncExitStack() as stack:
        key = await asyncio.to_thread(servers.running["one"].key, org="acme", scopes=EVERYTHING)
        bearing = {"Authorization": f"Bearer {key}"}
        client = await stack.enter_async_context(
            httpx2.AsyncClient(base_url="http://servers", headers=bearing, transport=servers.proxy, timeout=30)
        )
        agent = await make_agent(client, "marks")
        session = (await client.post("/v1/sessions", json={"agent_id": agent["id"]})).json()["id"]
        load = Load(client, session, f"/mcp/agents/{agent['id']}")
        async with asyncio.TaskGroup() as tasks:
            work = (*[load.make_calls] * 4, *[load.make_calls_of_mcp] * 2, load.take_turns)
            working = [tasks.create_task(job()) for job in work]
            following_events = tasks.create_task(load.follow())
            yield load
            load.over.set()
            await asyncio.wait(working)
            following_events.cancel()
        marks = Counter(map(int, servers.marks.read_text().split()))
        others: Any = [
            record
            for outcome in get_args(Outcome)
            if outcome != "succeeded"
            for record in (await client.get("/v1/audit", params={"tool": "mark", "outcome": outcome})).json()["items"]
        ]
        assert others == [], "every call succeeded"
        ends = Counter(json.dumps(event.data["data"]) for event in load.events if event.type == "turn.ended")
        assert ends == {json.dumps({"output": "Done."}): load.turns}, "every turn ended by itself"
        # A model that is asked after a summary stands at the second step of its script, and may make no call.
        kinds = Counter(event.type for event in load.events)
        assert marks.pop(-1) == kinds["tool.result"], "each call of a turn has left its mark once"
        assert load.turns - kinds["conversation.summarised"] <= kinds["tool.result"] <= load.turns
        assert marks == Counter(load.told), "what was acknowledged was done, once, and nothing else"
        assert len(load.told) > 50
        assert [event.id for event in load.events] == [str(number + 1) for number in range(len(load.events))]
        assert Counter(event.type for event in load.events)["turn.ended"] == load.turns > 0
        assert 2 <= load.streams <= len(servers.proxy.sent) + 1, "a stream ends with its server alone"
        verified = await asyncio.to_thread(servers.running["one"].capset, "audit", "verify")
        assert verified.code == 0, verified.err


async def restart(servers: Fleet, name: str, *, is_next: bool = False) -> None:
    """Restart a server: the proxy leaves it alone before it ends, and asks it again once it is ready."""
    other = {"one": "two", "two": "one"}[name]
    ends = asyncio.ensure_future(servers.stop(name))
    await servers.proxy.until_ready(other)
    await ends
    begins = await servers.start(name, is_next=is_next)
    await servers.proxy.until_ready("one", "two")
    sent, url = servers.proxy.sent, httpx2.URL(begins.url)
    await until(lambda: sent[url] >= 10, "the server that has begun to be sent ten requests")


@pytest.mark.gate
@pytest.mark.realtime
@pytest.mark.spec("D4", "D5")
@pytest.mark.parametrize("engine", [pytest.param("sqlite", marks=pytest.mark.nightly), "postgres"])
async def test_restarts_one_after_the_other_fail_no_request(engine: str, tmp_path: Path, postgres_url: str) -> None:
    require_scheme()
    db = postgres_url if engine == "postgres" else f"sqlite:///{tmp_path}/capset.db"
    async with fleet(tmp_path, db) as servers, loaded(servers):
        await restart(servers, "one")
        await restart(servers, "two")


@pytest.mark.nightly
@pytest.mark.realtime
@pytest.mark.timeout(900)
@pytest.mark.spec("D6")
async def test_an_upgrade_one_server_after_the_other_fails_no_request(tmp_path: Path, postgres: Server) -> None:
    """Two versions serve one database: this one, and one that has brought the database to a revision of its own."""
    require_scheme()
    url = postgres.empty()

    def revision() -> tuple[str] | None:
        with connected(url) as connection:
            return connection.execute("SELECT version_num FROM alembic_version").fetchone()

    async with fleet(tmp_path, url) as servers, loaded(servers):
        servers.make_next()
        assert revision() == (HEAD,)
        await servers.upgrade()
        assert revision() == (INDEXES,)
        await restart(servers, "one")  # of the version before still: the database says that it may
        await restart(servers, "one", is_next=True)
        await restart(servers, "two", is_next=True)
