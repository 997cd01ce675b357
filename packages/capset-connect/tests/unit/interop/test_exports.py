"""Tool JSON and JSON Schema of an agent, and that an import of the first leads back (spec 8, W24, W29)."""

from __future__ import annotations

import json
from typing import Any, get_args

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset import tool
from capset.definitions.tools.definition import AnyTool
from capset.definitions.tools.schema_tools import schema_tool
from capset.errors import DefinitionError
from capset_connect.interop import ToolFormat, export_json_schema, export_tools, import_tools, read_tools
from tests.helpers.connect.interop.support import seen

FORMATS: tuple[ToolFormat, ...] = get_args(ToolFormat)


@tool(effect="read")
def forecast(city: str, days: int = 1) -> dict[str, str]:
    """Say how the weather will be.

    Args:
        city: where
        days: for how long
    """
    return {city: "sun" * days}


@tool(effect="destructive", permissions={"weather:change"}, limits="1/1h", approval="ask", version="2")
def make_rain() -> None:
    """Let it rain."""


CITY = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "where"},
        "days": {"type": "integer", "default": 1, "description": "for how long"},
    },
    "required": ["city"],
    "additionalProperties": False,
}
SAID = {"name": "forecast", "description": "Say how the weather will be."}


def plain(name: str, parameters: dict[str, Any], description: str = "Do it.") -> AnyTool:
    return schema_tool(
        name=name, description=description, parameters=parameters, handler=lambda params: params, effect="read"
    )


@pytest.mark.spec("W24")
@pytest.mark.parametrize(
    ("format", "content"),
    [
        ("openai", {"type": "function", **SAID, "parameters": CITY, "strict": False}),
        ("openai-chat", {"type": "function", "function": {**SAID, "parameters": CITY, "strict": False}}),
        ("anthropic", {**SAID, "input_schema": CITY}),
    ],
)
def test_a_tool_is_written_as_each_provider_takes_it(format: ToolFormat, content: dict[str, Any]) -> None:
    assert export_tools(seen([forecast]), format).content == [content]


@pytest.mark.spec("W24")
def test_tools_in_play_are_written_by_name_and_what_is_not_said_is_told() -> None:
    snapshot = seen([make_rain, forecast], "weather:change", system_prompt="Be brief.")
    export = export_tools(snapshot, "openai")
    assert [definition["name"] for definition in export.content] == ["forecast", "make_rain"]
    assert export.left_out == (
        "the system text, with instructions of capabilities",
        "effects of forecast, make_rain",
        "results of forecast, make_rain",
        "permissions of make_rain",
        "limits of make_rain",
        "approvals of make_rain",
    )
    assert export.warnings == ()
    without = export_tools(seen([make_rain, forecast]), "openai")
    assert [definition["name"] for definition in without.content] == ["forecast"]
    assert without.left_out[0] == ("the tool make_rain, which is not in play: ada lacks the permission weather:change")


@pytest.mark.spec("W24")
def test_what_providers_refuse_is_a_warning() -> None:
    either = {"type": "object", "properties": {"a b": {"type": "string"}}, "anyOf": [{"required": ["a b"]}]}
    assert export_tools(seen([plain("pick", either)]), "anthropic").warnings == (
        "providers refuse anyOf at the top of the schema of pick",
        "providers refuse the name of the argument 'a b' of pick",
    )


@pytest.mark.spec("W24")
def test_a_list_says_what_its_items_are_which_openai_asks_for() -> None:
    export = export_tools(seen([plain("pick", {"type": "object", "properties": {"x": {"type": "array"}}})]), "openai")
    assert export.content[0]["parameters"]["properties"]["x"] == {"type": "array", "items": {}}


@pytest.mark.spec("W24")
def test_another_format_is_refused() -> None:
    with pytest.raises(DefinitionError, match="openai-chat"):
        export_tools(seen([forecast]), "openai_chat")  # pyright: ignore[reportArgumentType]
    with pytest.raises(DefinitionError, match="openai-chat"):
        export_tools(seen([]), "openai_chat")  # pyright: ignore[reportArgumentType]


@pytest.mark.spec("W24")
def test_a_tool_with_a_default_beside_a_reference_is_written() -> None:
    parameters: dict[str, Any] = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"$ref": "#/properties/a", "default": 1}},
        "additionalProperties": False,
    }
    (definition,) = export_tools(seen([plain("pick", parameters)]), "openai").content
    assert definition["parameters"] == parameters


@pytest.mark.spec("W24")
def test_a_json_schema_says_what_the_tool_says_not_what_its_schema_does() -> None:
    parameters = {"$id": "https://example.com/x", "title": "No", "description": "No.", "type": "object"}
    schema = export_json_schema(seen([plain("pick", {**parameters, "required": ["a"]})])).content
    arguments_schema = schema["$defs"]["arguments/pick"]
    assert (arguments_schema["$id"], arguments_schema["description"]) == ("arguments/pick", "Do it.")
    validator = jsonschema_rs.validator_for(schema)
    assert validator.is_valid({"name": "pick", "arguments": {"a": 1}})
    assert not validator.is_valid({"name": "pick", "arguments": {}})


