"""MCP servers as files declare them: configuration files, and files of agents (spec 7, M6)."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field, WithJsonSchema

from capset.definitions.names import PERMISSION
from capset.definitions.tools.options import Effect
from capset.wire.allowances import LIMIT_SCHEMA
from capset.wire.shapes import StrictShape

LimitsText = Annotated[
    Any, WithJsonSchema({"anyOf": [*LIMIT_SCHEMA["anyOf"], {"type": "array", "items": LIMIT_SCHEMA}]})
]
"""Limits in any of their forms; their own validator gives better messages than a union of types would."""
Permission = Annotated[str, Field(pattern=f"^{PERMISSION.pattern}$")]
LIMITS_SAID: Final = (
    "How often it may be called: `100/1h` by one principal; a mapping, or a list of them, says more. Windows are a "
    "whole number and s, m, h or d. Calls are counted in the database; `scope: process` counts in each process."
)


class ToolRulesShape(StrictShape):
    """The rules of a tool of an MCP server; under the name `*`, of every tool whose own rules do not say it."""

    effect: Effect | None = Field(
        None, description="`destructive`, if left out; hints of the server make it stronger, never weaker."
    )
    permissions: list[Permission] | None = Field(
        None, description="What a principal must hold, beside the server's own permissions."
    )
    limits: LimitsText = Field(None, description=LIMITS_SAID)
    approval: Literal["auto", "ask"] | None = Field(
        None, description="`ask` if somebody has to approve every call; `auto`, if left out."
    )
    timeout: float | None = Field(None, gt=0, description="Seconds that a call may take; the server's, if left out.")
    idempotent: bool | None = Field(
        None, description="Whether calling it again changes nothing more; `false`, if left out."
    )
    arguments: dict[str, dict[str, Any]] | None = Field(
        None,
        description="What arguments are allowed beyond the tool's own schema: the JSON Schema of each, with a `type`, "
        "a `const` or an `enum`; with `required: true`, calls without it are refused, too.",
    )


class McpServerShape(StrictShape):
    """An MCP server: at a `url`, or started by a `command`."""

    url: str | None = Field(None, description="Its address, for streamable HTTP.")
    headers: dict[str, str] | None = Field(
        None, description="Sent with every request; `${NAME}` in them is the secret of that name."
    )
    internal: list[str] | None = Field(
        None, description="Internal hosts that its address may lead to, as `host` or `host:port`."
    )
    command: list[str] | None = Field(None, description="The program and its arguments.")
    env: dict[str, str] | None = Field(
        None, description="The whole environment of its process; `${NAME}` is the secret of that name."
    )
    cwd: str | None = Field(None, description="The folder that its process begins in, seen from this file's folder.")
    tools: list[str] | None = Field(
        None, description="The tools that are used, by their names there; all, if left out."
    )
    rules: dict[str, ToolRulesShape] | None = Field(
        None, description="What holds for each tool, by its name there, or `*` for every tool."
    )
    permissions: list[Permission] | None = Field(
        None, description="What a principal must hold to call any of its tools."
    )
    timeout: float | None = Field(None, gt=0, description="Seconds that a call may take: 60, if left out.")
    start_timeout: float | None = Field(
        None, gt=0, description="Seconds until it has answered for the first time: 30, if left out."
    )
    message_bytes: int | None = Field(
        None, ge=1_024, le=64 * 1024 * 1024, description="How long one of its messages is at most: 1 MiB, if left out."
    )
    trust_first_use: bool | None = Field(
        None, description="Approves the tools that it has when it is first used, as they are; `false`, if left out."
    )
