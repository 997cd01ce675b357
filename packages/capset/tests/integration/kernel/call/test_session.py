"""The doors of a session, and what they have in common (spec 3, K8)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from capset import Json, Message, Meta, Progress, Session, tool
from capset.errors import CapsetError, DeadlineExceeded, DefinitionError, NotFound, ToolError
from capset.kernel.streams.emission import error_data
from tests.helpers.kernel.support import ask, desk, read


@tool(effect="read")
async def look(text: str = "x", times: int = 1) -> str:
    """Look."""
    if text == "fail":
        raise ToolError("no")
    return text * times


@tool
async def act(text: str = "x") -> str:
    """Act."""
    return text


@tool(effect="read")
async def wait(seconds: float) -> int:
    """Wait."""
    await asyncio.sleep(seconds)
    return 1


@pytest.mark.spec("K8")
async def test_every_door_leads_to_the_same_reply() -> None:
    async with desk(look) as opened:
        session = opened.session
        assert await session.call(look, "ab", times=2) == "abab"
        assert (await session.try_call(look, "ab", times=2)).data == "abab"
        assert (await read(session.stream(look, "ab", times=2)))[-1].data == "abab"
        assert (await read(session.invoke(Message("query", "look", {"text": "ab", "times": 2}))))[-1].data == "abab"
        assert (await ask(session, "kit.look", {"text": "ab", "times": 2}))[-1].data == "abab"
        records = await opened.records()
        assert len({record.arguments_digest for record in records}) == 1
        assert [(record.outcome, record.tool) for record in records] == [("succeeded", "look")] * 5


@pytest.mark.spec("K8", "K2", "G24")
@pytest.mark.parametrize(
    ("arguments", "is_refusal"), [({"text": "fail"}, False), ({"text": 5}, True), ({"other": 1}, True)]
)
async def test_every_door_tells_the_same_error_with_the_correlation_of_its_record(
    arguments: dict[str, Any], is_refusal: bool
) -> None:
    async with desk(look) as opened:
        session = opened.session
        with pytest.raises(CapsetError) as raised:
            await session.call(look, **arguments)
        result = await session.try_call(look, **arguments)
        assert result.error is not None
        assert (result.success, result.data, result.error.refusal) == (False, None, is_refusal)
        (streamed,) = await read(session.stream(look, **arguments))
        (invoked,) = await read(session.invoke(Message("query", "look", arguments)))
        assert (streamed.kind, invoked.kind) == ("error", "error")
        errors = [error_data(raised.value), error_data(result.error), {**streamed.data}, {**invoked.data}]
        correlations = [error.pop("correlation") for error in errors]
        assert correlations == [record.correlation for record in await opened.records()]
        assert errors == [errors[0]] * 4


@pytest.mark.spec("K2", "G24")
async def test_the_shape_of_an_errors_data() -> None:
    async with desk(look) as opened:
        (message,) = await ask(opened.session, "look", {"tezt": 1})
        record = await opened.record()
        assert message.data == {
            "code": "invalid_arguments",
            "status": 422,
            "message": "Invalid arguments for 'look': tezt: no such parameter (did you mean 'text'?)",
            "retryable": False,
            "correlation": record.correlation,
            "fields": [{"path": "tezt", "expected": "no such parameter", "did_you_mean": "text"}],
        }
        assert message.meta
        assert message.meta.correlation == record.correlation


async def test_a_result_names_its_record_and_its_snapshot() -> None:
    async with desk(look) as opened:
        result = await opened.session.try_call(look)
        snapshot = opened.session.snapshot
        assert (result.runtime_hash, result.prompt_hash) == (snapshot.runtime_hash, snapshot.prompt_hash)
        assert (await opened.record()).id == (await opened.record(id=result.record)).id == result.record


@pytest.mark.realtime
@pytest.mark.spec("K8")
async def test_options_leave_the_session_untouched_and_their_time_runs_from_the_start_of_each_call() -> None:
    async with desk(wait) as opened:
        hasty = opened.session.options(timeout=0.5)
        assert isinstance(hasty, Session)
        assert (hasty.id, hasty.snapshot) == (opened.session.id, opened.session.snapshot)
        for _ in range(3):
            assert await hasty.call(wait, 0.2) == 1
        with pytest.raises(DeadlineExceeded):
            await hasty.call(wait, 5.0)
        assert await opened.session.call(wait, 0.6) == 1
        assert await hasty.options(timeout=5).call(wait, 0.6) == 1
        with pytest.raises(DeadlineExceeded):
            await hasty.call(wait, 5.0)


@pytest.mark.spec("K1")
async def test_the_message_that_asks_for_a_tool_has_the_right_kind() -> None:
    async with desk(look, act) as opened:
        assert opened.session.message("look", {}) == Message("query", "look", {})
        assert opened.session.message("kit.look", {}) == Message("query", "kit.look", {})
        assert opened.session.message("act", Json(b"{}")) == Message("command", "act", Json(b"{}"))
        assert opened.session.message("unknown", {}).kind == "command"


@pytest.mark.parametrize("data", [[], [1], "text", 5, True, Progress(0.5)])
async def test_arguments_are_an_object_or_nothing(data: object) -> None:
    async with desk(look) as opened:
        (error,) = await read(opened.session.invoke(Message("query", "look", data)))
        assert error.data["status"] == 422
        json.loads((await opened.record()).arguments)
        (reply,) = await read(opened.session.invoke(Message("query", "look", None)))
        assert reply.data == "x"


async def test_sessions_of_one_kernel_run_side_by_side(store: str) -> None:
    async with desk(act, store=store) as first:
        agent, principal = first.session.snapshot.composition.block, first.session.snapshot.principal
        async with first.kernel.open(agent, principal=principal) as second:
            assert first.session.id != second.id
            both = (first.session, second)
            await asyncio.gather(*(session.call(act, f"{n}") for n in range(50) for session in both))
            records = await first.records()
            assert len(records) == 100
            for session in both:
                texts = {json.loads(record.arguments)["text"] for record in records if record.session == session.id}
                assert texts == {f"{n}" for n in range(50)}
            assert (await first.kernel.audit.verify()).ok


@pytest.mark.parametrize("meta", [Meta(5, "t", "c"), Meta("i", "t", 7), Meta("i", "t", "c", deadline="soon")], ids=repr)  # pyright: ignore[reportArgumentType]
async def test_a_message_whose_meta_is_not_what_it_should_be_is_refused_and_on_record(meta: Meta) -> None:
    async with desk(look) as opened:
        for name in ("look", "lok"):
            (error,) = await read(opened.session.invoke(Message("query", name, {}, meta)))
            assert error.data["status"] in (422, 404)
        assert [record.outcome for record in await opened.records()] == ["invalid", "not_found"]


async def test_a_message_can_be_sent_where_nobody_listens() -> None:
    async with desk(look) as opened:
        session = opened.session
        done = await session.try_message(session.message("look", {"text": "ab"}, correlation="c-1"))
        assert (done.success, done.data, done.error) == (True, "ab", None)
        record = await opened.record(id=done.record)
        assert (record.correlation, record.outcome) == ("c-1", "succeeded")
        failed = await session.try_message(session.message("look", Json(b'{"text": "fail"}')))
        assert (failed.success, failed.data, type(failed.error)) == (False, None, ToolError)
        assert isinstance((await session.try_message(session.message("lost", {}))).error, NotFound)


@pytest.mark.parametrize("door", ["call", "try_call", "stream"])
async def test_a_name_in_the_place_of_a_tool_is_told_what_to_use_and_that_works(door: str) -> None:
    async with desk(look) as opened:
        with pytest.raises(DefinitionError, match="a call takes a Tool object; got 'look'") as raised:
            await getattr(opened.session, door)("look", text="ab")
        code = (raised.value.hint or "").removeprefix("to call it by name: await ")
        scope = {"session": opened.session, "arguments": {"text": "ab"}}
        assert (await eval(code, scope)).data == "ab"  # the hint, as it is written
        with pytest.raises(DefinitionError, match="got <function") as raised:
            await getattr(opened.session, door)(lambda: None)
        assert raised.value.hint == "pass the Tool that @tool returned, not the function"
