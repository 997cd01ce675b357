"""``server.json`` and agent cards (spec 8, W25, W26)."""

from __future__ import annotations

from typing import Any, Final

import pytest

from capset import tool
from capset.errors import DefinitionError
from capset.schemas.json_schema import compile_json_schema
from capset_connect.interop import export_agent_card, export_server_json
from tests.helpers.connect.interop.support import seen


@tool(effect="read")
def forecast(city: str) -> str:
    """Say how the weather will be."""
    return city


@tool(effect="write", permissions={"weather:change"})
def make_rain() -> None:
    """Let it rain."""


_TEXT: Final = {"type": "string", "minLength": 1}
_INPUT: Final = {
    "description": _TEXT,
    "isRequired": {"type": "boolean"},
    "isSecret": {"type": "boolean"},
}
SERVER: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "$schema": {"const": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"},
        "name": {"type": "string", "minLength": 3, "maxLength": 200, "pattern": "^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$"},
        "title": {"type": "string", "minLength": 1, "maxLength": 100},
        "description": {"type": "string", "minLength": 1, "maxLength": 100},
        "version": {"type": "string", "maxLength": 255},
        "remotes": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "type": {"enum": ["streamable-http", "sse"]},
                    "url": {"type": "string", "pattern": r"^https?://[^\s]+$"},
                    "headers": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {
                                **_INPUT,
                                "name": _TEXT,
                                "value": _TEXT,
                                "variables": {
                                    "type": "object",
                                    "additionalProperties": {
                                        "type": "object",
                                        "properties": _INPUT,
                                        "additionalProperties": False,
                                    },
                                },
                            },
                            "required": ["name"],
                            "additionalProperties": False,
                        },
                    },
                },
                "required": ["type", "url"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["name", "description", "version"],
    "additionalProperties": False,
}
"""The members of the registry's schema of 2025-12-11 that capset writes, in our own words, and no others."""

PLACE: Final[dict[str, Any]] = {
    "name": "io.github.ada/weather",
    "version": "1.2.0",
    "url": "https://tools.example.com/mcp",
}


@pytest.mark.spec("W25")
def test_a_server_is_described_for_registries() -> None:
    export = export_server_json(seen([forecast]), **PLACE)
    compile_json_schema("server.json", SERVER).check(export.content)
    assert export.content["title"] == "helper"
    assert export.content["description"] == "Helps."
    (remote,) = export.content["remotes"]
    (header,) = remote["headers"]
    assert (header["name"], header["value"]) == ("Authorization", "Bearer {key}")
    assert header["isSecret"]
    assert header["variables"]["key"]["isSecret"]
    assert export.left_out == ("the tools, which clients ask the server for: forecast",)


@pytest.mark.spec("W25")
def test_a_server_with_oauth_asks_for_no_key() -> None:
    export = export_server_json(seen([forecast]), **PLACE, has_keys=False, description="Weather.")
    compile_json_schema("server.json", SERVER).check(export.content)
    assert export.content["remotes"] == [{"type": "streamable-http", "url": PLACE["url"]}]
    assert export.content["description"] == "Weather."


@pytest.mark.spec("W25")
@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"name": "weather"}, r"a server's name must be NAMESPACE/NAME.*'weather'"),
        ({"name": "a/b/c"}, r"a server's name must be NAMESPACE/NAME"),
        ({"name": f"io.example/{'x' * 200}"}, r"at most 200 characters"),
        ({"version": "^1.0.0"}, r"a version of three numbers was expected"),
        ({"version": "latest"}, r"a version of three numbers was expected"),
        ({"url": "tools.example.com"}, r"[Uu][Rr][Ll]"),
        ({"url": "ftp://example.com/"}, r"a scheme other"),
        ({"description": "x" * 101}, r"at most 100 characters; this one has 101"),
        ({"description": " "}, r"has no description, but one is required"),
    ],
)
def test_what_a_registry_refuses_is_refused_here(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        export_server_json(seen([forecast]), **{**PLACE, **overrides})


@pytest.mark.spec("W26")
def test_an_agent_card_has_a_skill_for_each_tool_in_play() -> None:
    export = export_agent_card(seen([forecast, make_rain]), version="1.0.0", url="https://agents.example.com/a2a")
    assert export.content == {
        "name": "helper",
        "description": "Helps.",
        "supportedInterfaces": [
            {"url": "https://agents.example.com/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        ],
        "version": "1.0.0",
        "capabilities": {},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [
            {
                "id": "forecast",
                "name": "forecast",
                "description": "Say how the weather will be.",
                "tags": ["kit", "read"],
            }
        ],
    }
    assert export.left_out == (
        "schemas of arguments and results, for which a skill has no place",
        "how clients authenticate: add securitySchemes",
        "the tool make_rain, which is not in play: ada lacks the permission weather:change",
    )


@pytest.mark.spec("W26")
@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"version": "1"}, "a version of three numbers was expected"),
        ({"url": "x"}, "URL"),
        ({"description": ""}, "no description"),
    ],
)
def test_a_card_that_says_too_little_is_refused(overrides: dict[str, Any], message: str) -> None:
    place = {"version": "1.0.0", "url": "https://agents.example.com/a2a"}
    with pytest.raises(DefinitionError, match=message):
        export_agent_card(seen([forecast]), **{**place, **overrides})
