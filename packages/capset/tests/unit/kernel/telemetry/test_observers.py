"""Whoever is told of calls: what he is told, and that he harms none (spec 5, P13)."""

from __future__ import annotations

import asyncio
import weakref
from typing import Any

import pytest

from capset import Agent, Capability, Kernel, Principal, Session, tool
from capset.kernel.call.invocation import Invocation
from tests.helpers.kernel.call.hot_path import functions_of
from tests.helpers.kernel.support import records_of

pytestmark = pytest.mark.spec("P13")


@tool(effect="read")
async def plain(number: int) -> int:
    """Return the number."""
    return number


AGENT = Agent("tester", uses=[Capability("kit", tools=[plain])])
WHO = Principal("ada")


class Notes:
    def __init__(self, *fails: str) -> None:
        self.said: list[tuple[str, Any]] = []
        self._fails = fails

    def on_start(self, call: Invocation) -> str:
        return self._note("on_start", call.id)

    def on_attach(self, state: str) -> None:
        self._note("on_attach", state)

    def on_end(self, call: Invocation, state: str) -> None:
        assert state == call.id
        self._note("on_end", call.outcome)

    def on_detach(self, state: str) -> None:
        self._note("on_detach", state)

    def _note(self, event: str, value: Any) -> Any:
        if event in self._fails:
            raise RuntimeError("out of ink")
        self.said.append((event, value))
        return value


@pytest.mark.parametrize("failing_event", ["on_start", "on_end", "on_detach"])
async def test_an_observer_that_fails_is_logged_by_name(failing_event: str, caplog: pytest.LogCaptureFixture) -> None:
    bad, good = Notes(failing_event), Notes()
    async with Kernel("memory://", observers=[bad, good]) as kernel, kernel.open(AGENT, principal=WHO) as session:
        assert await session.call(plain, 1) == 1
        (record,) = await records_of(kernel.audit)
    assert record.outcome == "succeeded"
    assert [event for event, _ in good.said] == ["on_start", "on_end", "on_detach"]
    assert "the observer Notes failed" in caplog.text


async def test_what_an_observer_keeps_of_a_call_is_let_go_with_it() -> None:
    references: list[weakref.ref[Keeping]] = []

    class Keeping(Notes):
        def on_start(self, call: Invocation) -> Any:
            observer = Keeping()
            references.append(weakref.ref(observer))
            return observer

        def on_end(self, call: Invocation, state: Any) -> None: ...

        def on_detach(self, state: Any) -> None: ...

    async with Kernel("memory://", observers=[Keeping()]) as kernel, kernel.open(AGENT, principal=WHO) as session:
        await session.call(plain, 1)
        assert [reference() for reference in references] == [None], "although its record has not been read"


async def test_an_observer_may_come_and_go_and_is_told_of_the_begin_the_outcome_and_the_end() -> None:
    notes = Notes()
    async with Kernel("memory://") as kernel, kernel.open(AGENT, principal=WHO) as session:
        await session.call(plain, 1)
        with kernel.observe(notes):
            result = await session.try_call(plain, 1)
        await session.call(plain, 1)
        assert kernel.observers == ()
    assert notes.said == [("on_start", result.record), ("on_end", "succeeded"), ("on_detach", result.record)]


async def test_a_call_before_its_first_step_is_told_of_too() -> None:
    notes = Notes()
    async with Kernel("memory://", observers=[notes]) as kernel, kernel.open(AGENT, principal=WHO) as session:
        stream = session.stream(plain, 1)
        await stream.__aenter__()
        await stream.__aexit__(None, None, None)
    assert [event for event, _ in notes.said] == ["on_start", "on_end", "on_detach"]
    assert notes.said[1] == ("on_end", "cancelled")


async def test_a_call_that_is_dropped_leaves_the_context_alone() -> None:
    notes = Notes()

    @tool(effect="read")
    async def wait() -> None:
        """Wait."""
        await asyncio.Event().wait()

    agent = Agent("tester", uses=[Capability("kit", tools=[wait])])
    async with Kernel("memory://", observers=[notes]) as kernel, kernel.open(agent, principal=WHO) as session:
        call = session.call(wait)
        call.send(None)
        call.close()
    assert [event for event, _ in notes.said] == ["on_start", "on_end"]


def call_plain(session: Session) -> Any:
    return session.call(plain, 1)


async def test_without_observers_a_call_enters_no_function_of_theirs() -> None:
    async with Kernel("memory://", observers=()) as kernel, kernel.open(AGENT, principal=WHO) as session:
        alone = functions_of(call_plain, session)
        with kernel.observe(Notes()):
            watched = functions_of(call_plain, session)
    theirs = {"observe", "notify_start", "notify_end", "notify_detach"}
    assert (theirs & {*alone}, theirs & {*watched}) == (set(), theirs)
