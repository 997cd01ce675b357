"""Capabilities and tools on the wire (spec 5, P6): ``id`` and ``name`` are a capability's ``name`` and ``title``."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from capset.definitions.capabilities import AnyTool, Capability, Status
from capset.definitions.tools import Effect
from capset.fingerprint.hashes import tool_hash
from capset.wire.shapes import Shape


class CapabilityShape(Shape):
    """One line of the list of capabilities."""

    id: str
    name: str
    description: str
    status: Status
    icon: str | None = None
    category: str | None = None


class CapabilityPageShape(Shape):
    """The capabilities that were asked for, and how many they are."""

    items: list[CapabilityShape]
    total: int


class ToolShape(Shape):
    """One tool; its schemas are JSON Schema (values of every JSON type)."""

    name: str
    description: str
    effect: Effect
    permissions: list[str]
    policies: list[str]
    schema_: dict[str, Any] = Field(alias="schema")
    output: dict[str, Any]
    hash: str


class CapabilityDetail(CapabilityShape):
    """Everything that one capability brings."""

    version: str | None = None
    instructions: list[str]
    tools: list[ToolShape]


def capability_shape(capability: Capability) -> CapabilityShape:
    """Return the wire shape of a capability, without what it brings."""
    return CapabilityShape(
        id=capability.name,
        name=capability.title,
        description=capability.description,
        status=capability.status,
        icon=capability.icon,
        category=capability.category,
    )


def capability_detail(capability: Capability) -> CapabilityDetail:
    """Return the wire shape of a capability with everything that it brings."""
    return CapabilityDetail(
        **dict(capability_shape(capability)),
        version=capability.version,
        instructions=list(capability.instructions),
        tools=[tool_shape(tool) for tool in capability.tools],
    )


def tool_shape(tool: AnyTool) -> ToolShape:
    """Return the wire shape of a tool."""
    return ToolShape(
        name=tool.name,
        description=tool.description,
        effect=tool.effect,
        permissions=sorted(tool.permissions),
        policies=[policy.id for policy in tool.policies],
        schema=tool.arguments.json_schema,
        output=tool.output.json_schema,
        hash=tool_hash(tool),
    )
