"""What a pydantic-ai model sends that does not fit, what is refused or fails, and how a run goes on or ends."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pydantic_ai
import pytest
from pydantic_ai import DeferredToolRequests, DeferredToolResults, ToolFailed
from pydantic_ai.capabilities import AbstractCapability

from capset import ToolError, tool
from capset.errors import Field
from capset_frameworks.pydantic_ai import CapsetToolset
from tests.helpers.frameworks.support import Scripted, add, call, crash, export, fail, order, returns, run
from tests.helpers.kernel.support import desk
from tests.waiting import until

# Arguments


@pytest.mark.spec("G11", "G12")
async def test_arguments_are_strict_as_json_and_every_field_is_told() -> None:
    wrong = {"lines": [{"article": 7, "pieces": "2", "size": "L"}], "expres": True}
    async with desk(order, add) as open_desk:
        texts = [("order", json.dumps(wrong)), ("order", wrong), ("add", {"a": True})]
        read = await run(open_desk.session, texts)
        assert [part.outcome for part in read] == ["failed"] * 3
        for part in read[:2]:
            message = str(part.content)
            assert message.startswith("Invalid arguments for 'order': ")
            for field in (
                "lines.0.article: ",
                "lines.0.pieces: ",
                "lines.0.size: ",
                "express: required",
                "expres: no ",
            ):
                assert message.count(field) == 1, (field, message)
            assert "did you mean 'express'?" in message
            assert message.endswith("\n(invalid_arguments; correlation run-1)")
        records = await open_desk.records()
        assert [(record.outcome, record.code) for record in records] == [("invalid", "invalid_arguments")] * 3
        assert json.loads(records[0].arguments) == json.loads(records[1].arguments) == wrong


@pytest.mark.parametrize("text", ['{"a": 1', "[1]", '"a"', "7", '{"a": "\\ud800"}', '{"b": ' + "[" * 300])
async def test_text_that_is_no_object_is_refused_by_capset_and_on_record(text: str) -> None:
    @tool(effect="read")
    async def ping() -> str:
        """Take no arguments at all."""
        return "pong"

    async with desk(ping) as open_desk:
        # More often than pydantic-ai would let a model try again.
        read = await run(open_desk.session, *[[("ping", text)]] * 4)
        assert {part.outcome for part in read} == {"failed"}
        assert "(not a JSON object): no such parameter" in str(read[0].content)
        records = await open_desk.records()
        assert [record.outcome for record in records] == ["invalid"] * 4
        assert json.loads(records[0].arguments) == {"(not a JSON object)": f"{len(text)} characters"}


async def test_no_arguments_are_an_empty_object() -> None:
    async with desk(export, env={"tier": "pro"}) as open_desk:
        read = await run(open_desk.session, [("export", ""), ("export", {})])
        assert [part.content for part in read] == ["everything", "everything"]


@pytest.mark.parametrize("value", ["\ud800", ["\ud800"], float("nan"), float("inf")])
async def test_what_json_has_no_form_for_is_refused_too(value: object) -> None:
    async with desk(add) as open_desk:
        with pytest.raises(ToolFailed, match="Invalid arguments for 'add'"):
            await call(open_desk.session, "add", {"a": value}, run_id="run-1", tool_call_id="call-1")
        assert (await open_desk.record()).outcome == "invalid"


async def test_values_arrive_as_their_json_says() -> None:
    got: list[object] = []

    @tool(effect="read")
    async def keep(when: datetime, price: Decimal, whole: int, part: float) -> None:
        """Keep them."""
        got.extend([when, price, whole, part])

    arguments = {"when": "2026-01-02T03:04:05Z", "price": 19.99, "whole": 2**70, "part": 2}
    async with desk(keep) as open_desk:
        (part,) = await run(open_desk.session, [("keep", json.dumps(arguments))])
        assert (part.outcome, part.content) == ("success", None)
    assert got == [datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), Decimal("19.99"), 2**70, 2.0]


async def test_what_a_hook_makes_of_the_arguments_is_what_is_called() -> None:
    class Later(AbstractCapability[object]):
        async def before_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: dict[str, Any]) -> Any:
            return args | {"when": datetime(2027, 1, 1, tzinfo=UTC)}

    @tool(effect="read")
    async def year(when: datetime) -> int:
        """Tell the year."""
        return when.year

    async with desk(year) as open_desk:
        script = Scripted([("year", {"when": "2026-01-01T00:00:00Z"})])
        agent = pydantic_ai.Agent(script.model, toolsets=[CapsetToolset(open_desk.session)], capabilities=[Later()])
        assert [part.content for part in returns((await agent.run("go")).all_messages())] == [2027]


# Refusals and failures


async def test_refusals_and_failures_are_read_and_cost_no_retries(store: str) -> None:
    async with desk(fail, add, store=store) as open_desk:
        # Five in a row; pydantic-ai would end the run at the second that counts as a retry.
        read = await run(open_desk.session, *[[("fail", {})]] * 5, [("add", {"a": 1, "b": 100})], [("add", {"a": 1})])
        assert [part.outcome for part in read] == [*["failed"] * 6, "success"]
        assert read[0].content == "the shelf is empty; order first\n(empty_shelf; correlation run-1)"
        assert str(read[5].content).splitlines() == [
            "Permission denied: policy 'small_sums' says no",
            "(permission_denied; correlation run-1)",
        ]
        assert [record.outcome for record in await open_desk.records()] == [*["failed"] * 5, "denied", "succeeded"]


async def test_fields_of_a_tool_s_own_error_are_told_and_so_is_that_it_may_be_tried_again() -> None:
    @tool(effect="read")
    async def check() -> None:
        """Check."""
        raise ToolError("two fields are wrong", fields=[Field("a.b", "a date"), Field("c", "a number", "d")])

    @tool(effect="read", timeout=0.01)
    async def sleep() -> None:
        """Sleep."""
        await asyncio.sleep(5)

    async with desk(check, sleep) as open_desk:
        read = await run(open_desk.session, [("check", {})], [("sleep", {})])
        assert str(read[0].content).splitlines() == [
            "two fields are wrong",
            "- a.b: a date",
            "- c: a number (did you mean 'd'?)",
            "(tool_error; correlation run-1)",
        ]
        assert str(read[1].content).endswith("\n(deadline_exceeded, may be tried again; correlation run-1)")


@pytest.mark.spec("G24")
async def test_what_a_handler_raises_leaks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with desk(crash) as open_desk:
        script = Scripted([("crash", {})])
        agent = pydantic_ai.Agent(script.model, toolsets=[CapsetToolset(open_desk.session)])
        result = await agent.run("go", run_id="run-1")
        (part,) = returns(result.all_messages())
        assert part.outcome == "failed"
        assert str(part.content).endswith("\n(internal_error; correlation run-1)")
        transcript = result.all_messages_json().decode()
        for secret in ("SELECT", "shadow", "RuntimeError", "Traceback", ".py"):
            assert secret not in transcript
        assert "SELECT" in caplog.text, "the log has it"
        assert (await open_desk.record()).code == "internal_error"


@pytest.mark.spec("G2")
async def test_a_tool_that_is_not_in_play_is_not_offered_and_refused_all_the_same() -> None:
    async with desk(add, export, env={"tier": "free"}) as open_desk:
        script = Scripted([("export", {})])
        agent = pydantic_ai.Agent(script.model, toolsets=[CapsetToolset(open_desk.session)])
        (part,) = returns((await agent.run("go")).all_messages())
        assert [definition.name for definition in script.shown[0].function_tools] == ["add"]
        assert (part.outcome, "everything" in str(part.content)) == ("retried", False)
        assert await open_desk.records() == [], "pydantic-ai knows no such tool, and calls nothing"

        with pytest.raises(ToolFailed, match=r"^Permission denied: export needs the pro tier"):
            await call(open_desk.session, "export", {}, run_id="run-1", tool_call_id="call-1")
        with pytest.raises(ToolFailed, match="did you mean 'add'"):
            await call(open_desk.session, "ad", {}, run_id="run-1", tool_call_id="call-2")
        outcomes = {
            record.causation: (record.tool, record.outcome) for record in await open_desk.records(correlation="run-1")
        }
        assert outcomes == {"call-1": ("export", "denied"), "call-2": ("ad", "not_found")}


async def test_an_approval_of_pydantic_ai_s_is_none_of_capset_s() -> None:
    async with desk(add) as open_desk:
        script = Scripted([("add", {"a": 1, "b": 1000})])
        toolset = CapsetToolset(open_desk.session).approval_required()
        agent = pydantic_ai.Agent(script.model, toolsets=[toolset], output_type=[str, DeferredToolRequests])
        suspended = await agent.run("go")
        assert isinstance(suspended.output, DeferredToolRequests)
        assert await open_desk.records() == []

        approved = DeferredToolResults(approvals={"call-1-1": True})
        done = await agent.run(message_history=suspended.all_messages(), deferred_tool_results=approved)
        (part,) = returns(done.all_messages())
        assert (part.outcome, str(part.content)[:17]) == ("failed", "Permission denied")
        assert (await open_desk.record()).outcome == "denied"


async def test_a_kernel_that_was_closed_fails_the_call_and_not_the_run() -> None:
    ran: list[int] = []

    @tool(effect="write")
    async def touch() -> None:
        """Leave a trace."""
        ran.append(1)

    async with desk(touch) as open_desk:
        pass
    (part,) = await run(open_desk.session, [("touch", {})])
    assert (part.outcome, ran) == ("failed", [])
    assert "(store_unavailable, may be tried again" in str(part.content)


# Time and cancellation


@tool(effect="write")
async def hang() -> None:
    """Hang."""
    await asyncio.sleep(30)


async def test_a_cancelled_run_cancels_its_calls(store: str) -> None:
    async with desk(hang, store=store) as open_desk:
        running = asyncio.create_task(run(open_desk.session, [("hang", {}), ("hang", {})]))
        await until(lambda: open_desk.session._context.runtime.calls == 2)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not open_desk.session._context.runtime.calls
        records = await open_desk.records(correlation="run-1")
        assert [record.outcome for record in records] == ["cancelled", "cancelled"]


async def test_a_run_s_deadline_is_the_call_s() -> None:
    async with desk(hang) as open_desk:
        late = datetime.now(UTC) - timedelta(seconds=1)
        with pytest.raises(ToolFailed, match="deadline_exceeded"):
            await call(open_desk.session, "hang", {}, run_id="run-1", tool_call_id="call-1", deadline=late)
        assert (await open_desk.record()).outcome == "timed_out"


async def test_a_session_s_own_time_limit_holds() -> None:
    async with desk(hang) as open_desk:
        (part,) = await run(open_desk.session.options(timeout=0.01), [("hang", {})])
        assert "deadline_exceeded" in str(part.content)


async def test_contexts_of_no_run_are_told_apart() -> None:
    async with desk(add) as open_desk:
        for _ in range(2):
            assert (await call(open_desk.session, "add", {"a": 1})).return_value == 2
        records = await open_desk.records()
        assert len({record.correlation for record in records}) == len({record.causation for record in records}) == 2
        assert all(record.correlation for record in records)
