from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from capset import Agent, Capability, DefinitionError, Hooks, Preset, tool
from capset.definitions.governance.hooks import NO_HOOKS, PolicyEvaluated, ToolExecuted, checked_hooks, merge_hooks


def count(event: ToolExecuted) -> None: ...
async def send(event: ToolExecuted) -> None: ...
def trace(event: PolicyEvaluated) -> None: ...
def nothing() -> None: ...


@dataclass
class Log:
    lines: int = 0

    def __call__(self, event: object) -> None: ...
    def write(self, event: object) -> None: ...


@pytest.mark.spec("F23")
def test_hooks_take_one_function_or_several_of_each_event() -> None:
    hooks = Hooks(on_tool_executed=[count, send], on_policy_evaluated=trace)
    assert hooks
    assert (hooks.on_tool_executed, hooks.on_policy_evaluated) == ((count, send), (trace,))
    assert not Hooks()
    assert not Hooks(on_tool_executed=[])
    with pytest.raises(AttributeError):
        hooks.on_tool_executed = (count,)  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.spec("F23")
def test_a_function_that_is_given_twice_is_called_once() -> None:
    log, other = Log(), Log()
    functions = [count, log, log.write, count, other, log.write, log, other.write]
    assert Hooks(on_tool_executed=functions).on_tool_executed == (count, log, log.write, other, other.write)


@pytest.mark.spec("F23")
@pytest.mark.parametrize("wrong", [5, "print", [None], [count, 5], {count}, {"a": count}])
@pytest.mark.parametrize("event", ["on_policy_evaluated", "on_tool_executed"])
def test_what_cannot_be_called_is_refused_by_the_events_name(event: str, wrong: Any) -> None:
    with pytest.raises(DefinitionError, match=f"hooks: {event}"):
        Hooks(**{event: wrong})


@pytest.mark.spec("F23", "F30")
def test_merging_keeps_the_order_and_each_function_once() -> None:
    outer, inner = Hooks(on_tool_executed=[count]), Hooks(on_tool_executed=[send, count])
    merged = merge_hooks(outer, None, inner, NO_HOOKS, Hooks(on_policy_evaluated=trace), outer)
    assert (merged.on_tool_executed, merged.on_policy_evaluated) == ((count, send), (trace,))
    assert merge_hooks(None, outer, NO_HOOKS, outer) is outer
    assert not merge_hooks(None)


@pytest.mark.spec("F23")
@pytest.mark.parametrize("wrong", [{}, [count], count, Hooks])
@pytest.mark.parametrize(
    ("owner", "make"),
    [
        ("capability 'c'", lambda hooks: Capability("c", hooks=hooks)),
        ("a preset", lambda hooks: Preset(hooks=hooks)),
        ("agent 'a'", lambda hooks: Agent("a", hooks=hooks)),
        ("tool 't'", lambda hooks: tool(name="t", description="D.", hooks=hooks)(nothing)),
        ("evaluate", lambda hooks: checked_hooks("evaluate", hooks)),
    ],
)
def test_whoever_carries_hooks_refuses_anything_else(owner: str, make: Callable[[Any], object], wrong: Any) -> None:
    with pytest.raises(DefinitionError, match=f"{owner}: hooks is Hooks"):
        make(wrong)
