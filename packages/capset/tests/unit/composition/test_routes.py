"""One type leads to one tool: whatever else would be called by it is refused, with both contributors named."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from capset import (
    Agent,
    Capability,
    Message,
    Principal,
    Tool,
    Toolkit,
    ToolkitContext,
    compose,
    dynamic_toolkit,
    evaluate,
    tool,
)
from capset.errors import ToolkitFailed, ToolNameConflict
from capset_testing import session_for
from tests.helpers.definitions.tools.processors import message, processor


def made(type: str = "chat.say", name: str = "talk") -> Tool[..., Any]:
    return processor(inbound=message(int, type=Literal[type]), name=name)


@tool(effect="read")
def say() -> int:
    """Say it."""
    return 1


@dynamic_toolkit
def late(context: ToolkitContext) -> list[Tool[..., Any]]:
    return [made(name="later")]


CLASHES = {
    "two processors": (
        {"uses": [Capability("one", tools=[made(name="a")]), Capability("two", tools=[made(name="b")])]},
        "capability 'two' .* brings 'b' for messages of the type 'chat.say', which lead to the tool 'a' that "
        "capability 'one'",
    ),
    "an agent's own": (
        {"tools": [made(name="a")], "uses": [Capability("one", tools=[made(name="b")])]},
        "'tester' itself brings 'a' .* to the tool 'b' that capability 'one'",
    ),
    "in a toolkit": (
        {"tools": [made(name="a"), Toolkit("kit", [made(name="b")])]},
        "'tester' itself brings 'b' .* to the tool 'a' that 'tester' itself",
    ),
    "a tool's name": (
        {"tools": [made("say"), say]},
        "brings 'talk' for messages of the type 'say', which lead to the tool 'say' that 'tester' itself brings",
    ),
    "capability.tool": (
        {"tools": [made()], "uses": [Capability("chat", tools=[say])]},
        "type 'chat.say', which lead to the tool 'say' that capability 'chat'",
    ),
    "an alias of a capability": (
        {"tools": [made("old.say")], "uses": [Capability("chat", tools=[say], aliases=["old"])]},
        "type 'old.say', which lead to the tool 'say' that capability 'chat'",
    ),
    "a tool that two bring": (
        {"tools": [made("two.say")], "uses": [Capability("one", tools=[say]), Capability("two", tools=[say])]},
        "type 'two.say', which lead to the tool 'say' that capability 'one'",
    ),
    "a name that was given here": (
        {"tools": [made("chat.my_say")], "uses": [Capability("chat", tools=[say]).with_names(prefix="my_")]},
        "type 'chat.my_say', which lead to the tool 'my_say' that capability 'chat'",
    ),
}


@pytest.mark.spec("K5")
@pytest.mark.parametrize(("parts", "pattern"), CLASHES.values(), ids=CLASHES)
def test_two_ways_for_one_type_are_refused(parts: dict[str, Any], pattern: str) -> None:
    with pytest.raises(ToolNameConflict, match=pattern) as caught:
        compose(Agent("tester", **parts))
    assert (
        caught.value.hint == "leave one of them out: a prefix or another name does not change the type of its messages"
    )


@pytest.mark.spec("K5")
@pytest.mark.parametrize(
    "parts",
    [
        {"tools": [made(name="a"), late]},
        {"tools": [late], "uses": [Capability("chat", tools=[say])]},
        {"tools": [late], "uses": [Capability("chatter", tools=[say], aliases=["chat"])]},
    ],
    ids=["another processor", "capability.tool", "an alias"],
)
async def test_so_are_those_that_a_dynamic_toolkit_makes(parts: dict[str, Any]) -> None:
    composition = compose(Agent("tester", **parts))
    with pytest.raises(ToolkitFailed, match=r"'later' for messages of the type 'chat\.say', which lead to the tool"):
        await evaluate(composition, principal=Principal("ada"))


@pytest.mark.spec("K5")
async def test_what_has_a_type_of_its_own_is_led_to_by_it_and_by_its_names() -> None:
    first, other = made(name="a"), made("chat.tell", name="b")
    agent = Agent("tester", tools=[late], uses=[Capability("chat", tools=[other, say]).with_names(prefix="my_")])
    async with session_for(agent) as desk:
        for name, called in (("chat.say", "later"), ("chat.tell", "b"), ("my_b", "b"), ("chat.my_b", "b")):
            called_tool = desk.session.invoke(Message("query", name)).called
            assert called_tool is not None
            assert called_tool.name == called
    assert compose(Agent("tester", tools=[first, Toolkit("kit", [first])])).tools["a"].tool is first
