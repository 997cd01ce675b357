"""What composing comes to: a hash, a text, and nothing that runs (spec 1, C21, C39)."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from capset import Agent, Capability, Policy, Preset, Request, compose, tool
from capset.errors import DefinitionError
from capset.fingerprint.hashes import Ref, capability_hash, definition_hash


def never(request: Request) -> bool:
    raise AssertionError("compose asks no policy")


@tool(policies=[Policy("never", never)])
def add(a: int) -> int:
    """Add."""
    raise AssertionError("compose runs no handler")


@pytest.mark.spec("F7", "C39")
def test_the_static_hash_covers_what_contributes_in_order() -> None:
    first, gone, last = Capability("f", tools=[add]), Capability("g", status="retired"), Capability("l")
    agent = Agent("a", uses=[first, gone, last])

    def expected(*capabilities: Capability) -> str:
        return definition_hash(
            agent, [Ref(capability.name, capability_hash(capability)) for capability in capabilities]
        )

    composition = compose(agent)
    assert composition.static_hash == expected(first, last)
    assert composition.static_hash not in (expected(last, first), expected(first, gone, last))
    with pytest.raises(dataclasses.FrozenInstanceError):
        composition.static_hash = ""  # pyright: ignore[reportAttributeAccessIssue]


def test_equal_definitions_give_equal_hashes_wherever_they_were_made() -> None:
    def composed_hash() -> str:
        def multiply(a: int) -> int:
            """Multiply."""
            return a

        return compose(Agent("a", uses=[Capability("c", tools=[tool(multiply)])])).static_hash

    assert composed_hash() == composed_hash()


@pytest.mark.spec("C39")
@pytest.mark.parametrize("wrong", ["a", None, Capability("c"), add, Agent])
def test_only_an_agent_or_a_block_can_be_composed(wrong: Any) -> None:
    with pytest.raises(DefinitionError, match="compose takes an Agent, or another block; got"):
        compose(wrong)


NOTES = Capability("notes:main", instructions=["Keep notes.", "Keep <b>all</b> & more."])
SILENT = Capability("silent")
FILES = Capability("files", instructions="Read \u65e5\u672c.", presets={"full": Preset(instructions="Then\nwrite.")})
GONE = Capability("gone", status="retired", instructions="Never.")
FILES_TEXT = '<capability id="files">\nRead \u65e5\u672c.\n\nThen\nwrite.\n</capability>'
WHOLE = f"""\
<capability id="notes:main">
Keep notes.

Keep <b>all</b> & more.
</capability>

{FILES_TEXT}

You are tidy.

First.

Second
line."""


@pytest.mark.spec("C21", "C17")
def test_the_system_text_is_each_part_in_its_place() -> None:
    instructions = [" First. ", "", "Second\nline."]
    uses = [NOTES, SILENT, GONE, FILES, NOTES]
    composition = compose(Agent("a", system_prompt="\n You are tidy. \n", instructions=instructions, uses=uses))
    assert composition.system_text == WHOLE
    texts = ("Read \u65e5\u672c.", "Then\nwrite.", "First.", "Second\nline.")
    assert composition.instructions == (*NOTES.part.instructions, *texts)


@pytest.mark.spec("C21")
@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ({"system_prompt": " \n"}, ""),
        ({"system_prompt": "Be."}, "Be."),
        ({"instructions": ["One.", "Two."]}, "One.\n\nTwo."),
        ({"uses": [SILENT]}, ""),
        ({"uses": [SILENT], "system_prompt": "Be."}, "Be."),
        ({"uses": [FILES]}, FILES_TEXT),
    ],
)
def test_what_is_empty_leaves_no_trace(parts: dict[str, Any], text: str) -> None:
    assert compose(Agent("a", **parts)).system_text == text
