"""Capabilities and tools on the wire (spec 5, P6): ``id`` and ``name`` are a capability's ``name`` and ``title``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import Field

from capset.definitions.capabilities import AnyCapability, Risk, Status, config_schema
from capset.definitions.tools.definition import AnyTool
from capset.definitions.tools.options import Effect
from capset.definitions.tools.toolkits import AnyToolkit, DynamicToolkit, Toolkit, toolkits_in
from capset.fingerprint.hashes import tool_hash, toolkit_hash
from capset.wire.shapes import Shape


class CapabilityShape(Shape):
    """A capability in a list, without its contents."""

    id: str
    name: str
    description: str
    status: Status
    icon: str | None = None
    category: str | None = None


class CapabilityPageShape(Shape):
    """A page of capabilities, the number of matches on all pages, and the cursor of the next page, if any."""

    items: list[CapabilityShape]
    total: int
    next: str | None = None


class ToolShape(Shape):
    """A tool; ``schema`` and ``output`` are JSON Schemas.

    ``instructions`` are what a model is told about it while it is in play; ``examples`` are valid arguments.
    ``idempotent`` says that repeating a call with the same arguments has no further effect. ``approval`` is ``ask`` if
    every call needs one, and ``dynamic`` if a function decides for each call. ``limits`` say how often it may be called
    (``100/1h``), and ``cost`` is what a call takes from a budget.
    """

    name: str
    description: str
    effect: Effect
    permissions: list[str]
    policies: list[str]
    schema_: dict[str, Any] = Field(alias="schema")
    output: dict[str, Any]
    hash: str
    instructions: list[str] = Field(default_factory=list[str])
    examples: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    version: str | None = None
    idempotent: bool = False
    approval: Literal["auto", "ask", "dynamic"] = "auto"
    limits: list[str] = Field(default_factory=list[str])
    cost: float | None = None


class ToolkitShape(Shape):
    """A group of tools and other toolkits with its own policies and instructions. ``members`` are their names.

    The members of a toolkit that ``is_dynamic`` are created when a snapshot is evaluated, and are unknown before.
    """

    name: str
    members: list[str]
    instructions: list[str]
    policies: list[str]
    is_dynamic: bool
    hash: str


class PresetShape(Shape):
    """A part of a capability that can be switched on or off: its default, and what it adds."""

    name: str
    default: bool
    instructions: list[str]
    tools: list[str]
    adds: list[str]


class CapabilityDetail(CapabilityShape):
    """Everything that one capability can contribute.

    ``tools`` and ``toolkits`` include those of all its presets; ``tools`` also include those in toolkits, and
    ``toolkits`` the nested ones. ``instructions`` apply with any presets. ``uses`` are the ids of the capabilities that
    it needs. ``config`` is the JSON Schema of its config, if it has any. ``data`` names its resources and state fields
    with their scopes (``session.notes``), ``secrets`` the secrets that it needs from the host, and ``expose`` what
    clients may read. ``readiness`` says what it works with on the answering machine. ``limits`` apply to all its tools
    together.
    """

    version: str | None = None
    risk: Risk
    aliases: list[str]
    instructions: list[str]
    tools: list[ToolShape]
    toolkits: list[ToolkitShape] = Field(default_factory=list[ToolkitShape])
    presets: list[PresetShape]
    uses: list[str]
    config: dict[str, Any] | None = None
    data: list[str] = Field(default_factory=list)
    secrets: list[str] = Field(default_factory=list)
    expose: list[str] = Field(default_factory=list)
    readiness: dict[str, str] = Field(default_factory=dict[str, str])
    limits: list[str] = Field(default_factory=list[str])


def capability_shape(capability: AnyCapability) -> CapabilityShape:
    """Return the wire shape of a capability, without its contents."""
    return CapabilityShape(
        id=capability.name,
        name=capability.title,
        description=capability.description,
        status=capability.status,
        icon=capability.icon,
        category=capability.category,
    )


def readiness_of(capability: AnyCapability) -> dict[str, str]:
    """Return what a capability works with on this machine. This may take a second."""
    return {} if capability.readiness is None else dict(capability.readiness())


def capability_detail(capability: AnyCapability, readiness: Mapping[str, str] | None = None) -> CapabilityDetail:
    """Return the wire shape of a capability with all its contents, and its readiness if given."""
    return CapabilityDetail(
        **dict(capability_shape(capability)),
        version=capability.version,
        risk=capability.risk,
        aliases=list(capability.aliases),
        instructions=list(capability.part.instructions),
        tools=[tool_shape(tool) for tool in capability.every_tool],
        toolkits=list(map(_toolkit_shape, _all_toolkits(capability))),
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
        uses=[use.name for use in capability.uses if not callable(use)],
        config=config_schema(capability.config).json_schema if capability.config is not None else None,
        data=_data_names(capability),
        secrets=list(capability.secrets),
        expose=list(capability.expose),
        readiness=dict(readiness or {}),
        limits=list(map(str, capability.limits)),
    )


def _data_names(capability: AnyCapability) -> list[str]:
    names: dict[str, None] = {}
    for part in capability.parts.values():
        names |= dict.fromkeys(f"{resource.scope}.{resource.name}" for resource in part.resources)
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
        instructions=list(tool.instructions),
        examples=[dict(example) for example in tool.examples],
        version=tool.version,
        idempotent=tool.idempotent,
        approval="dynamic" if callable(tool.approval) else tool.approval,
        limits=list(map(str, tool.limits)),
        cost=tool.cost,
    )


def _all_toolkits(capability: AnyCapability) -> Iterable[AnyToolkit]:
    """Return every toolkit of a capability and its presets once, outer ones before nested ones."""
    return dict.fromkeys(toolkit for part in capability.parts.values() for toolkit in toolkits_in(part.members))


def _toolkit_shape(toolkit: AnyToolkit) -> ToolkitShape:
    return ToolkitShape(
        name=toolkit.name,
        members=[member.name for member in toolkit.members] if isinstance(toolkit, Toolkit) else [],
        instructions=list(toolkit.instructions),
        policies=[policy.id for policy in toolkit.policies],
        is_dynamic=isinstance(toolkit, DynamicToolkit),
        hash=toolkit_hash(toolkit),
    )
