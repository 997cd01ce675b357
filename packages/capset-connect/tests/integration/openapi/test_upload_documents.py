"""Operations that take files: what a document has to say, and what a pin covers (spec 7, M8 and M23)."""

from __future__ import annotations

from typing import Any

import pytest

from capset_connect.openapi.api import OpenApi
from capset_connect.pins.tool_pins import pin_of
from tests.helpers.connect.openapi.upload_support import FILE, offered


@pytest.mark.spec("M8", "M23")
def test_a_pin_has_the_way_that_parts_are_sent() -> None:
    def pinned(form: dict[str, Any]) -> str:
        offer = offered(form)
        assert offer.problems == ()
        return pin_of(OpenApi(name="files", document={}), offer, "ada", "now").hash

    def form(schema: dict[str, Any], **encoding: str) -> dict[str, Any]:
        return {
            "schema": {"type": "object", "properties": {"a": schema}},
            "encoding": {name: {"contentType": media} for name, media in encoding.items()},
        }

    several = {"type": "array", "items": FILE}
    text = {"type": "string"}
    forms = [form(FILE), form(FILE, a="image/png"), form(several), form(text), form(text, a="application/json")]
    assert len({pinned(form_body) for form_body in forms}) == len(forms)
    assert offered(form(FILE, a="image/png")).shape["arguments"]["body"] == {
        "in": "body",
        "media": "multipart/form-data",
        "parts": {"a": {"file": True, "media": "image/png"}},
    }
    assert offered(form({"type": ["string", "null"], "format": "binary"})).shape["arguments"]["body"]["parts"]
    nullable = {"anyOf": [FILE, {"type": "null"}]}
    assert offered(form(nullable)).shape["arguments"]["body"]["parts"] == {"a": {"file": True}}


@pytest.mark.spec("M106")
def test_a_style_that_repeats_a_part_is_how_parts_are_sent_and_3_0_has_none_there() -> None:
    properties = {"file": FILE, "tags": {"type": "array", "items": {"type": "string"}}}
    repeated = {"schema": {"properties": properties}, "encoding": {name: {"style": "form"} for name in properties}}
    assert offered(repeated).problems == ()
    joined = {**repeated, "encoding": {"tags": {"style": "form", "explode": False}}}
    offer = offered(joined)
    assert (offer.problems, offer.notes) == ((), ("left out: its body: the style of 'tags' cannot be sent",))
    assert list(offer.shape["inputSchema"]["properties"]["body"]["properties"]) == ["file"]
    assert (offered(joined, "3.0.3").problems, offered(joined, "3.0.3").notes) == ((), ())


@pytest.mark.spec("M8", "M23")
@pytest.mark.parametrize(
    ("form", "problem"),
    [
        (
            {"schema": {"properties": {"a": {"type": "object", "properties": {"b": FILE}}}}},
            "a file can only be a field",
        ),
        ({"schema": {"additionalProperties": FILE}}, "a file can only be a field"),
        ({"schema": {"allOf": [{"properties": {"a": FILE}}]}}, "a file can only be a field"),
        ({"schema": {"properties": {"a": {"type": "array", "items": {"type": "array", "items": FILE}}}}}, "a file can"),
        ({"schema": {"properties": {"a": FILE}}, "encoding": {"a": {"headers": {"X": {}}}}}, "the headers of 'a'"),
        (
            {"schema": {"properties": {"a": {}}, "required": ["a"]}, "encoding": {"a": {"style": "deepObject"}}},
            "the style of 'a'",
        ),
        (
            {
                "schema": {"properties": {"a": {"type": "object"}}, "required": ["a"]},
                "encoding": {"a": {"style": "form"}},
            },
            "the style of 'a'",
        ),
        ({"schema": {"allOf": [{}]}, "encoding": {"a": {"style": "deepObject"}}}, "the style of 'a'"),
        ({"schema": {"properties": [FILE]}}, "an object was expected"),
        ({"schema": {"nullable": True, "properties": {"a": FILE}}}, "a form that may be null"),
        (
            {"schema": {"type": "object", "nullable": True, "properties": {"a": FILE}, "allOf": [{"required": ["a"]}]}},
            "a form that may be null, or that is composed, cannot take files",
        ),
    ],
)
def test_a_form_that_cannot_be_sent_is_a_problem(form: dict[str, Any], problem: str) -> None:
    offer = offered(form, "3.0.3" if "nullable" in form["schema"] else "3.1.0")
    assert offer.is_unusable
    assert problem in " ".join(offer.problems)
