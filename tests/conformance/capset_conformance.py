"""The tools that the MCP conformance suite calls by name, as a capability that a server can have installed.

This folder on ``PYTHONPATH`` is enough: the entry point stands in the ``dist-info`` folder beside this module.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, TypeAdapter
from typing_extensions import TypedDict

from capset import Capability, Progress, Reply, ToolError, tool
from capset.schemas.schema import Schema

PAUSE: Final = 0.05
"""Seconds between two steps of a streaming tool."""


@tool(effect="read")
async def test_simple_text() -> str:
    """Give a text."""
    return "This is a simple text response for testing."


@tool(effect="read")
async def test_error_handling() -> str:
    """Fail on purpose."""
    raise ToolError("This tool intentionally returns an error for testing")


@tool(effect="read")
async def test_tool_with_progress() -> AsyncIterator[Progress | Reply[str]]:
    """Go through three steps, and tell of each."""
    for fraction in (0.0, 0.5, 1.0):
        yield Progress(fraction)
        await asyncio.sleep(PAUSE)
    yield Reply("done")


@tool(effect="read")
async def test_streaming_elicitation() -> AsyncIterator[Progress | Reply[str]]:
    """Stream; the suite looks at what a response's stream is made of, and elicitation is not what it asks for."""
    yield Progress(0.5)
    yield Reply("done")


@tool(effect="read")
async def test_logging_tool() -> str:
    """Give a text; the suite asks for no log messages, and expects none."""
    return "done"


@tool(effect="read")
async def test_custom_headers(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
    """Give back a region, which clients repeat in a header for whoever routes the request."""
    return region


class Contact(TypedDict, total=False):
    """What ``CONTACT`` describes, as far as a type can say it."""

    name: str
    address: dict[str, str]
    contactMethod: Literal["phone", "email"]
    phone: str
    email: str


def reachable(given: Contact) -> Contact:
    """Refuse what the conditions of ``CONTACT`` refuse."""
    needed = "phone" if given.get("contactMethod") == "phone" else "email"
    if needed not in given:
        raise ValueError(f"{needed} is missing")
    return given


CONTACT: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
"""A schema as another system may write one, with every keyword that must reach a client unchanged."""


@tool(effect="read")
async def json_schema_2020_12_tool(
    name: str = "",
    address: dict[str, str] | None = None,
    contactMethod: str = "",
    phone: str = "",
    email: str = "",
) -> str:
    """Tool with JSON Schema 2020-12 features."""
    return phone or email


conformance: Capability = Capability(
    "conformance",
    tools=[
        test_simple_text,
        test_error_handling,
        test_tool_with_progress,
        test_streaming_elicitation,
        test_logging_tool,
        test_custom_headers,
        # No signature gives such a schema; here it is what came from elsewhere.
        replace(
            json_schema_2020_12_tool,
            arguments=Schema(TypeAdapter(Annotated[Contact, AfterValidator(reachable)]), CONTACT, closed=True),
        ),
    ],
)
