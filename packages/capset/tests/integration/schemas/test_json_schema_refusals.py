"""JSON Schemas that are not taken: what is none, what leads outside, and what would take too long."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from capset.errors import DefinitionError
from capset.schemas.json_schema import MAX_SCHEMA_BYTES, compile_own_schema
from capset.schemas.validation_errors import SchemaMismatch


def refused(schema: Any) -> str:
    with pytest.raises(DefinitionError) as raised:
        compile_own_schema("tool 'look': its input", schema)
    assert raised.value.message.startswith("tool 'look': its input: ")
    return raised.value.message.removeprefix("tool 'look': its input: ")


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"not": schema}
    return schema


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "objekt"}, "not a valid JSON Schema: type: Input should be one of:"),
        (
            {"properties": {"a": {"minimum": "x"}}},
            "not a valid JSON Schema: properties.a.minimum: Input should be a number",
        ),
        ({"required": "a"}, "not a valid JSON Schema: required: Input should be an array"),
        ({"$defs": {"a": {"items": 5}}}, "not a valid JSON Schema: $defs.a.items: Input should be a boolean or"),
        ({"$ref": "#/x", "x": {"allOf": {}}}, "not a valid JSON Schema: x.allOf: Input should be an array"),
        (
            {"$schema": "http://json-schema.org/draft-07/schema#", "exclusiveMinimum": True},
            "not a valid JSON Schema: exclusiveMinimum: Input should be a number",
        ),
        ({"default": float("nan")}, "not a valid JSON Schema: default: Input should be a finite number"),
        ({"default": [float("-inf")]}, "not a valid JSON Schema: default.0: Input should be a finite number"),
        ({"x": {1: 2}}, "not a valid JSON Schema: x: Input should have only strings as names"),
        ({"description": "\ud800"}, "not a valid JSON Schema: description: Input should have no lone surrogates"),
        ({"enum": (1, 2)}, "not a valid JSON Schema: enum: Input should be JSON data"),
        (nested(64), "not a valid JSON Schema: its top: Input should be nested at most 64 levels deep"),
        ({"description": "a" * MAX_SCHEMA_BYTES}, "its JSON Schema should have at most 1,048,576 bytes; it has"),
        ([], "a JSON Schema was expected, as a mapping; got list"),
        ({"$schema": "https://example.org/own"}, "its JSON Schema refers to 'https://example.org/own', which is not"),
    ],
    ids=lambda parameter: parameter if isinstance(parameter, str) else type(parameter).__name__,
)
def test_what_is_no_json_schema(schema: Any, message: str) -> None:
    assert refused(schema).startswith(message)


def test_as_deep_as_may_be() -> None:
    assert compile_own_schema("it", nested(62)).check(1) == 1


class Listening:
    def __init__(self, address: str) -> None:
        self.address = address
        self.seen: list[str] = []


@contextmanager
def listening() -> Generator[Listening]:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            listener.seen.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"type": "integer"}')

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    listener = Listening(f"http://127.0.0.1:{server.server_port}")
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield listener
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    "leading",
    [
        {"$ref": "{}/x"},
        {"$ref": "{}/x#/$defs/a"},
        {"$defs": {"unused": {"$ref": "{}/x"}}},
        {"properties": {"a": {"items": {"anyOf": [{"$ref": "{}/x"}]}}}},
        {"$id": "{}/whole", "$ref": "part"},
        {"$id": "{}/whole", "properties": {"a": {"$ref": "/part"}}},
        {"$dynamicRef": "{}/x"},
        {"properties": {"a": {"$dynamicRef": "{}/x#a"}}},
        {"$schema": "{}/x"},
        {"$schema": "{}/x", "$ref": "#"},
        {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {"$ref": "{}/x"}}},
        {"$schema": "http://json-schema.org/draft-04/schema#", "id": "{}/whole", "$ref": "part"},
    ],
    ids=str,
)
def test_nothing_is_fetched_from_the_network(leading: Any) -> None:
    with listening() as listener:
        message = refused(filled(leading, listener.address))
        assert listener.seen == []
    assert "which is not inside it" in message or "leads to nothing inside the document" in message


def filled(schema: Any, address: str) -> Any:
    match schema:
        case dict():
            return {key: filled(value, address) for key, value in schema.items()}
        case list():
            return [filled(item, address) for item in schema]
        case _:
            return schema.replace("{}", address)


def test_no_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "other.json"
    file.write_text('{"type": "integer"}')
    monkeypatch.chdir(tmp_path)
    for reference in (file.as_uri(), "other.json", "./other.json", str(file), "file:other.json"):
        assert "not inside it" in refused({"$ref": reference})
        assert "not inside it" in refused({"$id": tmp_path.as_uri() + "/", "$ref": reference})


def test_data_that_looks_like_a_reference_is_data() -> None:
    with listening() as listener:
        away = {"$ref": f"{listener.address}/x"}
        schema = compile_own_schema("it", {"const": away, "default": away, "enum": [away], "x-mine": away})
        assert schema.check(away) == away
        properties = compile_own_schema("it", {"properties": {"$ref": {"type": "string"}}})
        assert properties.check(away) == away
        assert listener.seen == []


def test_a_reference_to_nothing_is_named() -> None:
    assert refused({"properties": {"a": {"$ref": "#/$defs/none"}}}) == (
        "its JSON Schema refers to '/$defs/none', which is not inside it"
    )
    assert "'none'" in refused({"$ref": "#none"})


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {
            "$ref": "#/$defs/a",
            "$defs": {"a": {"anyOf": [True, {"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}},
        },
    ],
    ids=str,
)
def test_a_reference_that_comes_to_no_end(schema: Any) -> None:
    assert "a reference may lead back to itself only through a field or an item" in refused(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "(?=a)b"},
        {"pattern": "(?<!a)b"},
        {"properties": {"a": {"pattern": r"(a)\1"}}},
        {"patternProperties": {r"(a)\1": True}},
        {"pattern": "(a{1000}){1000}"},
        {"pattern": "("},
        {"$schema": "http://json-schema.org/draft-04/schema#", "pattern": "(?=a)b"},
        {"$ref": "#/x", "x": {"pattern": "(?=a)b"}},
    ],
    ids=str,
)
def test_a_pattern_that_needs_more_than_linear_time(schema: Any) -> None:
    assert "a regular expression was expected that takes linear time" in refused(schema)


def test_patterns_take_linear_time() -> None:
    schema = compile_own_schema("it", {"pattern": "^(a+)+$", "patternProperties": {"^(a|a)*$": False}})
    with pytest.raises(SchemaMismatch):
        schema.check("a" * 100_000 + "b")
    assert schema.check({"a" * 100_000 + "b": 1})


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"type": "integer", "default": "x"}}},
        {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "string", "default": None}}},
        {"properties": {"a": {"default": {}, "required": ["b"]}}},
    ],
    ids=str,
)
def test_a_default_of_the_top_level_that_does_not_fit(schema: Any) -> None:
    assert refused(schema).startswith("a default of its JSON Schema does not fit: a")


def doubled(levels: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {"a0": {"type": "integer"}}
    for level in range(levels):
        definitions[f"a{level + 1}"] = {"allOf": [{"$ref": f"#/$defs/a{level}"}, {"$ref": f"#/$defs/a{level}"}]}
    return {"$ref": f"#/$defs/a{levels}", "$defs": definitions}


def test_schemas_that_double_at_every_reference() -> None:
    assert compile_own_schema("it", doubled(8)).check(1) == 1
    assert refused(doubled(25)) == "its JSON Schema cannot be used: it should apply at most 10,000 schemas to one value"


def expressions(tagged: bool) -> dict[str, Any]:
    """Four kinds of an expression that each hold another, told apart by a tag or by nothing but what they require."""
    options = [
        {
            "type": "object",
            "properties": {"left": {"$ref": "#/$defs/one"}, **({"op": {"enum": [op]}} if tagged else {})},
            "required": ["op", "left", *([] if tagged else [op])],
        }
        for op in "+-*/"
    ]
    return {"$ref": "#/$defs/one", "$defs": {"one": {"anyOf": [{"type": "integer"}, *options]}}}


def expression(levels: int, innermost: Any) -> Any:
    for _ in range(levels):
        innermost = {"op": "/", "/": 1, "left": innermost}
    return innermost


def test_to_list_what_every_option_expected_at_every_level_is_not_tried_for_ever() -> None:
    """It takes as many steps as there are options, to the power of the levels."""
    schema = compile_own_schema("it", expressions(tagged=True))
    with pytest.raises(SchemaMismatch, match=r"left: Input should be an integer"):
        schema.check(expression(1, "x"))
    with pytest.raises(SchemaMismatch, match="listing what was expected would take too long"):
        schema.check(expression(60, "x"))
    assert schema.check(expression(60, 1)) == expression(60, 1)


@pytest.mark.nightly
def test_nor_to_try_options_that_nothing_tells_apart() -> None:
    schema = compile_own_schema("it", expressions(tagged=False))
    assert schema.check(expression(5, 1)) == expression(5, 1)
    with pytest.raises(SchemaMismatch, match="checking it against its schema would take too long"):
        schema.check(expression(60, 1))


def test_a_dialect_inside_is_not_fetched() -> None:
    with listening() as listener:
        inner = {"$id": f"{listener.address}/a", "$schema": f"{listener.address}/x", "type": "integer"}
        compile_own_schema("it", {"$ref": "#/$defs/a", "$defs": {"a": inner}})
        assert listener.seen == []
