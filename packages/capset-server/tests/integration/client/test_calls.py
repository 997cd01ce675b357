"""Calls, whole and as streams."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from capset.errors import (
    CapsetError,
    DeadlineExceeded,
    DefinitionError,
    InvalidArguments,
    NotFound,
    PermissionDenied,
    Unauthenticated,
)
from capset_server.client import AgentInput, Client, data_of
from tests.helpers.cli.support import intents_in
from tests.helpers.client.fixtures import Served
from tests.waiting import until

pytestmark = pytest.mark.realtime


async def outcome_of(client: Client, session: str, tool: str) -> str:
    """Return how the one call of a tool in a session ended, once it has."""

    async def ended() -> list[dict[str, Any]]:
        return [*(await client.records.list(session=session, tool=tool)).items]

    (record,) = await until(ended, f"the call of {tool} to end")
    return record["outcome"]


async def test_a_call_that_succeeds(boss: Client, session: str) -> None:
    shape = await boss.call(session, "workshop.echo", {"text": "grüß 😀 \u2028"}, correlation="run.7_a-b")
    assert (shape.success, shape.data, shape.error, shape.session) == (True, "grüß 😀 \u2028", None, session)
    (record,) = (await boss.records.list(id=shape.record)).items
    assert (record["correlation"], record["runtime_hash"]) == ("run.7_a-b", shape.runtime_hash)
    assert data_of(await boss.call(session, "nothing")) is None


@pytest.mark.parametrize(
    ("tool", "arguments", "code", "status"),
    [
        ("ecko", {}, "not_found", 404),
        ("echo", {"txet": "x"}, "invalid_arguments", 422),
        ("read_file", {"path": "/nope"}, "file_error", 404),
        ("refuse", {"text": "no"}, "refused_politely", 409),
        ("crash", {}, "internal_error", 500),
    ],
)
async def test_what_is_refused_or_fails_is_returned(
    boss: Client, session: str, tool: str, arguments: dict[str, Any], code: str, status: int
) -> None:
    async with boss.stream(session, tool, arguments) as events:
        assert [event async for event in events] == []
    for shape in (await boss.call(session, tool, arguments), events.result):
        assert (shape.success, shape.data, shape.error is None) == (False, None, False)
        assert (await boss.records.list(id=shape.record)).items
        with pytest.raises(CapsetError) as caught:
            data_of(shape)
        assert (caught.value.code, caught.value.status) == (code, status)


async def test_a_permission_that_is_missing_is_a_refusal(served: Served, boss: Client) -> None:
    clerk = await boss.agents.create(AgentInput(name="clerk", capabilities=["session_file_system"]))
    async with Client(served.url, key=served.ada) as ada:
        session = await ada.sessions.create(clerk.id)
        with pytest.raises(PermissionDenied, match="lacks the permission"):
            data_of(await ada.call(session.id, "read_file", {"path": "/a"}))


async def test_events_and_then_the_result(boss: Client, session: str) -> None:
    async with boss.stream(session, "steps", {"count": 3}, correlation="s-1") as events:
        with pytest.raises(RuntimeError, match="read its events first"):
            _ = events.result
        messages = [message async for message in events]
    assert [(message.kind, message.type, message.data["message"]) for message in messages] == [
        ("event", "progress", f"[red]step {number}[/]") for number in range(3)
    ]
    assert {message.meta.correlation for message in messages if message.meta} == {"s-1"}
    assert (events.result.success, events.result.data) == (True, 3)


async def test_a_call_that_is_sent_again_is_made_once(boss: Client, session: str) -> None:
    first, repeated = [await boss.call(session, "wait", {"seconds": 0}, idempotency_key="once") for _ in range(2)]
    async with boss.stream(session, "wait", {"seconds": 0}, idempotency_key="once") as events:
        _ = [event async for event in events]
    assert first == repeated == events.result
    assert await outcome_of(boss, session, "wait") == "succeeded", "and it has one record"
    with pytest.raises(InvalidArguments, match="used for another request"):
        await boss.call(session, "wait", {"seconds": 0.1}, idempotency_key="once")
    with pytest.raises(DefinitionError, match="1–255 printable"):
        await boss.call(session, "wait", idempotency_key="a b")


async def test_many_at_a_time(boss: Client, session: str) -> None:
    shapes = await asyncio.gather(*(boss.call(session, "echo", {"text": str(number)}) for number in range(150)))
    assert [shape.data for shape in shapes] == [str(number) for number in range(150)]


async def test_leaving_a_stream_cancels_the_call(boss: Client, session: str) -> None:
    async with boss.stream(session, "wait", {"seconds": 60}):
        pass
    assert await outcome_of(boss, session, "wait") == "cancelled"


@pytest.mark.parametrize("way", ["call", "stream"])
async def test_a_call_that_takes_too_long_is_stopped(boss: Client, session: str, way: str) -> None:
    async def streamed() -> None:
        async with boss.stream(session, "wait", {"seconds": 60}, timeout=0.3) as events:
            _ = [event async for event in events]

    pending_call = boss.call(session, "wait", {"seconds": 60}, timeout=0.3) if way == "call" else streamed()
    with pytest.raises(DeadlineExceeded, match=r"within 0\.3 seconds"):
        await pending_call
    assert await outcome_of(boss, session, "wait") == "cancelled"


async def test_a_task_that_is_cancelled_cancels_its_call(served: Served, boss: Client, session: str) -> None:
    task = asyncio.ensure_future(boss.call(session, "wait", {"seconds": 60}))
    await until(lambda: (session, "wait") in intents_in(served.server.capset.folder), "the call to begin")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await outcome_of(boss, session, "wait") == "cancelled"


async def test_a_call_outlives_the_usual_patience(served: Served) -> None:
    async with Client(served.url, key=served.boss, timeout=0.2) as client:
        session = (await client.sessions.create("foreman")).id
        assert data_of(await client.call(session, "wait", {"seconds": 0.6})) == "waited"
        async with client.stream(session, "wait", {"seconds": 0.6}) as events:
            _ = [event async for event in events]
        assert events.result.data == "waited"


async def test_errors_of_ones_own_pass_through_a_stream(boss: Client, session: str) -> None:
    for error in (TimeoutError("mine"), KeyError("mine")):
        with pytest.raises(type(error), match="mine"):
            async with boss.stream(session, "steps", {"count": 3}, timeout=30):
                raise error


@pytest.mark.parametrize("arguments", [{"text": object()}, {"text": "\udcff"}])
async def test_arguments_that_are_no_json_are_not_sent(boss: Client, session: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArguments, match="this is not JSON"):
        await boss.call(session, "echo", arguments)


async def test_what_makes_no_call(boss: Client, served: Served, session: str) -> None:
    with pytest.raises(NotFound, match="there is no session"):
        await boss.call("nope", "echo")
    with pytest.raises(InvalidArguments, match="Invalid call") as caught:
        await boss.call(session, "")
    assert [field.path for field in caught.value.fields] == ["tool"]
    with pytest.raises(DefinitionError, match="1–100 letters, digits"):
        await boss.call(session, "echo", correlation="a b\n")
    for seconds in (0, -1.0, float("nan")):
        with pytest.raises(DefinitionError, match="positive number of seconds"):
            await boss.call(session, "echo", timeout=seconds)
    async with Client(served.url) as nobody:
        with pytest.raises(Unauthenticated):
            async with nobody.stream(session, "echo"):
                pass
    assert (await boss.records.list(session=session)).items == []
