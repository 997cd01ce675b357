"""Attacks by JSON Schema: refused where a tool is made, or checked in linear time; nothing is fetched (spec 4, G5)."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from time import process_time
from typing import Any

import pytest

from capset import Agent, Capability, Emit, Json, Message, Tool, handles
from capset.definitions.tools.definition import AnyTool
from capset.errors import DefinitionError
from capset.schemas.validation_errors import SchemaMismatch
from capset_testing import session_for
from tests.security.attacks import attacks, classes_of

REFUSED = {
    "depth": "nested at most 64 levels deep|at most 64 schemas to one value in a chain",
    "recursion": "may lead back to itself only through a field or an item|at most 10,000 schemas to one value",
    "pattern": "a regular expression was expected that takes linear time",
    "size": "at most [0-9,]+ (bytes|schemas)|of at most 4,000 digits|a finite number|takes linear time",
}
"""What is told of each class."""
Data = dict[str, Any]


def nested(keyword: str, levels: int) -> Data:
    """Return a schema whose schemas are that deep in each other."""
    inner: Data = {}
    for _ in range(levels):
        match keyword:
            case "properties" | "$defs":
                inner = {keyword: {"a": inner}}
            case "anyOf" | "allOf" | "oneOf" | "prefixItems":
                inner = {keyword: [inner]}
            case _:
                inner = {keyword: inner}
    return {"type": "object", "properties": {"a": inner}}


def deep_value(keyword: str, levels: int) -> Data:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return {"type": "object", "properties": {"a": {keyword: value}}}


def chain(levels: int) -> Data:
    """Return a schema with that many references, each to the next."""
    definitions: Data = {f"a{level}": {"$ref": f"#/$defs/a{level + 1}"} for level in range(levels)}
    definitions[f"a{levels}"] = {"type": "integer"}
    return {"type": "object", "properties": {"a": {"$ref": "#/$defs/a0"}}, "$defs": definitions}


def doubled(levels: int, width: int = 2) -> Data:
    """Return a schema in which each level refers so many times to the one below."""
    definitions: Data = {"a0": {"type": "integer"}}
    for level in range(levels):
        definitions[f"a{level + 1}"] = {"allOf": [{"$ref": f"#/$defs/a{level}"}] * width}
    return {"type": "object", "properties": {"a": {"$ref": f"#/$defs/a{levels}"}}, "$defs": definitions}


def long(keyword: str, letters: int, letter: str = "a") -> Data:
    return {"type": "object", "properties": {"a": {keyword: letter * letters}}}


def many(keyword: str, count: int) -> Data:
    values: Any = list(range(count)) if keyword == "enum" else [{"const": number} for number in range(count)]
    inside = {f"a{number}": {} for number in range(count)} if keyword == "properties" else values
    return {"type": "object", "properties": {"a": {keyword: inside}}}


def huge_number(keyword: str, digits: int) -> Data:
    return {"type": "object", "properties": {"a": {keyword: 10**digits}}}


MAKERS = {maker.__name__: maker for maker in (nested, deep_value, chain, doubled, long, many, huge_number)}


def made(case: Mapping[str, Any]) -> Data:
    if "make" not in case:
        return dict(case["schema"])
    ((name, arguments),) = case["make"].items()
    return MAKERS[name](**arguments)


def message(kind: str, data: Mapping[str, Any]) -> Data:
    """Return the schema of a message; the ``$defs`` of its data go where references are read from, to the root."""
    data_schema = {key: value for key, value in data.items() if key != "$defs"}
    fields = {"kind": {"const": kind}, "type": {"const": "Attack.Try"}, "data": data_schema}
    inside = {"$defs": data["$defs"]} if "$defs" in data else {}
    return {"type": "object", "description": "What is tried.", "properties": fields, **inside}


def schema_tool(data: Mapping[str, Any], received: list[object] | None = None, *, gives: Data | None = None) -> AnyTool:
    """Make a tool that takes this data, and gives that."""

    async def handle(message: Message, emit: Emit, ctx: object) -> None:
        (received if received is not None else []).append(message.data)
        await emit(Message("reply", "Attack.Try", 1))

    output = {"type": "integer"} if gives is None else gives
    return Tool.from_processor(
        inbound=message("query", data),
        outbound=message("reply", output),
        factory=handles(handle),
        description="Try something, for the tests.",
    )


def test_every_class_of_the_list_is_tried() -> None:
    assert classes_of("schemas.yaml") == {*REFUSED, "remote_reference", "linear", "arguments"}


@pytest.mark.spec("G5", "T4")
@pytest.mark.parametrize("case", attacks("schemas.yaml", *REFUSED, in_gate=3))
def test_what_would_take_too_long_never_becomes_a_tool(case: Mapping[str, Any]) -> None:
    schema, problem = made(case), REFUSED[case["class"]]
    with pytest.raises(DefinitionError, match=problem):
        schema_tool(schema)
    with pytest.raises(DefinitionError, match=problem):
        schema_tool({"type": "object"}, gives=schema)


@pytest.mark.spec("G5")
@pytest.mark.parametrize(
    "keyword",
    [
        *("not", "if", "then", "else", "items", "contains", "additionalProperties", "unevaluatedItems"),
        *("propertyNames", "unevaluatedProperties", "properties", "$defs", "anyOf", "allOf", "oneOf", "prefixItems"),
    ],
)
def test_no_keyword_nests_without_end(keyword: str) -> None:
    for levels in (64, 129, 1_000, 20_000):
        with pytest.raises(DefinitionError, match="nested at most 64 levels"):
            schema_tool(nested(keyword, levels))


@pytest.mark.spec("G5")
@pytest.mark.parametrize("case", attacks("schemas.yaml", "remote_reference"))
def test_nothing_is_fetched(case: Mapping[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it leads to would be a sound schema; nobody connects, and what is refused says so."""
    (tmp_path / "other.json").write_text('{"type": "integer", "$defs": {"a": {}}}')
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        schema = filled(made(case), address, str(tmp_path))
        for make in (lambda: schema_tool(schema), lambda: schema_tool({"type": "object"}, gives=schema)):
            with pytest.raises(DefinitionError, match=r"not inside it|nothing inside the document"):
                make()
        with pytest.raises(BlockingIOError):
            listening.accept()


