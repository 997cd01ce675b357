from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, SecretStr, create_model

from capset import DefinitionError
from capset.definitions.calls.clients import question_of


class Everything(BaseModel):
    name: Annotated[str, Field(min_length=1, max_length=9, title="Name")]
    when: date | None = None
    count: Annotated[int, Field(ge=1, le=9)] = 3
    share: float = 0.5
    sure: bool = False
    kind: Literal["a", "b"] = "a"
    only: Literal["x"] = "x"
    several: list[Literal["a", "b"]] = Field(default_factory=list[Literal["a", "b"]], max_length=2)


@pytest.mark.spec("M12")
def test_a_form_is_a_flat_schema() -> None:
    question = question_of("all", "All?", Everything)
    assert question.form["required"] == ["name"]
    assert question.form["properties"] == {
        "name": {"type": "string", "minLength": 1, "maxLength": 9, "title": "Name"},
        "when": {"type": "string", "format": "date"},
        "count": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
        "share": {"type": "number", "default": 0.5},
        "sure": {"type": "boolean", "default": False},
        "kind": {"type": "string", "enum": ["a", "b"], "default": "a"},
        "only": {"type": "string", "enum": ["x"], "default": "x"},
        "several": {"type": "array", "maxItems": 2, "items": {"type": "string", "enum": ["a", "b"]}},
    }
    read = question.read({"name": "ada", "when": "2026-07-28", "several": ["b"]})
    assert (read.when, read.several, read.count) == (date(2026, 7, 28), ["b"], 3)
    assert question.accepts({"name": "ada"})
    for wrong in (None, {}, {"name": ""}, {"name": "ada", "count": "3"}, {"name": "ada", "else": 1}, {"name": 1}):
        assert not question.accepts(wrong), wrong


Color = Annotated[Literal["#d00"], Field(title="Red")] | Annotated[Literal["#0d0"], Field(title="Green")]


class Titled(BaseModel):
    color: Color
    frame: Color | None = None
    stripes: Annotated[list[Color], Field(min_length=1, title="Stripes")] = ["#0d0"]
    dots: Color | Literal["none", "all"] = "none"
    size: Literal["s", "l"] = Field("s", json_schema_extra={"enumNames": ["Small", "Large"]})


@pytest.mark.spec("M12")
def test_choices_have_titles() -> None:
    question = question_of("look", "Which look?", Titled)
    red, green = {"const": "#d00", "title": "Red"}, {"const": "#0d0", "title": "Green"}
    dots = [red, green, {"const": "none", "title": "none"}, {"const": "all", "title": "all"}]
    assert question.form["properties"] == {
        "color": {"type": "string", "oneOf": [red, green]},
        "frame": {"type": "string", "oneOf": [red, green]},
        "stripes": {
            "type": "array",
            "title": "Stripes",
            "minItems": 1,
            "items": {"anyOf": [red, green]},
            "default": ["#0d0"],
        },
        "dots": {"type": "string", "oneOf": dots, "default": "none"},
        "size": {"type": "string", "enum": ["s", "l"], "enumNames": ["Small", "Large"], "default": "s"},
    }
    assert question.form["required"] == ["color"]
    read = question.read({"color": "#d00", "stripes": ["#d00", "#0d0"], "dots": "all"})
    assert (read.color, read.stripes, read.frame, read.dots) == ("#d00", ["#d00", "#0d0"], None, "all")
    for wrong in ({"color": "Red"}, {"color": "#d00", "stripes": ["Red"]}, {"color": "#d00", "stripes": []}):
        assert not question.accepts(wrong), wrong


SMALL = Field(json_schema_extra={"enumNames": ["Small"]})


@pytest.mark.spec("M12")
@pytest.mark.parametrize(
    ("annotation", "problem"),
    [
        (Everything, "a form has texts, numbers, booleans, choices"),
        (list[str], "a form has texts, numbers, booleans, choices"),
        (int | str, "a form has texts, numbers, booleans, choices"),
        (Color | str, "a form has texts, numbers, booleans, choices"),
        (Annotated[Literal[1], Field(title="One")] | Literal[2], "a form has texts, numbers, booleans, choices"),
        (Annotated[Literal["s", "l"], SMALL], "enumNames must have a name for each choice"),
        (Annotated[str, SMALL], "enumNames must have a name for each choice"),
        (list[Annotated[Literal["s"], SMALL]], "enumNames must have a name for each choice"),
        (SecretStr, "the form Form must hold no secret"),
    ],
)
def test_what_no_form_has_is_refused(annotation: Any, problem: str) -> None:
    with pytest.raises(DefinitionError, match=problem):
        question_of("key", "What?", create_model("Form", field=(annotation, ...)))


@pytest.mark.spec("M12")
@pytest.mark.parametrize(
    ("key", "message", "model"),
    [("", "?", Titled), ("k" * 101, "?", Titled), ("k", 7, Titled), ("k", "?", dict), ("k", "?", [])],
)
def test_a_question_has_a_key_a_message_and_a_model(key: Any, message: Any, model: Any) -> None:
    with pytest.raises(DefinitionError):
        question_of(key, message, model)
