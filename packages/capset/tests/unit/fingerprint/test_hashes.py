from __future__ import annotations

from typing import Literal
from unittest import mock

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from capset import Agent, Capability, compose, tool
from capset.fingerprint import hashes
from capset.fingerprint.hashes import prompt_hash, tool_hash
from capset.fingerprint.payloads import tool_payload

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


def save(a: int) -> list[int]:
    """Save."""
    return [a]


@pytest.mark.spec("F12")
@settings(deadline=None)
@given(TEXTS, TEXTS)
def test_two_texts_never_share_a_hash(first: str, other: str) -> None:
    assume(first != other)
    assert prompt_hash(first, []) != prompt_hash(other, [])
    assert prompt_hash("", [first]) != prompt_hash("", [other])
    assert prompt_hash(first, [other]) != prompt_hash(other, [first])
    assert prompt_hash("", [first, other]) != prompt_hash("", [first + other])
    if first.strip() and other.strip():
        assert tool_hash(tool(description=first)(save)) != tool_hash(tool(description=other)(save))


@pytest.mark.spec("F13")
def test_a_tools_hash_is_computed_once() -> None:
    definition = tool(name="once")(save)
    with mock.patch.object(hashes, "tool_payload", wraps=hashes.tool_payload) as payload:
        distinct = {tool_hash(definition) for _ in range(3)}
        compose(Agent("a", uses=[Capability("c", tools=[definition])]))
    assert payload.call_count == 1
    assert len(distinct) == 1


@pytest.mark.spec("F3", "F12")
def test_the_order_of_choices_that_python_takes_for_equal_moves_no_hash() -> None:
    @tool(name="choose", description="Choose.")
    def first(mode: Literal["b", "a", 1], more: list[Literal["z", "y"] | None]) -> Literal["d", "c"]:
        raise NotImplementedError  # never called: its schema is all that counts

    @tool(name="choose", description="Choose.")
    def other(mode: Literal[1, "a", "b"], more: list[Literal["y", "z"] | None]) -> Literal["c", "d"]:
        raise NotImplementedError

    assert tool_hash(first) == tool_hash(other)
    assert tool_payload(first)["schema"]["properties"]["mode"]["enum"] == ["a", "b", 1]
