"""The events of sessions over REST: replay, following, and what becomes of those of a dead process (spec 5, P10)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx2
import pytest

from capset import Principal
from capset.clock import SystemClock
from capset.stores.base import MAX_EVENTS, NewEvent, TurnRow
from capset_agents.journal import HOLD_SECONDS
from capset_server.auth.keys import create_key
from capset_server.followers import PAGE
from tests.databases import require_scheme
from tests.helpers.server.killed import serving
from tests.helpers.server.rest.turns import events, send, turn
from tests.helpers.server.runners import Parrot
from tests.helpers.server.sse import following
from tests.helpers.server.support import Site, make_session, problem, site


class Later(SystemClock):
    """A clock that is ahead by as long as a turn is held."""

    @staticmethod
    def time_ns() -> int:
        """Return the time then."""
        return time.time_ns() + (HOLD_SECONDS + 1) * 1_000_000_000


@pytest.fixture(scope="module")
async def shared() -> AsyncGenerator[Site]:
    """Give a server whose agents are run by a parrot."""
    async with site(generator=Parrot()) as server:
        yield server


async def talked(client: httpx2.AsyncClient, turns: int = 3) -> str:
    """Make a session that has had some turns, of two events each."""
    session = await make_session(client, "kit")
    for number in range(turns):
        await turn(client, session, number)
    return session


@pytest.mark.spec("P10")
async def test_events_are_replayed_from_any_of_them(asker: httpx2.AsyncClient) -> None:
    session = await talked(asker)
    every = await events(asker, session)
    assert [event.id for event in every] == list("123456")
    assert await events(asker, session, after=4) == every[4:]
    assert await events(asker, session, after=6) == []
    path, params = f"/v1/sessions/{session}/events", {"after": 1, "follow": False}
    resumed = await asker.get(path, params=params, headers={"Last-Event-ID": "5"})
    assert resumed.text.startswith("retry: ")
    assert "id: 6\n" in resumed.text
    assert "id: 5\n" not in resumed.text


@pytest.mark.spec("P10")
async def test_whoever_comes_again_misses_nothing_and_hears_nothing_twice(asker: httpx2.AsyncClient) -> None:
    session = await talked(asker, turns=2)
    path, heard = f"/v1/sessions/{session}/events", list[str]()
    for _ in range(3):
        headers = {"Last-Event-ID": heard[-1]} if heard else {}
        async with following(asker, path, headers=headers) as stream:
            if len(heard) == 4:
                await send(asker, session, "more")
            heard += [(await anext(stream)).id for _ in range(2)]
    assert heard == list("123456")


@pytest.mark.nightly
@pytest.mark.spec("P10", "P14")
async def test_events_end_for_a_key_that_is_revoked(shared: Site) -> None:
    row, shared.keys["soon gone"] = await create_key(shared.kernel, "g", Principal("ada", org="acme"))
    async with shared.client() as client:
        session = await talked(client, turns=1)
    async with shared.client("soon gone") as client, following(client, f"/v1/sessions/{session}/events") as stream:
        assert [(await anext(stream)).id for _ in range(2)] == ["1", "2"]
        await shared.kernel.store.keys.revoke(row.id, shared.kernel.now())
        async with asyncio.timeout(60):
            assert [event async for event in stream] == []
    async with shared.client() as client:
        assert len(await events(client, session)) == 2


@pytest.mark.spec("P10")
@pytest.mark.parametrize("id", ["x", "-1", "1.0", "9" * 16, "١"])
async def test_an_id_that_is_no_number_is_refused(asker: httpx2.AsyncClient, id: str) -> None:
    session = await make_session(asker, "kit")
    path = f"/v1/sessions/{session}/events"
    refused = await asker.get(path, params={"follow": False}, headers={b"Last-Event-ID": id.encode()})
    problem(refused, 400, "invalid_header")
    problem(await asker.get(path, params={"follow": False, "after": "x"}), 422, "invalid_arguments")


@pytest.mark.spec("P10")
async def test_a_gap_is_told_before_what_is_left(shared: Site, asker: httpx2.AsyncClient) -> None:
    session = await make_session(asker, "kit")
    now, event_store = shared.kernel.now(), shared.kernel.store.events
    turn_row = TurnRow(session, "t", "here", "9999-12-31T00:00:00.000000Z")
    some = NewEvent("x", "{}")
    await event_store.begin(turn_row, some, now=now, interrupted=some)
    await event_store.append(turn_row, [some] * (MAX_EVENTS + 10), now=now, then=None)
    first, second, *_, last = await events(asker, session)
    assert (first.type, first.id, first.data) == ("gap", "11", {"after": 0, "last": 11})
    assert (second.id, last.id) == ("12", str(MAX_EVENTS + 11))
    assert len(await events(asker, session, after=11)) == MAX_EVENTS, f"of {PAGE} a page"
    (ahead,) = await events(asker, session, after=10**9)
    assert (ahead.type, ahead.data) == ("gap", {"after": 10**9, "last": MAX_EVENTS + 11})


@pytest.mark.spec("P10")
async def test_a_reader_who_takes_nothing_holds_up_no_turn(shared: Site, asker: httpx2.AsyncClient) -> None:
    session = await make_session(asker, "kit")
    host, port = "127.0.0.1", shared.port
    reader, writer = await asyncio.open_connection(host, port, limit=1024)
    head = f"GET /v1/sessions/{session}/events HTTP/1.1\r\nHost: {host}:{port}\r\n"
    writer.write(f"{head}Authorization: Bearer {shared.keys['ada']}\r\n\r\n".encode())
    await writer.drain()
    try:
        async with asyncio.timeout(60):
            for _ in range(50):
                turn_events = await turn(asker, session, "long " * 10_000)
                assert turn_events[-1].type == "turn.ended"
        assert (await events(asker, session))[-1].id == "100"
    finally:
        del reader
        writer.transport.abort()


@pytest.mark.spec("P10", "P30")
async def test_two_servers_on_one_database_are_one(postgres_url: str) -> None:
    require_scheme()
    parrot = Parrot()
    async with (
        site(store=postgres_url, generator=parrot) as first_server,
        site(store=postgres_url, generator=parrot) as two,
        first_server.client() as first,
        two.client() as second,
    ):
        session = await make_session(first, "kit")
        async with following(second, f"/v1/sessions/{session}/events") as stream:
            answers = await asyncio.gather(
                *[send(client, session, {"call": "echo", "wait": True}) for client in (first, second) * 3]
            )
            assert sorted([answer.status_code for answer in answers]) == [202, *[409] * 5]
            assert (await anext(stream)).type == "turn.started"
            assert (await anext(stream)).type == "tool.executed"
            parrot.go.set()
            assert (await anext(stream)).type == "turn.ended"
        assert (await send(second, session, "next")).status_code == 202
    assert parrot.ran == 2


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.spec("P10")
async def test_a_turn_whose_process_was_killed_ends_as_interrupted(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/capset.db"
    with serving(store) as killed_server:
        headers = {"Authorization": f"Bearer {killed_server.key}"}
        async with httpx2.AsyncClient(base_url=killed_server.url, headers=headers, trust_env=False) as client:
            session = await make_session(client, "kit")
            begun = (await send(client, session, {"call": "echo", "wait": True})).json()
            async with following(client, begun["events"]) as stream:
                assert [(await anext(stream)).type for _ in range(2)] == ["turn.started", "tool.executed"]
    async with site(store=store, generator=Parrot()) as server, server.client() as client:
        refusal = problem(await send(client, session, "next"), 409, "turn_running")
        assert begun["turn"] in refusal["detail"], "it may be alive"
    async with site(store=store, generator=Parrot(), clock=Later()) as server, server.client() as client:
        last = (await events(client, session))[-1]
        assert (last.type, last.data["turn"]) == ("turn.failed", begun["turn"])
        assert last.data["data"]["error"]["code"] == "interrupted"
        turn_events = await turn(client, session, "next")
        assert [event.id for event in turn_events] == ["4", "5"]
