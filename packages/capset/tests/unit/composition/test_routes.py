"""One type leads to one tool: whatever else would be called by it is refused, with both contributors named."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from capset import Agent, Capability, Message, Principal, Tool, Toolkit, compose, evaluate, tool
from capset.definitions.tools.toolkits import DynamicToolkit
from capset.errors import ToolkitFailed, ToolNameConflict
from capset_testing import session_for
from tests.helpers.definitions.tools.processors import message, processor

pytestmark = pytest.mark.spec("K5")


def made(type: str = "chat.say", name: str = "talk") -> Tool[..., Any]:
    return processor(inbound=message(int, type=Literal[type]), name=name)


@tool(effect="read")
def say() -> int:
    """Say it."""
    return 1


LATE = DynamicToolkit("late", lambda context: [made(name="later")])
CHAT = Capability("chat", tools=[say], aliases=["old"])
CLASHES: dict[str, tuple[dict[str, Any], str]] = {
    "two processors": (
        {"uses": [Capability("one", tools=[made(name="a")]), Capability("two", tools=[made(name="b")])]},
        "capability 'two' .* brings 'b' for messages of the type 'chat.say', .* the tool 'a' that capability 'one'",
    ),
    "an agent's own": (
        {"tools": [made(name="a")], "uses": [Capability("one", tools=[made(name="b")])]},
        "'tester' itself brings 'a' .* to the tool 'b' that capability 'one'",
    ),
    "in a toolkit": (
        {"tools": [made(name="a"), Toolkit("kit", [made(name="b")])]},
        "'tester' itself brings 'b' .* to the tool 'a' that 'tester' itself",
    ),
    "a tool's name": ({"tools": [made("say"), say]}, "'talk' .* type 'say', .* the tool 'say' that 'tester' itself"),
    "capability.tool": ({"tools": [made()], "uses": [CHAT]}, "'chat.say', .* the tool 'say' that capability 'chat'"),
    "an alias": ({"tools": [made("old.say")], "uses": [CHAT]}, "'old.say', .* the tool 'say' that capability 'chat'"),
    "a tool that two bring": (
        {"tools": [made("two.say")], "uses": [Capability("one", tools=[say]), Capability("two", tools=[say])]},
        "type 'two.say', which lead to the tool 'say' that capability 'one'",
    ),
    "a name that was given here": (
        {"tools": [made("chat.my_say")], "uses": [CHAT.with_names(prefix="my_")]},
        "type 'chat.my_say', which lead to the tool 'my_say' that capability 'chat'",
    ),
}


@pytest.mark.parametrize(("parts", "pattern"), CLASHES.values(), ids=CLASHES)
def test_two_ways_for_one_type_are_refused(parts: dict[str, Any], pattern: str) -> None:
    with pytest.raises(ToolNameConflict, match=pattern) as caught:
        compose(Agent("tester", **parts))
    assert str(caught.value.hint).startswith("leave one of them out")


@pytest.mark.parametrize(
    "parts",
    [
        {"tools": [made(name="a"), LATE]},
        {"tools": [LATE], "uses": [CHAT]},
        {"tools": [LATE], "uses": [Capability("chatter", tools=[say], aliases=["chat"])]},
    ],
    ids=["another processor", "capability.tool", "an alias"],
)
async def test_so_are_those_that_a_dynamic_toolkit_makes(parts: dict[str, Any]) -> None:
    with pytest.raises(ToolkitFailed, match=r"'later' for messages of the type 'chat\.say', which lead to the tool"):
        await evaluate(compose(Agent("tester", **parts)), principal=Principal("ada"))


async def test_what_has_a_type_of_its_own_is_led_to_by_it_and_by_its_names() -> None:
    first, other = made(name="a"), made("chat.tell", name="b")
    agent = Agent("tester", tools=[LATE], uses=[Capability("chat", tools=[other, say]).with_names(prefix="my_")])
    async with session_for(agent) as desk:
        for name, called in (("chat.say", "later"), ("chat.tell", "b"), ("my_b", "b"), ("chat.my_b", "b")):
            called_tool = desk.session.invoke(Message("query", name)).called
            assert called_tool is not None
            assert called_tool.name == called
    assert compose(Agent("tester", tools=[first, Toolkit("kit", [first])])).tools["a"].tool is first
