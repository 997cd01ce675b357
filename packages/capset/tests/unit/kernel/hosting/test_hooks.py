"""Session hooks: how they compose, and what is none (spec 2, F24, F25)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from capset import DefinitionError, Hooks
from capset.errors import InvalidOutput
from capset.ext import SessionHooks, TurnStarted
from tests.helpers.kernel.hosting.support import ADA, AGENT, STEPS, Trace, hosted, hosting


@pytest.mark.spec("F25")
async def test_hooks_compose_registered_then_of_the_session_then_those_that_were_chained() -> None:
    trace = Trace()
    async with hosting() as (_, host):
        await host.register(AGENT, hooks=trace.hooks("registered "), run=trace.run())
        session = host.create_session("helper", principal=ADA, hooks=trace.hooks("own "))
        for step in STEPS:
            assert getattr(session, step)(trace.hook(f"chained {step}")) is session
        session.on_start([trace.hook("last on_start")])
        await session.start()
    owners = ("registered", "own", "chained")
    expected = [f"{owner} {step}" for step in STEPS[:-1] for owner in owners]
    expected.insert(3, "last on_start")
    expected.insert(expected.index("registered on_after_run"), "run")
    assert trace.names == expected

    trace.told.clear()
    session.on_before_context(trace.hook("wrong", raises=ValueError("no")))
    with pytest.raises(ValueError, match="no"):
        await session.start()
    assert trace.names[-3:] == ["registered on_error", "own on_error", "chained on_error"]


@pytest.mark.spec("F25")
async def test_what_is_chained_holds_for_one_session_and_for_turns_that_start_later() -> None:
    trace = Trace()
    async with hosting() as (_, host):
        session = await hosted(host, run=trace.run())

        def chain(_: TurnStarted) -> None:
            session.on_after_run(trace.hook("chained"))

        session.on_start(chain)
        await session.start()
        assert trace.names == ["run"]
        await host.create_session("helper", principal=ADA).start()
        assert trace.names == ["run", "run"]
        await session.start()
        assert trace.names == ["run", "run", "run", "chained"]


@pytest.mark.spec("F24")
async def test_sync_and_async_hooks_are_awaited_in_order() -> None:
    trace = Trace()

    def sync(event: TurnStarted) -> None:
        trace.told.append(("sync", event))

    async with hosting() as (_, host):
        hooks = SessionHooks(on_start=[trace.hook("first"), sync, trace.hook("last")])
        session = await hosted(host, hooks=hooks, run=lambda turn: f"sync {turn.input}")
        assert await session.start("run") == "sync run"
    assert trace.names == ["first", "sync", "last"]


def generator(_: TurnStarted) -> Iterator[None]:
    yield


@pytest.mark.spec("F24")
@pytest.mark.parametrize(
    ("hook", "type_name"), [(lambda _: {"a": 1}, "dict"), (generator, "generator"), (lambda _: False, "bool")]
)
async def test_a_hook_that_gives_something_back_fails_the_turn(hook: Any, type_name: str) -> None:
    trace = Trace()
    async with hosting() as (_, host):
        session = (await hosted(host, run=trace.run())).on_before_run(hook)
        with pytest.raises(InvalidOutput, match=rf"the session hook .+ returned {type_name}; it must return None"):
            await session.start()
    assert trace.names == []


@pytest.mark.spec("F25")
@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ("hook", "hooks: on_start must be a list"),
        (5, "hooks: on_start must be a list"),
        ([print, 5], "hooks: on_start takes functions of one event"),
        (lambda: None, "hooks: on_start is called with the event"),
        (lambda a, b: None, "hooks: on_start is called with the event"),
    ],
)
async def test_what_is_no_hook_is_refused_when_it_is_given(wrong: Any, problem: str) -> None:
    with pytest.raises(DefinitionError, match=problem):
        SessionHooks(on_start=wrong)
    async with hosting() as (_, host):
        session = await hosted(host)
        with pytest.raises(DefinitionError, match=problem):
            session.on_start(wrong)


@pytest.mark.parametrize("wrong", [Hooks(), {"on_start": print}, print])
async def test_hooks_of_a_session_are_session_hooks(wrong: Any) -> None:
    async with hosting() as (_, host):
        with pytest.raises(DefinitionError, match=r"register 'helper': hooks must be SessionHooks\(on_start=…\); got"):
            await host.register(AGENT, hooks=wrong)
        await host.register(AGENT)
        with pytest.raises(DefinitionError, match=r"create_session 'helper': hooks must be SessionHooks"):
            host.create_session("helper", principal=ADA, hooks=wrong)
        with pytest.raises(DefinitionError, match=r"create_session 'helper': tool_hooks: hooks is Hooks"):
            host.create_session("helper", principal=ADA, tool_hooks=SessionHooks())  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(("value", "name"), [(TurnStarted(AGENT, "hello"), "input"), (SessionHooks(), "on_start")])
def test_neither_events_nor_hooks_can_be_changed(value: object, name: str) -> None:
    with pytest.raises(AttributeError):
        setattr(value, name, ())