@pytest.mark.spec("W24")
def test_a_json_schema_of_calls_takes_those_that_the_tools_take() -> None:
    nested = {
        "type": "object",
        "properties": {"day": {"$ref": "#/$defs/Day"}},
        "required": ["day"],
        "$defs": {"Day": {"enum": ["mon", "tue"]}},
    }
    export = export_json_schema(seen([forecast, plain("plan", nested)]))
    validator = jsonschema_rs.validator_for(export.content)
    for call, fits in [
        ({"name": "forecast", "arguments": {"city": "Rome"}}, True),
        ({"name": "forecast", "arguments": {"city": 1}}, False),
        ({"name": "plan", "arguments": {"day": "mon"}}, True),
        ({"name": "plan", "arguments": {"day": "sun"}}, False),
        ({"name": "plan", "arguments": {"city": "Rome"}}, False),
        ({"name": "other", "arguments": {}}, False),
        ({"name": "forecast"}, False),
    ]:
        assert validator.is_valid(call) is fits, call
    results = {"$ref": "results/forecast", "$defs": export.content["$defs"]}
    assert jsonschema_rs.validator_for(results).is_valid({"Rome": "sun"})
    assert not jsonschema_rs.validator_for(results).is_valid({"Rome": 1})


@pytest.mark.spec("W24")
def test_an_agent_without_tools_takes_no_call() -> None:
    validator = jsonschema_rs.validator_for(export_json_schema(seen([])).content)
    assert not validator.is_valid({"name": "forecast", "arguments": {}})


@pytest.mark.spec("W29")
def test_exported_originals_are_the_names_that_were_imported() -> None:
    async def answer(name: str, arguments: dict[str, Any]) -> None:
        raise NotImplementedError  # never called: its definitions are all that counts

    imported = import_tools([{"name": "math.add"}, {"name": "math/add"}], name="kit", handler=answer, effect="read")
    snapshot = seen(imported.tools.values())
    for form in FORMATS:
        reread = read_tools(export_tools(snapshot, form, names=imported.names).content)
        assert reread.names == imported.names
        assert set(read_tools(export_tools(snapshot, form).content).names) == set(imported.names)


names = st.from_regex(r"[a-z][A-Za-z0-9_-]{0,20}", fullmatch=True)
texts = st.text(min_size=1, max_size=40).filter(lambda text: bool(text.strip()) and "\0" not in text)
fields = st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.none(), max_size=4)
scalars = st.one_of(
    st.fixed_dictionaries({"type": st.just("string")}, optional={"description": texts, "default": texts}),
    st.fixed_dictionaries({"type": st.just("integer")}, optional={"default": st.integers(-9, 9)}),
    st.fixed_dictionaries({"type": st.just(["number", "null"])}, optional={"default": st.just(None)}),
    st.fixed_dictionaries({"enum": st.lists(st.sampled_from(["a", "b", 1, None]), min_size=1, unique=True)}),
    st.fixed_dictionaries({"anyOf": st.just([{"type": "boolean"}, {"const": "auto"}])}),
)


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    properties = {name: draw(inner) for name in draw(fields)}
    required = sorted(name for name in properties if "default" not in properties[name] and draw(st.booleans()))
    closed = {"additionalProperties": False}
    return {"type": "object", "properties": properties, **({"required": required} if required else {}), **closed}


schemas = st.recursive(
    scalars,
    lambda inner: st.one_of(
        objects(inner), st.fixed_dictionaries({"type": st.just("array"), "items": inner}, optional={})
    ),
    max_leaves=8,
)


@pytest.mark.spec("W29")
@given(st.dictionaries(names, st.tuples(texts, objects(schemas)), min_size=1, max_size=4))
def test_an_import_of_an_export_has_the_same_tools(definitions: dict[str, tuple[str, dict[str, Any]]]) -> None:
    tools = [plain(name, parameters, description) for name, (description, parameters) in definitions.items()]
    snapshot = seen(tools)
    for form in FORMATS:
        export = export_tools(snapshot, form)
        assert export == export_tools(snapshot, form)
        reading = read_tools(json.loads(json.dumps(export.content)))
        assert reading.refused == ()
        actual = {definition.here: (definition.description, definition.arguments) for definition in reading.tools}
        assert actual == {
            plain_tool.name: (plain_tool.description, plain_tool.arguments.json_schema) for plain_tool in tools
        }


loose = st.recursive(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["str", "String", "int", "float", "any", "dict", "tuple", "bool", "NoneType"])},
        optional={
            "default": st.sampled_from([None, "x", 1, 2.5, True, [], {}]),
            "enum": st.lists(st.sampled_from(["x", "y", 1, None]), min_size=1, unique=True),
            "optional": st.booleans(),
            "nullable": st.booleans(),
        },
    ),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"type": st.just("list"), "items": inner}),
        st.fixed_dictionaries({"type": st.just("dict"), "properties": st.dictionaries(names, inner, max_size=3)}),
    ),
    max_leaves=6,
)


@pytest.mark.spec("W29")
@given(st.dictionaries(st.text("ab./_", min_size=1, max_size=8), st.dictionaries(names, loose, max_size=3), max_size=4))
def test_what_was_mapped_once_is_mapped_to_itself(parameters: dict[str, dict[str, Any]]) -> None:
    async def answer(name: str, arguments: dict[str, Any]) -> None:
        raise NotImplementedError  # never called: its definitions are all that counts

    documents = [
        {"name": name, "parameters": {"type": "dict", "properties": properties}}
        for name, properties in parameters.items()
    ]
    imported = import_tools(documents, name="kit", handler=answer, effect="read")
    for form in FORMATS:
        reread = read_tools(export_tools(seen(imported.tools.values()), form, names=imported.names).content)
        assert reread.names == dict(sorted(imported.names.items()))
        expected = {
            definition.name: (definition.description, imported.tools[definition.name].arguments.json_schema)
            for definition in imported.reading.tools
        }
        assert {
            definition.name: (definition.description, definition.arguments) for definition in reread.tools
        } == expected
