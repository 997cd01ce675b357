"""A long text in a result is what a short one is, and is not copied."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any

import pytest
from pydantic import Field, PlainSerializer
from typing_extensions import TypedDict

from capset import Context, tool
from capset.schemas.plain_data import LONG_TEXT_LENGTH

Loud = Annotated[str, PlainSerializer(lambda text: text.upper(), return_type=str)]


class Found(TypedDict):
    text: str
    loud: Loud
    day: date
    more: Annotated[dict[str, Any], Field(default_factory=dict)]


@tool(effect="read")
async def find(ctx: Context) -> Found:
    """Find something."""
    raise NotImplementedError  # never called: its schema is all that counts


def found(text: str, loud: str = "a", more: Any = None) -> Found:
    return Found(text=text, loud=loud, day=date(2026, 1, 2), more={"a": (1, 2.5, None), "b": more})


@pytest.mark.spec("G26")
@pytest.mark.parametrize("letter", ["a", "é", "’", "😀", '"', "\0"])
def test_a_long_text_is_the_same_data_and_the_same_object(letter: str) -> None:
    short, long = (
        find.output.jsonable(found(letter)),
        find.output.jsonable(found(text := letter * LONG_TEXT_LENGTH, "b" * LONG_TEXT_LENGTH)),
    )
    assert long == {**short, "text": text, "loud": "B" * LONG_TEXT_LENGTH}
    assert list(long) == list(short) == ["text", "loud", "day", "more"]
    assert long["text"] is text
    assert long["more"] == {"a": [1, 2.5, None], "b": None}


@pytest.mark.spec("G26")
@pytest.mark.parametrize(
    ("end", "more", "problem"),
    [("\ud800", None, "surrogates"), ("", "\udfff", "surrogates"), ("", object(), "serialize")],
)
def test_what_json_cannot_carry_is_refused_beside_it_too(end: str, more: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        find.output.jsonable(found("a" * LONG_TEXT_LENGTH + end, more=more))
