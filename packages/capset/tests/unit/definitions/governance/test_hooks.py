"""Hooks: functions of one event each, checked where they are declared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from capset import Agent, Capability, DefinitionError, Hooks, Preset, tool
from capset.definitions.governance.hooks import NO_HOOKS, PolicyEvaluated, ToolExecuted, checked_hooks, merge_hooks


def one(event: ToolExecuted) -> None: ...


async def two(event: ToolExecuted) -> None: ...


def asked(event: PolicyEvaluated) -> None: ...


def nothing() -> None: ...


@dataclass
class Log:
    lines: int = 0

    def __call__(self, event: object) -> None: ...

    def write(self, event: object) -> None: ...


@pytest.mark.spec("F23")
def test_hooks_take_one_function_or_several_of_each_event() -> None:
    hooks = Hooks(on_tool_executed=[one, two], on_policy_evaluated=asked)
    assert (hooks.on_tool_executed, hooks.on_policy_evaluated) == ((one, two), (asked,))
    assert hooks
    assert not Hooks()
    assert not Hooks(on_tool_executed=[])


@pytest.mark.spec("F23")
def test_a_function_that_is_given_twice_is_told_once() -> None:
    log, other = Log(), Log()
    functions = [one, log, log.write, one, other, log.write, log, other.write]
    assert Hooks(on_tool_executed=functions).on_tool_executed == (one, log, log.write, other, other.write)


@pytest.mark.spec("F23")
@pytest.mark.parametrize(
    "wrong", [5, "print", [None], [one, 5], {one}, {"a": one}], ids=lambda wrong: type(wrong).__name__
)
@pytest.mark.parametrize("event", ["on_policy_evaluated", "on_tool_executed"])
def test_what_cannot_be_called_is_refused_by_the_events_name(event: str, wrong: Any) -> None:
    with pytest.raises(DefinitionError, match=f"hooks: {event}"):
        Hooks(**{event: wrong})


def test_there_is_no_third_event() -> None:
    with pytest.raises(TypeError, match="on_tool_started"):
        Hooks(on_tool_started=one)  # pyright: ignore[reportCallIssue]


@pytest.mark.spec("F23", "F30")
def test_merging_keeps_the_order_and_each_function_once() -> None:
    outer, inner, last = (
        Hooks(on_tool_executed=[one]),
        Hooks(on_tool_executed=[two, one]),
        Hooks(on_policy_evaluated=asked),
    )
    merged = merge_hooks(outer, None, inner, NO_HOOKS, last, outer)
    assert (merged.on_tool_executed, merged.on_policy_evaluated) == ((one, two), (asked,))
    assert merge_hooks(None, outer, NO_HOOKS, outer) is outer
    assert not merge_hooks(None)
    assert merge_hooks(merge_hooks(outer, inner), outer).on_tool_executed == (one, two)


@pytest.mark.parametrize("wrong", [{}, [one], one, Hooks], ids=lambda wrong: type(wrong).__name__)
def test_whoever_carries_hooks_refuses_anything_else(wrong: Any) -> None:
    owners: dict[str, Any] = {
        "capability 'c'": lambda: Capability("c", hooks=wrong),
        "a preset": lambda: Preset(hooks=wrong),
        "agent 'a'": lambda: Agent("a", hooks=wrong),
        "tool 't'": lambda: tool(name="t", description="D.", hooks=wrong)(nothing),
        "evaluate": lambda: checked_hooks("evaluate", wrong),
    }
    for owner, make in owners.items():
        with pytest.raises(DefinitionError, match=f"{owner}: hooks is Hooks"):
            make()


def test_hooks_are_frozen() -> None:
    with pytest.raises(AttributeError):
        Hooks().on_tool_executed = (one,)  # pyright: ignore[reportAttributeAccessIssue]
