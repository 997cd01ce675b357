"""The way of a turn, as whole traces: when all is well, and when any one stage fails (spec 2, F24)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from capset.errors import NotFound
from capset.ext import ContextMerged, SessionHooks, SessionTurn, TurnEnded, TurnFailed, TurnStarted
from tests.helpers.kernel.hosting.support import ADA, AGENT, Trace, hosted, hosting, kept_sessions

SUCCESS = ["on_start", "on_before_context", "resolver", "on_after_context", "on_before_run", "run", "on_after_run"]
STAGES = ("start", "before_context", "context", "after_context", "before_run", "run", "after_run")
CONTEXT = {"tone": "kind", "found": 1}


@pytest.mark.spec("F24")
async def test_a_turn_that_succeeds_takes_every_stage_in_order(store: str) -> None:
    trace = Trace()
    async with hosting(store) as (_, host):
        session = await hosted(host, hooks=trace.hooks(), context=trace.resolver(found=1), run=trace.run())
        assert await session.start("hello") == "ran hello"
    turn = dict(trace.told)["run"]
    assert turn.session.id == session.id
    assert trace.told == [
        ("on_start", TurnStarted(AGENT, "hello")),
        ("on_before_context", TurnStarted(AGENT, "hello")),
        ("resolver", ("hello", {"tone": "kind"})),
        ("on_after_context", ContextMerged(AGENT, "hello", CONTEXT)),
        ("on_before_run", SessionTurn(AGENT, "hello", CONTEXT, turn.session)),
        ("run", SessionTurn(AGENT, "hello", CONTEXT, turn.session)),
        ("on_after_run", TurnEnded(AGENT, "hello", CONTEXT, turn.session, "ran hello")),
    ]


@pytest.mark.spec("F24")
@pytest.mark.parametrize("stage", STAGES)
async def test_a_failure_in_any_stage_ends_the_turn_and_is_told_and_raised_again(stage: str) -> None:
    trace, wrong = Trace(), ValueError(stage)
    raising: Any = {} if stage in ("context", "run") else {f"on_{stage}": wrong}
    async with hosting() as (kernel, host):
        session = await hosted(
            host,
            hooks=trace.hooks(**raising),
            context=trace.resolver(found=1, raises=wrong if stage == "context" else None),
            run=trace.run(raises=wrong if stage == "run" else None),
        )
        with pytest.raises(ValueError, match=stage) as raised:
            await session.start("hello")
        opened = stage in ("before_run", "run", "after_run")
        assert await kept_sessions(kernel) == ([session.id] if opened else [])
    assert raised.value is wrong
    assert trace.names == [*SUCCESS[: STAGES.index(stage) + 1], "on_error"]
    failed = trace.told[-1][1]
    merged = CONTEXT if opened or stage == "after_context" else None
    assert failed == TurnFailed(AGENT, "hello", failed.stage, wrong, merged, failed.session)
    assert failed.stage == stage
    assert (failed.session is not None) == opened


@pytest.mark.spec("F24")
async def test_a_session_that_cannot_be_opened_is_a_failure_of_its_own_stage() -> None:
    trace = Trace()
    async with hosting() as (_, host):
        await host.register(AGENT, hooks=trace.hooks(), context=trace.resolver(found=1), run=trace.run())
        session = host.create_session("helper", principal=ADA, session_id="no-such-session")
        with pytest.raises(NotFound, match="there is no session 'no-such-session' of 'ada'") as raised:
            await session.start("hello")
    assert trace.names == [*SUCCESS[:4], "on_error"]
    assert trace.told[-1][1] == TurnFailed(AGENT, "hello", "open", raised.value, CONTEXT, None)


@pytest.mark.spec("F24")
async def test_what_fails_in_on_error_is_logged_and_hides_nothing(caplog: pytest.LogCaptureFixture) -> None:
    trace, wrong = Trace(), ValueError("first")
    async with hosting() as (_, host):
        session = await hosted(host, hooks=trace.hooks(on_error=KeyError("second")), run=trace.run(raises=wrong))
        session.on_error(trace.hook("later"))
        with caplog.at_level(logging.ERROR, "capset.hooks"), pytest.raises(ValueError, match="first") as raised:
            await session.start()
    assert raised.value is wrong
    assert trace.names[-2:] == ["on_error", "later"]
    assert "failed on TurnFailed" in caplog.text
    assert "KeyError: 'second'" in caplog.text


@pytest.mark.spec("F24")
@pytest.mark.parametrize("stage", ["on_start", "resolver", "run", "on_after_run"])
async def test_a_cancellation_from_outside_passes_untold(stage: str) -> None:
    trace, reached = Trace(), asyncio.Event()

    async def wait(*arguments: Any) -> None:
        trace.told.append((stage, arguments))
        reached.set()
        await asyncio.Event().wait()

    hooks: Any = {stage: wait} if stage.startswith("on_") else {}
    async with hosting() as (_, host):
        session = await hosted(
            host,
            hooks=SessionHooks(**hooks, on_error=trace.hook("on_error")),
            context=wait if stage == "resolver" else None,
            run=wait if stage == "run" else trace.run(),
        )
        task = asyncio.create_task(session.start())
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert trace.names[-1] == stage


@pytest.mark.spec("F24")
@pytest.mark.parametrize("wrong", [SystemExit(3), asyncio.CancelledError(), ExceptionGroup("several", [ValueError()])])
async def test_what_a_stage_raises_itself_is_told_whatever_it_is(wrong: BaseException) -> None:
    trace = Trace()
    async with hosting() as (_, host):
        session = await hosted(host, hooks=trace.hooks(), run=trace.run(raises=wrong))
        with pytest.raises(type(wrong)) as raised:
            await session.start()
    assert raised.value is wrong
    assert trace.names[-2:] == ["run", "on_error"]


@pytest.mark.spec("F24")
@pytest.mark.parametrize("wrong", [KeyboardInterrupt(), BaseExceptionGroup("several", [KeyboardInterrupt()])])
def test_what_ends_the_interpreter_passes_untold(wrong: BaseException) -> None:
    trace = Trace()

    async def main() -> None:
        async with hosting() as (_, host):
            session = await hosted(host, hooks=trace.hooks(), run=trace.run(raises=wrong))
            with pytest.raises(type(wrong)):
                await session.start()

    asyncio.run(main())
    assert trace.names[-1] == "run"


@pytest.mark.spec("F24")
async def test_a_turn_after_one_that_failed_goes_on_with_the_same_session() -> None:
    trace = Trace()
    async with hosting() as (kernel, host):
        session = await hosted(host, hooks=trace.hooks(), run=trace.run(raises=ValueError("no")))
        with pytest.raises(ValueError, match="no"):
            await session.start(1)
        resumed = host.create_session("helper", principal=ADA, run=trace.run(), session_id=session.id)
        assert await resumed.start(2) == "ran 2"
        assert await kept_sessions(kernel) == [session.id]
