"""A composition as a tree, with the blocks that its tools run (spec 1, C40)."""

from __future__ import annotations

import asyncio

import pytest
from rich.console import Console

from capset import Agent, Capability, Principal, compose
from capset.cli.trees import tree_of
from capset.evaluation.evaluate import evaluate
from capset.flows import Generator, Sequencer, as_tool
from capset.wire.snapshots import snapshot_shape


@pytest.mark.spec("C40")
def test_blocks_inside_stand_by_themselves_and_say_where() -> None:
    mood = Capability("mood", context=[{"mood": "good"}])
    same_name = Generator("keeper", instructions="Think.", uses=[mood])
    review = as_tool(Sequencer("review", input=str).then(same_name), description="Review.")
    keeper = Agent("keeper", uses=[Capability("kit", tools=[review])], instructions="Keep.")
    shape = snapshot_shape(asyncio.run(evaluate(compose(keeper), principal=Principal("ada"))))
    assert [(one.name, one.within, one.path) for one in shape.explained] == [
        ("review", [], ["keeper", "kit"]),
        ("Keep.", [], ["keeper"]),
        ("Think.", ["keeper", "review"], ["keeper"]),
        ("mood", ["keeper", "review"], ["keeper", "mood"]),
    ]
    console = Console(width=200)
    with console.capture() as shown:
        console.print(tree_of(shape))
    lines = [line.rstrip() for line in shown.get().splitlines()]
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
