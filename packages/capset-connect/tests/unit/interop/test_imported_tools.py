"""Capabilities of tools that others defined (spec 8, W22)."""

from __future__ import annotations

from typing import Any

import pytest

from capset import Agent, Context, Kernel, Principal
from capset.errors import ApprovalRequired, DefinitionError, InvalidArguments, InvalidOutput, PermissionDenied
from capset_connect.interop import ImportedTools, import_tools

ADD: dict[str, Any] = {
    "name": "math.add",
    "description": "Add two numbers.",
    "parameters": {
        "type": "dict",
        "properties": {"a": {"type": "float"}, "b": {"type": "float", "default": 1}},
        "required": ["a"],
    },
}
DROP: dict[str, Any] = {"name": "drop", "description": "Drop a table.", "input_schema": {"type": "object"}}


async def answer(name: str, arguments: dict[str, Any]) -> Any:
    return {"name": name, "arguments": arguments}


def made(*definitions: dict[str, Any], **options: Any) -> ImportedTools:
    defaults: dict[str, Any] = {"name": "others", "handler": answer, "effect": "read"}
    return import_tools(list(definitions), **{**defaults, **options})


async def called(imported: ImportedTools, tool: str, *grants: str, **arguments: Any) -> Any:
    agent = Agent("helper", uses=[imported.capability])
    principal = Principal("ada", permissions=grants)
    async with Kernel(store="memory://") as kernel, kernel.open(agent, principal=principal) as session:
        return await session.options(approvals="defer").call(imported.tools[tool], **arguments)


@pytest.mark.spec("W22")
async def test_the_handler_gets_the_tools_own_name_and_valid_arguments() -> None:
    imported = made(ADD)
    assert await called(imported, "math.add", a=2) == {"name": "math.add", "arguments": {"a": 2, "b": 1}}
    assert imported.names == {"math_add": "math.add"}
    assert imported.definitions == [ADD]
    with pytest.raises(InvalidArguments, match="a"):
        await called(imported, "math.add", a="two")


@pytest.mark.spec("W22")
async def test_a_handler_may_be_sync_and_take_the_context() -> None:
    def answer_as(name: str, arguments: dict[str, Any], context: Context) -> str:
        return f"{name} by {context.principal.id}"

    assert await called(made(ADD, handler=answer_as), "math.add", a=2) == "math.add by ada"


@pytest.mark.spec("W22")
async def test_the_definitions_cannot_be_changed_from_outside() -> None:
    definition: dict[str, Any] = {**ADD, "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}
    imported = made(definition)
    definition["parameters"]["properties"]["a"]["type"] = "integer"
    imported.definitions[0]["name"] = "other"
    assert await called(imported, "math.add", a="x") == {"name": "math.add", "arguments": {"a": "x"}}
    assert imported.definitions[0]["name"] == "math.add"


@pytest.mark.spec("W22")
def test_the_effect_is_the_hosts_and_hints_only_strengthen_it() -> None:
    hinted = {"name": "wipe", "inputSchema": {"type": "object"}, "annotations": {"destructiveHint": True}}
    imported = made(ADD, DROP, hinted, rules={"drop": {"effect": "external"}})
    effects = {tool.name: tool.effect for tool in imported.capability.every_tool}
    assert effects == {"math_add": "read", "drop": "external", "wipe": "destructive"}
    with pytest.raises(TypeError, match="effect"):
        import_tools([ADD], name="others", handler=answer)  # pyright: ignore[reportCallIssue]
    with pytest.raises(DefinitionError, match="effect must be one of"):
        made(effect="safe")


@pytest.mark.spec("W22")
async def test_rules_are_by_the_tools_own_names() -> None:
    imported = made(
        ADD,
        DROP,
        permissions=["math:use"],
        rules={"math.add": {"arguments": {"a": {"type": "number", "maximum": 10}}}, "drop": {"approval": "ask"}},
    )
    assert (await called(imported, "math.add", "math:use", a=2))["name"] == "math.add"
    with pytest.raises(PermissionDenied, match="not allowed here: a"):
        await called(imported, "math.add", "math:use", a=11)
    with pytest.raises(PermissionDenied, match="math:use"):
        await called(imported, "math.add", a=2)
    with pytest.raises(ApprovalRequired):
        await called(imported, "drop", "math:use")
    with pytest.raises(DefinitionError, match=r"rules: .*math_add.*math\.add"):
        made(ADD, rules={"math_add": {"effect": "write"}})


@pytest.mark.spec("W22")
async def test_a_result_fits_the_schema_that_the_definition_gives_for_it() -> None:
    imported = made(
        {**ADD, "response": {"type": "dict", "properties": {"sum": {"type": "float"}}, "required": ["sum"]}}
    )
    with pytest.raises(InvalidOutput, match="sum"):
        await called(imported, "math.add", a=2)


@pytest.mark.spec("W22")
def test_all_that_cannot_be_tools_are_named_at_once() -> None:
    bad = [{"name": "x", "parameters": {"type": "Date"}}, {"type": "web_search"}]
    with pytest.raises(DefinitionError) as caught:
        made(ADD, *bad)
    assert "2 of its definitions cannot be tools: tools.2.type: " in caught.value.message
    assert "x: parameters.type: " in caught.value.message
    imported = made(ADD, *bad, skip_refused=True)
    assert list(imported.names.values()) == ["math.add"]
    assert len(imported.reading.refused) == 2


@pytest.mark.spec("W22")
@pytest.mark.parametrize("rules", [{"*": None}, {"*": 1}, {"drop": None}, ["drop"]])
def test_rules_that_are_none_are_refused(rules: Any) -> None:
    with pytest.raises(DefinitionError, match=r"^capability 'others': rules"):
        made(DROP, rules=rules)


@pytest.mark.spec("K24", "M6")
async def test_a_host_may_refuse_calls_of_tools_with_patterns_that_are_not_checked() -> None:
    code: dict[str, Any] = {"type": "object", "properties": {"code": {"type": "string", "pattern": "^(?!x)"}}}
    find = {"name": "find", "parameters": code}
    assert await called(made(find), "find", code="x") == {"name": "find", "arguments": {"code": "x"}}
    strict = made(find, ADD, rules={"*": {"unchecked_patterns": "refuse"}})
    with pytest.raises(PermissionDenied, match="has a pattern that cannot be checked"):
        await called(strict, "find", code="y")
    assert await called(strict, "math.add", a=1) == {"name": "math.add", "arguments": {"a": 1, "b": 1}}


@pytest.mark.spec("K24")
async def test_formats_of_others_are_notes() -> None:
    dated: dict[str, Any] = {"type": "object", "properties": {"at": {"type": "string", "format": "date-time"}}}
    assert (await called(made({"name": "find", "parameters": dated}), "find", at="noon"))["arguments"] == {"at": "noon"}
