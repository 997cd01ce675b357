"""Configurations made of tool definitions (spec 8, W28)."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from capset_connect.interop import ToolConfiguration, configuration_of, read_tools


def made(*definitions: dict[str, Any]) -> ToolConfiguration:
    reading = read_tools(list(definitions))
    return configuration_of(reading.tools, effect="read", configuration="calc.yaml", module="calc_handlers.py")


def functions(configuration: ToolConfiguration) -> list[str]:
    return [node.name for node in ast.parse(configuration.handlers).body if isinstance(node, ast.AsyncFunctionDef)]


@pytest.mark.spec("W28")
def test_each_tool_is_an_action_with_all_that_its_definition_says() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string"}}}
    configuration = made(
        {"name": "f", "title": "F", "description": "Do.", "inputSchema": schema, "outputSchema": schema}
    )
    assert configuration.content["actions"] == [
        {
            "name": "f",
            "title": "F",
            "description": "Do.",
            "handler": "./calc_handlers.py:f",
            "effect": "read",
            "permissions": [],
            "parameters": schema,
            "returns": schema,
        }
    ]
    assert functions(configuration) == ["f"]


@pytest.mark.spec("W28")
def test_the_module_is_python_with_any_name_of_the_configuration() -> None:
    reading = read_tools({"name": "f"})
    configuration = configuration_of(
        reading.tools, effect="read", configuration='a"""\\\n.yaml', module="a_handlers.py"
    )
    assert functions(configuration) == ["f"]


@pytest.mark.spec("W28")
def test_hints_strengthen_the_effect() -> None:
    configuration = made({"name": "wipe", "annotations": {"destructiveHint": True}}, {"name": "see"})
    assert [action["effect"] for action in configuration.content["actions"]] == ["destructive", "read"]


@pytest.mark.spec("W28")
def test_each_function_has_a_name_of_its_own_that_python_takes() -> None:
    configuration = made(
        *({"name": name} for name in ("a-b", "a_b", "class", "7zip", "_x", "match", "ToolError", "print"))
    )
    names = functions(configuration)
    assert names == ["a_b", "a_b_2", "class_", "tool_7zip", "tool_x", "match_", "ToolError_2", "print_2"]
    assert [action["handler"].rpartition(":")[2] for action in configuration.content["actions"]] == names


@pytest.mark.spec("W28")
@pytest.mark.parametrize(
    ("definition", "title"),
    [
        ({"name": "a.b"}, "a.b"),
        ({"name": "a.b", "title": "Add"}, "Add (a.b)"),
        ({"name": "a", "title": "Add"}, "Add"),
    ],
)
def test_a_title_keeps_a_name_that_is_not_the_actions(definition: dict[str, Any], title: str) -> None:
    assert made(definition).content["actions"][0]["title"] == title
