from __future__ import annotations

import dataclasses
import threading
from typing import Any

import pytest

from capset import Agent, Capability, Policy, Request, compose, tool
from capset.errors import DefinitionError
from capset.fingerprint.hashes import Ref, capability_hash, definition_hash


def never(request: Request) -> bool:
    raise AssertionError("compose asks no policy")


@tool(policies=[Policy("never", never)])
def add(a: int) -> int:
    """Add."""
    raise AssertionError("compose runs no handler")


@pytest.mark.spec("C39")
def test_composing_is_pure() -> None:
    agent = Agent("a", system_prompt="Be.", uses=[Capability("c", tools=[add]), Capability("d", status="deprecated")])
    first, two = compose(agent), compose(agent)
    assert first is not two
    assert (first.block, first.tools, first.notices, first.static_hash) == (
        two.block,
        two.tools,
        two.notices,
        two.static_hash,
    )
    assert first.system_text == two.system_text
    assert first.explain() == two.explain()
    assert list(first.tools) == list(two.tools)
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.static_hash = ""  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.spec("F7")
def test_the_static_hash_covers_what_contributes_in_order() -> None:
    first, gone, last = Capability("f", tools=[add]), Capability("g", status="retired"), Capability("l")
    agent = Agent("a", uses=[first, gone, last])

    def expected(*capabilities: Capability) -> str:
        return definition_hash(
            agent, [Ref(capability.name, capability_hash(capability)) for capability in capabilities]
        )

    assert compose(agent).static_hash == expected(first, last)
    assert compose(agent).static_hash != expected(last, first)
    assert compose(agent).static_hash != expected(first, gone, last)


def test_equal_definitions_give_equal_hashes_wherever_they_were_made() -> None:
    def build_hash() -> str:
        def multiply(a: int) -> int:
            """Multiply."""
            return a

        return compose(Agent("a", uses=[Capability("c", tools=[tool(multiply)])])).static_hash

    hashes = {build_hash()}
    thread = threading.Thread(target=lambda: hashes.add(build_hash()))
    thread.start()
    thread.join()
    assert len(hashes) == 1


@pytest.mark.spec("C39")
@pytest.mark.parametrize("wrong", ["a", None, Capability("c"), add, Agent])
def test_only_an_agent_or_a_block_can_be_composed(wrong: Any) -> None:
    with pytest.raises(DefinitionError, match="compose takes an Agent, or another block; got"):
        compose(wrong)
