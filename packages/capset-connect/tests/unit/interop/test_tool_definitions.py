"""Tool definitions of others, in their forms (spec 8, W22)."""

from __future__ import annotations

from typing import Any

import pytest

from capset.errors import DefinitionError
from capset_connect.interop import read_tools

CITY: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
SAID = {"name": "get_weather", "description": "Say how the weather is."}
CHAT = {"type": "function", "function": {**SAID, "parameters": CITY, "strict": False}}
RESPONSES = {"type": "function", **SAID, "parameters": CITY, "strict": False}
ANTHROPIC = {**SAID, "input_schema": CITY}
CUSTOM = {"type": "custom", **SAID, "input_schema": CITY}
MCP = {**SAID, "inputSchema": CITY}
BARE = {**SAID, "parameters": {**CITY, "type": "dict", "properties": {"city": {"type": "str"}}}}


def nested(levels: int) -> list[Any]:
    nested_list: list[Any] = []
    for _ in range(levels):
        nested_list = [nested_list]
    return nested_list


@pytest.mark.spec("W22")
@pytest.mark.parametrize("definition", [CHAT, RESPONSES, ANTHROPIC, CUSTOM, MCP, BARE])
def test_each_form_is_the_same_tool(definition: dict[str, Any]) -> None:
    for document in (definition, [definition], {"tools": [definition]}):
        reading = read_tools(document)
        (tool,) = reading.tools
        assert (tool.name, tool.here, tool.description) == ("get_weather", "get_weather", SAID["description"])
        assert tool.arguments == CITY
        assert tool.given == definition
        assert (reading.refused, reading.left_out) == ((), ())


@pytest.mark.spec("W22")
def test_results_titles_and_hints_are_read() -> None:
    mcp = {
        **MCP,
        "outputSchema": {"type": "object", "properties": {"sky": {"type": "string"}}},
        "annotations": {"title": "Weather", "readOnlyHint": True},
    }
    (tool,) = read_tools(mcp).tools
    assert tool.returns == mcp["outputSchema"]
    assert (tool.title, tool.hints["readOnlyHint"]) == ("Weather", True)
    (bare,) = read_tools({**BARE, "response": {"type": "dict", "properties": {"sky": {"type": "str"}}}}).tools
    assert bare.returns == mcp["outputSchema"]


@pytest.mark.spec("W22")
def test_a_definition_without_a_description_or_a_schema_is_a_tool() -> None:
    (tool,) = read_tools({"type": "function", "name": "ping"}).tools
    assert tool.description == "The tool ping."
    assert tool.arguments == {"type": "object", "properties": {}}


@pytest.mark.spec("W22")
def test_names_are_mapped_and_lead_back() -> None:
    reading = read_tools([{"name": "math.add"}, {"name": "math/add"}, {"name": "sub"}])
    assert [tool.name for tool in reading.tools] == ["math.add", "math/add", "sub"]
    assert [reading.names[tool.here] for tool in reading.tools] == ["math.add", "math/add", "sub"]


@pytest.mark.spec("W22")
def test_what_means_nothing_here_is_told() -> None:
    reading = read_tools(
        [{**CHAT, "cache_control": {"type": "ephemeral"}}, {**ANTHROPIC, "name": "other", "defer_loading": True}]
    )
    assert reading.left_out == ("get_weather: cache_control", "other: defer_loading")
    page = read_tools({"tools": [{**RESPONSES, "strict": True}], "nextCursor": "2"})
    assert page.left_out == ("nextCursor, next to tools", "get_weather: strict")


@pytest.mark.spec("W22")
def test_texts_that_are_not_what_they_seem_are_told() -> None:
    (note,) = read_tools({"name": "pay", "description": "Pay\u200b now."}).left_out
    assert note.startswith("pay: its texts contain the invisible character U+200B ZERO WIDTH SPACE")


@pytest.mark.spec("W22", "K24")
def test_a_pattern_that_is_not_checked_is_told() -> None:
    reading = read_tools({"name": "x", "parameters": {"type": "object", "properties": {"a": {"pattern": "(?<=x)y"}}}})
    assert reading.refused == ()
    (note,) = reading.left_out
    assert note.startswith("x: inputSchema: this pattern does not take linear time, so it is not checked: (?<=x)y")


@pytest.mark.spec("W22")
@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        ({"name": "x", "parameters": {"required": True}}, "x: parameters.required: a list of names was expected"),
        ({"name": "x", "parameters": {"required": [{}]}}, "x: parameters.required: a list of names was expected"),
        (
            {"name": "x", "parameters": {"properties": {"a": {"default": nested(3_000)}}}},
            "x: parameters.properties.a.default: it is nested more than 64 levels deep",
        ),
        ({"name": "x", "annotations": {"title": nested(3_000)}}, "x: "),
        ({"name": "x", "parameters": {"properties": {"a": {"enum": {1}}}}}, "x: "),
        ("text", "tools.1: a tool definition was expected, as an object; got 'text'"),
        ({"type": "web_search"}, "tools.1.type: 'function' was expected; got 'web_search', which is run by the"),
        ({"type": "custom", "name": "sql", "format": {}}, "tools.1.type: 'function' was expected; got 'custom'"),
        ({"description": "x"}, "tools.1.name: the name of a tool was expected; got None"),
        (
            {"name": "x", "parameters": {"type": "dict", "properties": {"a": {"type": "Date"}}}},
            "x: parameters.properties.a.type: a type was expected",
        ),
        ({"name": "x", "parameters": {}, "input_schema": {}}, "x: it has both parameters and input_schema"),
        ({"name": "x", "title": 1}, "x: title: a text was expected; got 1"),
        ({"name": "x", "annotations": "y"}, "x: annotations: an object was expected; got 'y'"),
        ({"name": "ok"}, "ok: another definition has this name; rename one of them"),
        (
            {"name": "x", "parameters": {"type": "object", "properties": {"a": {"$ref": "https://example.com/a"}}}},
            "x: its JSON Schema refers to",
        ),
        (
            {"name": "x", "parameters": {"type": "object", "required": ["a"], "additionalProperties": False}},
            "x: parameters: 'a' is required, but is not a property: no value could ever fit",
        ),
    ],
)
def test_one_that_cannot_be_a_tool_is_refused_with_its_path_and_no_other(definition: object, expected: str) -> None:
    reading = read_tools([{"name": "ok"}, definition])
    assert [tool.name for tool in reading.tools] == ["ok"]
    (reason,) = reading.refused
    assert reason.startswith(expected)


@pytest.mark.spec("W22")
def test_what_is_no_list_of_definitions_is_refused() -> None:
    with pytest.raises(DefinitionError, match=r"a list of tool definitions was expected, or an object with tools"):
        read_tools("tools")


@pytest.mark.spec("W22")
def test_a_name_that_only_another_can_have_is_refused_and_no_other() -> None:
    reading = read_tools([{"name": "a.b"}, {"name": "a/b"}, {"name": "a_b_2e7336dc"}])
    assert [tool.name for tool in reading.tools] == ["a/b", "a_b_2e7336dc"]
    assert reading.refused == ("a.b: 'a.b' and 'a_b_2e7336dc' would both be called 'a_b_2e7336dc': rename one",)


@pytest.mark.spec("W22")
@pytest.mark.parametrize("key", ["response", "outputSchema"])
def test_a_result_may_be_of_any_type(key: str) -> None:
    text, anything = read_tools([{"name": "a", key: {"type": "str"}}, {"name": "b", key: {"type": "any"}}]).tools
    assert (text.returns, anything.returns) == ({"type": "string"}, {})
