"""A composition as a tree, with the blocks that its tools run (spec 1, C40)."""

from __future__ import annotations

import asyncio

import pytest
from rich.console import Console

from capset import (
    Agent,
    Capability,
    Decision,
    Principal,
    Toolkit,
    ToolkitContext,
    compose,
    deny,
    dynamic_toolkit,
    policy,
    tool,
)
from capset.definitions.tools.toolkits import Member
from capset.evaluation.evaluate import evaluate
from capset.flows import Generator, Sequencer, as_tool
from capset.wire.snapshots import snapshot_shape
from capset_cli.compose import tree_of


@pytest.mark.spec("C40")
def test_blocks_inside_stand_by_themselves_and_say_where() -> None:
    mood = Capability("mood", context=[{"mood": "good"}])
    same_name = Generator("keeper", instructions="Think.", uses=[mood])
    review = as_tool(Sequencer("review", input=str).then(same_name), description="Review.")
    keeper = Agent("keeper", uses=[Capability("kit", tools=[review])], instructions="Keep.")
    shape = snapshot_shape(asyncio.run(evaluate(compose(keeper), principal=Principal("ada"))))
    assert [(entry.name, entry.within, entry.path) for entry in shape.explained] == [
        ("review", [], ["keeper", "kit"]),
        ("Keep.", [], ["keeper"]),
        ("Think.", ["keeper", "review"], ["keeper"]),
        ("mood", ["keeper", "review"], ["keeper", "mood"]),
    ]
    console = Console(width=200)
    with console.capture() as captured:
        console.print(tree_of(shape))
    lines = [line.rstrip() for line in captured.get().splitlines()]
    assert lines[: lines.index("├── system text")] == [
        "keeper as seen by ada",
        "├── kit",
        "│   └── ● review write",
        "├── keeper itself",
        "│   └── instruction Keep.",
        "├── block keeper in review",
        "│   ├── instruction Think.",
        "│   └── context     mood by mood",
    ]


@policy
def closed(request: object) -> Decision:
    return deny("closed on Sundays")


@tool(effect="read")
async def own() -> str:
    """Look."""
    return "own"


@dynamic_toolkit(name="feeds")
def feeds(context: ToolkitContext) -> list[Member]:
    return [Toolkit("by_reader", [own])]


@dynamic_toolkit(name="feeds2", policies=[closed])
def feeds2(context: ToolkitContext) -> list[Member]:
    raise AssertionError("it is not made")


@pytest.mark.spec("C40", "F5")
def test_tools_that_were_made_for_somebody_stand_with_their_toolkit() -> None:
    reader = Agent("reader", uses=[Capability("news", tools=[Toolkit("house", [feeds, feeds2])])])
    shape = snapshot_shape(asyncio.run(evaluate(compose(reader), principal=Principal("ada"))))
    console = Console(width=200)
    with console.capture() as captured:
        console.print(tree_of(shape))
    lines = [line.rstrip() for line in captured.get().splitlines()]
    start = lines.index("├── toolkit news.house.feeds made for ada")
    assert lines[start : start + 3] == [
        "├── toolkit news.house.feeds made for ada",
        "│   └── ● own read",
        "├── toolkit news.house.feeds2 not made — closed on Sundays",
    ]
