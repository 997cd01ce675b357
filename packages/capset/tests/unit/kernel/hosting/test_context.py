"""The context of a turn: the agent's, then the registered, then the session's (spec 2, F24)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from threading import Lock
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset import Agent, DefinitionError
from capset.errors import ContextError
from capset.ext import SessionTurn
from capset.kernel.hosting.declaration import Entry, checked_layer, merge_context
from tests.helpers.kernel.hosting.support import ADA, AGENT, Trace, hosted, hosting

pytestmark = pytest.mark.spec("F24")


def context_of(turn: SessionTurn) -> Mapping[str, Any]:
    return turn.context


@pytest.mark.spec("F25")
async def test_the_session_wins_over_the_registration_and_that_over_the_agent() -> None:
    agent = Agent("helper", static_context={"a": "agent", "b": "agent", "c": "agent"})
    async with hosting() as (_, host):
        await host.register(agent, context={"b": "registered", "c": "registered"}, run=context_of)
        session = host.create_session("helper", principal=ADA, context={"c": "session", "d": "session"})
        assert await session.start() == {"a": "agent", "b": "registered", "c": "session", "d": "session"}
        context = await host.create_session("helper", principal=ADA).start()
        assert context == {"a": "agent", "b": "registered", "c": "registered"}


async def test_resolvers_see_the_input_and_the_merge_so_far_and_nothing_later() -> None:
    resolver_calls: list[tuple[Any, Mapping[str, Any]]] = []

    def registered(input: Any, so_far: Mapping[str, Any]) -> Mapping[str, Any]:
        resolver_calls.append((input, so_far))
        return {"tone": so_far["tone"] + "er", "n": 1}

    async def session_resolver(input: Any, so_far: Mapping[str, Any]) -> Mapping[str, Any]:
        resolver_calls.append((input, so_far))
        return {"n": so_far["n"] + 1, "said": input}

    async with hosting() as (_, host):
        await host.register(AGENT, context=[{"z": 0}, registered, {"z": 1}], run=context_of)
        session = host.create_session("helper", principal=ADA, context=session_resolver)
        context = await session.start("hello")
        assert context == {"tone": "kinder", "z": 1, "n": 2, "said": "hello"}
        assert resolver_calls == [("hello", {"tone": "kind", "z": 0}), ("hello", {"tone": "kinder", "z": 1, "n": 1})]
        assert (await session.start("again"))["n"] == 2, "every turn merges anew"
    for merged in (context, resolver_calls[0][1]):
        with pytest.raises(TypeError):
            merged["x"] = 1  # pyright: ignore[reportIndexIssue]


async def test_nothing_inside_a_value_is_merged() -> None:
    entries = checked_layer("", [{"deep": {"a": 1}}, {"deep": {"b": 2}}])
    assert await merge_context(entries, None) == {"deep": {"b": 2}}


async def test_neither_the_host_later_nor_a_turn_changes_the_context_that_was_given() -> None:
    async def spoil(turn: SessionTurn) -> Mapping[str, Any]:
        turn.context["prices"]["tea"].append(3)
        return {**turn.context, "prices": {"tea": list(turn.context["prices"]["tea"])}}

    static, registered = {"prices": {"tea": [1]}}, {"b": 1}
    agent = Agent("helper", static_context=static)
    static["prices"]["tea"].append(2)
    async with hosting() as (_, host):
        session = await hosted(host, agent, context=registered, run=spoil)
        registered["b"] = 2
        assert await session.start() == await session.start() == {"prices": {"tea": [1, 3]}, "b": 1}
    assert agent.static_context == {"prices": {"tea": [1]}}
    with pytest.raises(DefinitionError, match="agent 'helper': static_context: 'lock' cannot be copied"):
        Agent("helper", static_context={"lock": Lock()})


@pytest.mark.parametrize(
    ("gives", "problem"), [(None, "must be a mapping"), ([("a", 1)], "must be a mapping"), ({1: 2}, "a key must be")]
)
async def test_what_a_resolver_must_not_give_fails_the_turn(gives: Any, problem: str) -> None:
    trace = Trace()

    async def resolver(input: Any, so_far: Any) -> Any:
        return gives

    async with hosting() as (_, host):
        session = await hosted(host, context=resolver, hooks=trace.hooks(), run=trace.run())
        with pytest.raises(ContextError, match=rf"the context resolver .+resolver: its result:? {problem}"):
            await session.start()
    assert trace.names == ["on_start", "on_before_context", "on_error"]
    assert trace.told[-1][1].stage == "context"


@pytest.mark.spec("F25")
@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ("text", "context must be a list"),
        (5, "context must be a list"),
        ([5], "context must be a mapping, a resolver"),
        ({1: 2}, "context: a key must be text"),
        ([{}, {None: 2}], "context: a key must be text"),
        (lambda argument: {}, "a context resolver is called with the input and context so far"),
    ],
)
async def test_what_is_no_layer_is_refused_when_it_is_given(wrong: Any, problem: str) -> None:
    async with hosting() as (_, host):
        with pytest.raises(DefinitionError, match=f"register 'helper': {problem}"):
            await host.register(AGENT, context=wrong)
        await host.register(AGENT)
        with pytest.raises(DefinitionError, match=f"create_session 'helper': {problem}"):
            host.create_session("helper", principal=ADA, context=wrong)


MAPPINGS = st.dictionaries(st.sampled_from("abcde"), st.integers(), max_size=4)
ENTRIES = st.lists(st.tuples(MAPPINGS, st.sampled_from(["mapping", "sync", "async"])), max_size=6)


@given(st.tuples(ENTRIES, ENTRIES, ENTRIES))
async def test_the_merge_is_a_fold_over_all_entries_of_all_layers(layers: tuple[Any, Any, Any]) -> None:
    received_contexts: list[Mapping[str, Any]] = []

    def entry(mapping: dict[str, Any], kind: str) -> Entry:
        def sync(input: int, so_far: Mapping[str, Any]) -> Mapping[str, Any]:
            received_contexts.append(so_far)
            return {name: value + input + len(so_far) for name, value in mapping.items()}

        async def later(input: int, so_far: Mapping[str, Any]) -> Mapping[str, Any]:
            return sync(input, so_far)

        return mapping if kind == "mapping" else sync if kind == "sync" else later

    folded: dict[str, Any] = {}
    expected_contexts: list[Mapping[str, Any]] = []
    for mapping, kind in [pair for layer in layers for pair in layer]:
        if kind == "mapping":
            folded = folded | mapping
        else:
            expected_contexts.append(folded)
            folded = folded | {name: value + 7 + len(folded) for name, value in mapping.items()}
    checked = [checked_layer("", [entry(*each) for each in layer]) for layer in layers]
    assert await merge_context([*chain(*checked)], 7) == folded
    assert received_contexts == expected_contexts
