"""What a tool says beside its schema: instructions, examples, a version, whether repeating it is safe, its hooks."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from capset import DefinitionError, Hooks, Tool, tool


class Note(BaseModel):
    text: str
    tags: list[str] = []


def write(note: Note, count: int = 1) -> int:
    """Write a note."""
    return count


def make(**options: Any) -> Tool[..., Any]:
    return tool(**options)(write)


@pytest.mark.spec("F3")
def test_a_tool_has_none_of_them_unless_they_are_declared() -> None:
    plain = tool(write)
    assert (plain.instructions, plain.examples, plain.version, plain.idempotent) == ((), (), None, False)
    assert not plain.hooks


@pytest.mark.spec("F3")
def test_a_tool_keeps_what_is_declared() -> None:
    hooks = Hooks(on_tool_executed=print)
    examples = [{"note": {"text": "ä", "tags": ["x"]}}, {"note": {"text": ""}, "count": 2**70}]
    definition = make(
        instructions=[" Read first. ", "", "Be brief."], examples=examples, version="2.1", idempotent=True, hooks=hooks
    )
    assert definition.instructions == ("Read first.", "Be brief.")
    assert [dict(example) for example in definition.examples] == examples
    assert (definition.version, definition.idempotent) == ("2.1", True)
    assert definition.hooks is hooks
    assert make(instructions="One text.").instructions == ("One text.",)


@pytest.mark.spec("F3")
def test_examples_are_the_tools_own() -> None:
    examples = [{"note": {"text": "a", "tags": ["x"]}}]
    definition = make(examples=examples)
    examples[0]["note"]["tags"] = ["changed"]
    examples.append({"note": {"text": "b"}})
    assert [dict(example) for example in definition.examples] == [{"note": {"text": "a", "tags": ["x"]}}]
    with pytest.raises(TypeError):
        definition.examples[0]["note"] = {}  # pyright: ignore[reportIndexIssue]


@pytest.mark.spec("F3", "C39")
@pytest.mark.parametrize(
    ("example", "message"),
    [
        ({}, "does not fit its schema: note: Field required"),
        ({"note": {"text": 5}}, "does not fit its schema: note.text:"),
        ({"note": {"text": "a"}, "count": "1"}, "does not fit its schema: count:"),
        ({"note": {"text": "a"}, "more": 1}, "does not fit its schema: more:"),
        ({"note": {"text": "a", "more": 1}}, "does not fit its schema: note.more:"),
        ({"note": Note(text="a")}, "is no JSON data"),
        ({"note": {"text": "a"}, "count": float("nan")}, "is no JSON data"),
        ({"note": {"text": "\ud800"}}, "its example 2"),
        ([("note", {"text": "a"})], "must be a mapping"),
        ("note", "must be a mapping"),
        (None, "must be a mapping"),
    ],
    ids=repr,
)
def test_an_example_that_a_call_would_refuse_is_refused_by_its_number(example: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match="tool 'write': its example 2") as refused:
        make(examples=[{"note": {"text": "fine"}}, example])
    assert message in refused.value.message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"examples": {"note": {"text": "a"}}}, "tool 'write': examples must be a list"),
        ({"instructions": [1]}, "tool 'write': instructions must be text"),
        ({"version": 2}, "tool 'write': version must be text"),
        ({"idempotent": 1}, "tool 'write': idempotent must be True or False"),
        ({"idempotent": "no"}, "tool 'write': idempotent must be True or False"),
        ({"hooks": print}, "tool 'write': hooks is Hooks"),
    ],
    ids=range(6),
)
def test_each_is_checked_where_it_is_declared(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        make(**options)
