from __future__ import annotations

import dataclasses
import threading
from typing import Any

import pytest

from capset import Agent, Capability, Policy, Request, compose, tool
from capset.fingerprint.hashes import static_hash


def never(request: Request) -> bool:
    raise AssertionError("compose asks no policy")


@tool(policies=[Policy("never", never)])
def add(a: int) -> int:
    """Add."""
    raise AssertionError("compose runs no handler")


@pytest.mark.spec("C39")
def test_composing_is_pure() -> None:
    agent = Agent("a", system_prompt="Be.", uses=[Capability("c", tools=[add]), Capability("d", status="deprecated")])
    one, two = compose(agent), compose(agent)
    assert one is not two
    assert one.system_text == two.system_text
    for field in dataclasses.fields(one):
        assert getattr(one, field.name) == getattr(two, field.name)


@pytest.mark.spec("F7")
def test_the_static_hash_covers_what_contributes_in_order() -> None:
    first, gone, last = Capability("f", tools=[add]), Capability("g", status="retired"), Capability("l")
    agent = Agent("a", uses=[first, gone, last])
    assert compose(agent).static_hash == static_hash(agent, [first, last])
    assert compose(agent).static_hash != static_hash(agent, [last, first])
    assert compose(agent).static_hash != static_hash(agent, [first, gone, last])


def test_equal_definitions_give_equal_hashes_wherever_they_were_made() -> None:
    def made() -> str:
        def multiply(a: int) -> int:
            """Multiply."""
            return a

        return compose(Agent("a", uses=[Capability("c", tools=[tool(multiply)])])).static_hash

    found = {made()}
    thread = threading.Thread(target=lambda: found.add(made()))
    thread.start()
    thread.join()
    assert len(found) == 1


@pytest.mark.parametrize("wrong", ["a", None, Capability("c"), add])
def test_only_an_agent_can_be_composed(wrong: Any) -> None:
    with pytest.raises((TypeError, AttributeError)):
        compose(wrong)
