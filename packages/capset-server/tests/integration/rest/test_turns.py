"""Turns of agents over REST (spec 5, P10)."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import httpx2
import pytest

from capset.ext import Governance
from tests.helpers.server.rest.turns import AS_EVENTS, events, send, turn
from tests.helpers.server.runners import Parrot
from tests.helpers.server.sse import events_of, following
from tests.helpers.server.support import Site, make_session, problem, site
from tests.waiting import until


@pytest.fixture
def parrot() -> Parrot:
    """Return the runner of ``aviary``."""
    return Parrot()


@pytest.fixture
async def aviary(parrot: Parrot) -> AsyncGenerator[Site]:
    """Give a server whose agents are run by a parrot."""
    async with site(generator=parrot, governance=Governance(redact=["hunter[0-9]"], result_bytes=2_000)) as server:
        yield server


@pytest.fixture
async def ada(aviary: Site) -> AsyncGenerator[httpx2.AsyncClient]:
    """Give ``ada``'s client."""
    async with aviary.client() as client:
        yield client


@pytest.mark.spec("P10")
async def test_a_turn_is_begun_and_its_events_say_how_it_went(aviary: Site, ada: httpx2.AsyncClient) -> None:
    session = await make_session(ada, "kit")
    begun = await send(ada, session, {"say": {"text": "done"}, "call": "echo crash unlock"})
    assert begun.status_code == 202
    body = begun.json()
    assert body["session"] == session
    assert body["events"] == f"/v1/sessions/{session}/events?after=0"
    async with following(ada, body["events"]) as stream:
        turn_events = [await anext(stream) for _ in range(4)]
    assert [(event.id, event.type) for event in turn_events] == [
        ("1", "turn.started"),
        ("2", "tool.executed"),
        ("3", "tool.executed"),
        ("4", "turn.ended"),
    ]
    assert {event.data["turn"] for event in turn_events} == {body["turn"]}
    echo, crash = (event.data["data"] for event in turn_events[1:3])
    assert (echo["tool"], echo["success"], echo["code"]) == ("echo", True, None)
    assert (crash["tool"], crash["success"], crash["code"]) == ("crash", False, "internal_error")
    assert (await aviary.record(tool="echo")).id == echo["record"]
    assert turn_events[-1].data["data"] == {"output": {"text": "done"}}
    assert [record.tool for record in await aviary.records(session=session)] == ["echo", "crash", "unlock"]


@pytest.mark.spec("P10")
async def test_as_events_a_turn_is_told_to_its_end(ada: httpx2.AsyncClient) -> None:
    session = await make_session(ada, "kit")
    assert [event.type for event in await turn(ada, session, "first")] == ["turn.started", "turn.ended"]
    second = await turn(ada, session, {"say": 2})
    assert [event.id for event in second] == ["3", "4"]
    assert second[-1].data["data"] == {"output": 2}


@pytest.mark.spec("P10")
async def test_a_turn_goes_on_when_its_client_leaves(parrot: Parrot, ada: httpx2.AsyncClient) -> None:
    session = await make_session(ada, "kit")
    async with following(
        ada, f"/v1/sessions/{session}/messages", "POST", json={"content": {"wait": True}}, headers=AS_EVENTS
    ) as stream:
        assert (await anext(stream)).type == "turn.started"
    parrot.go.set()
    async with following(ada, f"/v1/sessions/{session}/events", params={"after": 1}) as stream:
        assert (await anext(stream)).type == "turn.ended"
    assert parrot.cut == 0


@pytest.mark.spec("P10")
async def test_a_session_is_in_one_turn_at_a_time(parrot: Parrot, ada: httpx2.AsyncClient) -> None:
    session, other = await make_session(ada, "kit"), await make_session(ada, "kit")
    first = (await send(ada, session, {"wait": True})).json()
    body = problem(await send(ada, session, "again"), 409, "turn_running")
    assert first["turn"] in body["detail"]
    assert (await send(ada, other, "there")).status_code == 202
    parrot.go.set()
    async with following(ada, first["events"]) as stream:
        while (await anext(stream)).type != "turn.ended":
            pass
    assert (await send(ada, session, "again")).status_code == 202


@pytest.mark.spec("P10", "G24", "G26")
async def test_what_a_turn_ends_with_is_redacted_and_capped(ada: httpx2.AsyncClient) -> None:
    session = await make_session(ada, "kit", "session_file_system")
    ended = (await turn(ada, session, {"say": ["hunter2", "x"]}))[-1]
    assert ended.data["data"] == {"output": ["[redacted]", "x"]}
    failed = (await turn(ada, session, {"fail": "it was hunter2"}))[-1]
    assert failed.type == "turn.failed"
    error = failed.data["data"]["error"]
    assert (error["code"], error["message"]) == ("failed_politely", "it was [redacted]")
    crashed = (await turn(ada, session, {"crash": True}))[-1].data["data"]["error"]
    assert crashed["code"] == "internal_error"
    assert "hunter" not in str(crashed)
    long = (await turn(ada, session, {"say": "long " * 1000}))[-1].data["data"]
    assert len(long["output"]) <= 2_000
    response = await ada.get(f"/v1/sessions/{session}/files{long['file']}")
    assert response.text == "long " * 1000


