"""Turns and their events, by the typed client (spec 5, P10)."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from capset.errors import CapsetError, Conflict, NotFound, Outdated
from capset.wire.turns import EventShape
from capset_server.client import Client
from tests.helpers.server.runners import Parrot
from tests.helpers.server.support import Site, make_session, site


@pytest.fixture
async def parrot() -> Parrot:
    """Return the runner of ``aviary``."""
    return Parrot()


@pytest.fixture
async def aviary(parrot: Parrot) -> AsyncGenerator[Site]:
    """Give a server whose agents are run by a parrot."""
    async with site(generator=parrot) as server:
        yield server


@pytest.fixture
async def client(aviary: Site) -> AsyncGenerator[Client]:
    """Give ``ada``'s client."""
    async with Client(aviary.url, key=aviary.keys["ada"]) as ada:
        yield ada


@pytest.fixture
async def session(aviary: Site) -> str:
    """Give the id of a new session."""
    async with aviary.client() as http:
        return await make_session(http, "kit")


@pytest.mark.spec("P10")
async def test_a_turn_and_its_events(parrot: Parrot, client: Client, session: str) -> None:
    turn = await client.sessions.send(session, {"say": "hi", "wait": True}, idempotency_key="k")
    with pytest.raises(Conflict) as running:
        await client.sessions.send(session, "again")
    assert running.value.code == "turn_running"
    assert await client.sessions.send(session, {"say": "hi", "wait": True}, idempotency_key="k") == turn
    async with client.sessions.events(session) as events:
        started = await anext(events)
        parrot.go.set()
        ended = await anext(events)
    assert isinstance(started, EventShape)
    assert isinstance(ended, EventShape)
    assert (started.type, started.turn) == ("turn.started", turn.turn)
    assert (ended.seq, ended.type, ended.data) == (2, "turn.ended", {"output": "hi"})
    async with client.sessions.events(session, after=1, follow=False) as events:
        assert [event async for event in events] == [ended]


@pytest.mark.spec("P10")
async def test_what_is_refused_is_raised(client: Client) -> None:
    with pytest.raises(NotFound):
        await client.sessions.send("nowhere", "hi")
    with pytest.raises(NotFound):
        async with client.sessions.events("nowhere"):
            pass
    async with site() as quiet, quiet.client() as http, Client(quiet.url, key=quiet.keys["ada"]) as other:
        session = await make_session(http, "kit")
        with pytest.raises(CapsetError) as refused:
            await other.sessions.send(session, "hi")
        assert refused.value.code == "no_runner"


@pytest.mark.spec("P5", "P8", "P11")
async def test_a_session_is_made_for_something_shows_its_state_and_moves(client: Client, session: str) -> None:
    agent = (await client.sessions.get(session)).agent_id or ""
    created = await client.sessions.create(agent, invocation={"tenant": "acme"}, context={"ticket": 7})
    assert (created.context, created.invocation_hash is None) == ({"ticket": 7}, False)
    assert (await client.sessions.state(created.id)).plain() == {}
    await client.agents.change(agent, {"description": "changed"})
    with pytest.raises(Outdated):
        await client.sessions.move(created.id, 2, version=2)
    assert (await client.sessions.move(created.id)).agent_version == 2


@pytest.mark.spec("P10")
async def test_events_begin_with_the_newest(client: Client, session: str) -> None:
    for text in ("one", "two"):
        turn = await client.sessions.send(session, text)
        async with client.sessions.events(session, after=turn.after) as events:
            _ = [await anext(events) for _ in range(2)]
    for newest, expected in ((0, []), (1, [4]), (3, [2, 3, 4]), (100, [1, 2, 3, 4])):
        async with client.sessions.events(session, newest=newest, follow=False) as events:
            assert [message.seq async for message in events if isinstance(message, EventShape)] == expected


@pytest.mark.spec("P9")
async def test_the_tools_in_play_are_listed_with_their_schemas(client: Client, session: str) -> None:
    in_play = sorted(tool.name for tool in (await client.sessions.snapshot(session)).tools if tool.in_play)
    page = await client.sessions.tools(session)
    assert ([tool.name for tool in page.items], page.next) == (in_play, None)
    assert "unlock" not in in_play
    first = await client.sessions.tools(session, limit=2)
    rest = await client.sessions.tools(session, cursor=first.next)
    assert [tool.name for tool in (*first.items, *rest.items)] == in_play
    (echo,) = (await client.sessions.tools(session, name="echo")).items
    assert echo.schema_["properties"]["text"]["default"] == "hello"
    assert (await client.sessions.tools(session, name="unlock")).items == []