def filled(schema: Any, address: str, folder: str) -> Any:
    match schema:
        case dict():
            return {key: filled(value, address, folder) for key, value in schema.items()}
        case list():
            return [filled(item, address, folder) for item in schema]
        case str():
            return schema.replace("{}", address).replace("{folder}", folder)
        case _:
            return schema


@pytest.mark.realtime
@pytest.mark.spec("G5")
@pytest.mark.parametrize("case", attacks("schemas.yaml", "linear"))
def test_what_is_accepted_is_checked_in_linear_time(case: Mapping[str, Any]) -> None:
    """Eight times as much takes far less than 64 times as long; the shortest of some rounds counts."""
    tried = schema_tool({"type": "object", "properties": {"a": case["schema"]}})
    small, large = (json.dumps({"a": value_of(case, count)}) for count in (1_000, 8_000))

    def seconds(text: str) -> float:
        rounds: list[float] = []
        for _ in range(3):
            began = process_time()
            with suppress(SchemaMismatch):
                tried.arguments.check_json(text)
            rounds.append(process_time() - began)
        return min(rounds)

    assert seconds(large) < 24 * max(seconds(small), 0.001)


def value_of(case: Mapping[str, Any], count: int) -> Any:
    match case:
        case {"text": str(text)}:
            return text * count + "!"
        case {"key": str(key)}:
            return {key * count + "!": 1}
        case {"numbers": True}:
            return list(range(count))
        case {"objects": True}:
            return [{"a": [number]} for number in range(count)]
        case {"fields": True}:
            return {f"a{number}": 1 for number in range(count)}
        case _:
            raise AssertionError(f"nothing says what {case['name']!r} grows by")


@pytest.mark.spec("G5", "G11", "G19")
@pytest.mark.parametrize("case", attacks("schemas.yaml", "arguments"))
async def test_arguments_that_attack_are_a_refused_call_on_record(case: Mapping[str, Any]) -> None:
    received: list[object] = []
    tried = schema_tool({"type": "object", "properties": {"a": case.get("schema", {})}}, received)
    text = case["text"] if "text" in case else deep_text(**case["make"]["deep_text"])
    async with session_for(Agent("tester", uses=[Capability("kit", tools=[tried])])) as desk:
        result = await desk.session.try_message(Message("query", "Attack.Try", Json(text.encode())))
        (record,) = await desk.records()
    assert result.error is not None
    assert (result.error.code, result.error.status) == ("invalid_arguments", 422)
    assert (record.outcome, record.tool, record.code) == ("invalid", "Attack_Try", "invalid_arguments")
    assert len(record.arguments) < 20_000
    assert received == []


def deep_text(open: str, close: str, levels: int, inside: str = "") -> str:
    return '{"a": ' + open * levels + inside + close * levels + "}"