@pytest.mark.spec("P9", "P10")
async def test_a_message_that_is_sent_again_begins_one_turn(parrot: Parrot, ada: httpx2.AsyncClient) -> None:
    session = await make_session(ada, "kit")
    key = {"Idempotency-Key": "once"}
    first = await send(ada, session, "hello", headers=key)
    repeated = await send(ada, session, "hello", headers=key)
    assert (repeated.status_code, repeated.json()) == (202, first.json())
    assert repeated.headers["idempotent-replayed"] == "true"
    response = await ada.post(
        f"/v1/sessions/{session}/messages", json={"content": "hello"}, headers={**key, **AS_EVENTS}
    )
    assert [event.type for event in events_of(response.text)] == ["turn.started", "turn.ended"]
    problem(await send(ada, session, "other", headers=key), 422, "invalid_arguments")
    assert parrot.ran == 1


@pytest.mark.spec("P10")
async def test_a_message_that_came_too_early_may_be_sent_again(parrot: Parrot, ada: httpx2.AsyncClient) -> None:
    session = await make_session(ada, "kit")
    await send(ada, session, {"wait": True})
    key = {"Idempotency-Key": "twice"}
    problem(await send(ada, session, "hello", headers=key), 409, "turn_running")
    parrot.go.set()

    async def is_over() -> bool:
        return (await events(ada, session))[-1].type == "turn.ended"

    await until(is_over, "the turn to end")
    assert (await send(ada, session, "hello", headers=key)).status_code == 202


@pytest.mark.spec("P10")
async def test_a_deleted_session_ends_its_turn(parrot: Parrot, aviary: Site, ada: httpx2.AsyncClient) -> None:
    session = await make_session(ada, "kit")
    async with following(ada, f"/v1/sessions/{session}/events") as stream:
        await send(ada, session, {"call": "echo", "wait": True})
        assert (await anext(stream)).type == "turn.started"
        assert (await anext(stream)).type == "tool.executed"
        await parrot.started.wait()
        assert (await ada.delete(f"/v1/sessions/{session}")).status_code == 204
        assert [event async for event in stream] == [], "the answer ends with the session"
    await until(lambda: parrot.cut, "the turn to be cut off at once, and not with its next event")
    assert parrot.cut == 1
    problem(await send(ada, session, "hello"), 404, "not_found")


@pytest.mark.nightly
@pytest.mark.spec("P10")
async def test_a_server_that_ends_cuts_turns_off_and_says_so(tmp_path: object) -> None:
    parrot = Parrot()
    store = f"sqlite:///{tmp_path}/capset.db"
    async with site(generator=parrot, store=store) as first, first.client() as client:
        session = await make_session(client, "kit")
        await send(client, session, {"wait": True})
        await parrot.started.wait()
        async with following(client, f"/v1/sessions/{session}/events") as stream:
            assert (await anext(stream)).type == "turn.started"
            first.server.should_exit = True
            assert [event async for event in stream] == [], "who follows is sent away at once"
    assert parrot.cut == 1
    async with site(generator=parrot, store=store) as second, second.client() as client:
        error = (await events(client, session))[-1].data["data"]["error"]
        assert error["code"] == "cancelled"
        assert (await send(client, session, "on")).status_code == 202


@pytest.mark.spec("P10")
async def test_a_server_without_a_runner_says_so(here: Site) -> None:
    async with here.client() as client:
        session = await make_session(client, "kit")
        problem(await send(client, session, "hello"), 501, "no_runner")
        problem(await client.post(f"/v1/sessions/{session}/turns/x/resume"), 501, "no_runner")
        problem(await send(client, "nowhere", "hello"), 404, "not_found")
        assert await events(client, session) == []


@pytest.mark.spec("P10")
@pytest.mark.parametrize("body", [{}, {"content": 1, "more": 2}, {"message": "x"}])
async def test_a_message_has_content(ada: httpx2.AsyncClient, body: dict[str, object]) -> None:
    session = await make_session(ada, "kit")
    problem(await ada.post(f"/v1/sessions/{session}/messages", json=body), 422, "invalid_arguments")


@pytest.mark.spec("P10", "P16")
async def test_a_turn_is_of_the_principal_and_its_version(aviary: Site, ada: httpx2.AsyncClient) -> None:
    session = await make_session(ada, "kit")
    await aviary.key("bob")
    async with aviary.client("bob") as bob:
        problem(await send(bob, session, "hello"), 404, "not_found")
        problem(await bob.get(f"/v1/sessions/{session}/events"), 404, "not_found")
    started = (await turn(ada, session, "hello"))[0].data["data"]
    assert (started["agent"], started["agent_version"]) == ("helper", 1)
