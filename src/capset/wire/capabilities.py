"""Capabilities and tools on the wire (spec 5, P6): ``id`` and ``name`` are a capability's ``name`` and ``title``."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from capset.definitions.capabilities import AnyCapability, Risk, Status
from capset.definitions.configs import config_schema
from capset.definitions.tools import AnyTool, Effect
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


class PresetShape(Shape):
    """A switchable part of a capability: whether it is on unless an agent says otherwise, and what it adds."""

    name: str
    default: bool
    instructions: list[str]
    tools: list[str]
    adds: list[str]


class CapabilityDetail(CapabilityShape):
    """Everything that one capability can bring: ``tools`` are those of all its presets too.

    ``instructions`` are there whatever presets are on; ``uses`` are the ids of what it needs; ``config`` is the JSON
    Schema of what can be configured, if anything can. ``data`` names its resources and state fields with their scopes
    before them (``session.notes``), ``secrets`` what it asks the host for, ``expose`` what clients may read.
    """

    version: str | None = None
    risk: Risk
    aliases: list[str]
    instructions: list[str]
    tools: list[ToolShape]
    presets: list[PresetShape]
    uses: list[str]
    config: dict[str, Any] | None = None
    data: list[str] = Field(default_factory=list)
    secrets: list[str] = Field(default_factory=list)
    expose: list[str] = Field(default_factory=list)


def capability_shape(capability: AnyCapability) -> CapabilityShape:
    """Return the wire shape of a capability, without what it brings."""
    return CapabilityShape(
        id=capability.name,
        name=capability.title,
        description=capability.description,
        status=capability.status,
        icon=capability.icon,
        category=capability.category,
    )


def capability_detail(capability: AnyCapability) -> CapabilityDetail:
    """Return the wire shape of a capability with everything that it brings."""
    return CapabilityDetail(
        **dict(capability_shape(capability)),
        version=capability.version,
        risk=capability.risk,
        aliases=list(capability.aliases),
        instructions=list(capability.part.instructions),
        tools=[tool_shape(tool) for tool in capability.every_tool],
        presets=[
            PresetShape(
                name=name,
                default=name in capability.default,
                instructions=list(preset.part.instructions),
                tools=[tool.name for tool in preset.part.tools],
                adds=sorted(preset.part.declared),
            )
            for name, preset in capability.presets.items()
        ],
        uses=[one.name for one in capability.uses if not callable(one)],
        config=config_schema(capability.config).json_schema if capability.config is not None else None,
        data=_data(capability),
        secrets=list(capability.secrets),
        expose=list(capability.expose),
    )


def _data(capability: AnyCapability) -> list[str]:
    names: dict[str, None] = {}
    for part in capability.parts.values():
        names |= dict.fromkeys(f"{one.scope}.{one.name}" for one in part.resources)
        names |= dict.fromkeys(
            f"{scope}.{field}" for scope, model in part.state.items() for field in model.model_fields
        )
    return list(names)


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
