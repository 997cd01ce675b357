"""A composed and evaluated agent on the wire: its prompt, its tools, why others are excluded, and its hashes."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from capset.composition.explain import Surface
from capset.composition.installation import InstalledTool
from capset.composition.resolve import CapabilityUse
from capset.definitions.governance.policies import DecisionKind
from capset.definitions.tools.options import Effect
from capset.evaluation.snapshot.snapshot import Snapshot
from capset.fingerprint.canonical import PROFILE
from capset.fingerprint.hashes import tool_hash
from capset.wire.capabilities import ToolShape, tool_shape
from capset.wire.pages import fitting_items
from capset.wire.shapes import PageShape, Shape


class SnapshotTool(Shape):
    """A tool of the composition, and whether this principal may call it.

    ``toolkits`` are the names of its enclosing toolkits, and ``policies`` the ids of all policies that apply to it,
    both outermost first. If ``is_dynamic``, a dynamic toolkit created it for this evaluation, and ``static_hash`` does
    not cover it.
    """

    name: str
    capability: str
    effect: Effect
    permissions: list[str]
    hash: str
    in_play: bool
    reason: str
    toolkits: list[str] = Field(default_factory=list[str])
    policies: list[str] = Field(default_factory=list[str])
    is_dynamic: bool = False


class DecisionShape(Shape):
    """The decision of a policy at evaluation, and its reason, if it gave one."""

    id: str
    kind: DecisionKind
    reason: str | None = None


class DynamicToolkitShape(Shape):
    """A dynamic toolkit: whether it created its tools, and if not, why.

    ``path`` is its name, preceded by the names of its capability, its preset and its enclosing toolkits, if any.
    ``tools`` are the names of the tools that it created, also in nested toolkits; ``policies`` are the ids of the
    policies that decided.
    """

    path: str
    in_play: bool
    reason: str
    policies: list[str]
    tools: list[str]


class UsedCapabilityShape(Shape):
    """A capability as the agent uses it: where it comes from, and with which options.

    ``path`` are the names that lead to it, the agent's first. ``presets`` are all its presets, in order, and whether
    they are on; if dynamic ``uses`` add presets to a capability that is already used, only the added ones. ``names``
    maps the original names of renamed tools to the new ones.
    """

    id: str
    name: str
    path: list[str]
    presets: dict[str, bool]
    config: dict[str, Any] | None = None
    names: dict[str, str]
    is_dynamic: bool


class CompositionItemShape(Shape):
    """An item of the composition, and its contributor: a capability, perhaps one of its presets, or else the agent.

    ``name`` is the name of a tool or a target, of a resource or a state field prefixed with its scope, or a path; for
    an instruction its first line, and for context its keys, its text or its function's name (spec 1, C40). ``path``
    begins with the block that has the item. ``within`` are the enclosing blocks, the agent first; it is empty for the
    agent's own items.
    """

    surface: Surface
    name: str
    capability: str | None = None
    preset: str | None = None
    path: list[str]
    within: list[str] = Field(default_factory=list[str])


class SnapshotShape(Shape):
    """Four hashes, 64 hexadecimal digits each, as defined by the ``profile``, and what they cover.

    ``system_text`` is everything that a model is told, for a session including its current context. ``uses`` and
    ``explained`` say where everything comes from. ``dynamic`` are the functions that add more at run time.
    ``decisions`` are the decisions of policies, in the order in which they were asked, without policies that are only
    asked at calls. ``toolkits`` are the dynamic ones. ``namespace``, ``agent_id`` and ``agent_name`` are labels that
    the host may set. ``invocation_hash`` is null if there was no invocation.
    """

    agent: str
    principal: str
    system_prompt: str
    instructions: list[str]
    system_text: str
    capabilities: list[str]
    uses: list[UsedCapabilityShape]
    dynamic: list[str]
    tools: list[SnapshotTool]
    explained: list[CompositionItemShape]
    notices: list[str]
    decisions: list[DecisionShape] = Field(default_factory=list[DecisionShape])
    toolkits: list[DynamicToolkitShape] = Field(default_factory=list[DynamicToolkitShape])
    namespace: str | None = None
    agent_id: str | None = None
    agent_name: str | None = None
    static_hash: str
    runtime_hash: str
    prompt_hash: str
    invocation_hash: str | None = None
    profile: str


def snapshot_shape(snapshot: Snapshot, system_text: str | None = None) -> SnapshotShape:
    """Return the wire shape of a snapshot, with its tools sorted by name.

    ``system_text`` is the text including context, if a session has resolved it.
    """
    composition = snapshot.composition
    dynamic_tools = [
        installed for name, installed in sorted(snapshot.installed.items()) if name not in composition.tools
    ]
    tools = [
        SnapshotTool(
            name=name,
            capability=installed.owner,
            effect=installed.tool.effect,
            permissions=sorted(installed.tool.permissions),
            hash=tool_hash(installed.tool),
            in_play=name in snapshot.tools,
            reason=snapshot.explain(name).reason,
            toolkits=list(installed.toolkits),
            policies=[policy.id for policy in installed.policies],
            is_dynamic=name not in composition.tools,
        )
        for name, installed in sorted(snapshot.installed.items())
    ]
    return SnapshotShape(
        agent=composition.block.name,
        principal=snapshot.principal.id,
        system_prompt=composition.block.system_prompt,
        instructions=list(snapshot.instructions),
        system_text=snapshot.system_text if system_text is None else system_text,
        capabilities=[capability.name for capability in composition.capabilities],
        uses=[_used_shape(use) for use in composition.capability_uses],
        dynamic=[getattr(function, "__name__", "uses") for function in composition.dynamic],
        tools=tools,
        explained=[
            CompositionItemShape(
                surface=explanation.surface,
                name=explanation.name,
                capability=explanation.source.capability,
                preset=explanation.source.preset,
                path=list(explanation.source.path),
                within=list(explanation.within),
            )
            for explanation in composition.explain()
        ],
        notices=list(composition.notices),
        decisions=[
            DecisionShape(id=policy.id, kind=decision.kind, reason=decision.reason)
            for policy, decision in snapshot.answers.items()
        ],
        toolkits=[
            DynamicToolkitShape(
                path=path,
                in_play=toolkit.in_play,
                reason=toolkit.reason,
                policies=list(toolkit.policies),
                tools=[tool.name for tool in dynamic_tools if _toolkit_path(tool).startswith(f"{path}.")],
            )
            for path, toolkit in snapshot.toolkits.items()
        ],
        namespace=snapshot.namespace,
        agent_id=snapshot.agent_id,
        agent_name=snapshot.agent_name,
        static_hash=snapshot.static_hash,
        runtime_hash=snapshot.runtime_hash,
        prompt_hash=snapshot.prompt_hash,
        invocation_hash=snapshot.invocation_hash,
        profile=PROFILE,
    )


class SessionToolPageShape(PageShape[ToolShape]):
    """A page of the tools in play, by name, and the cursor of the next page, if any."""


def session_tool_page(
    snapshot: Snapshot, limit: int, *, name: str | None = None, cursor: str | None = None
) -> SessionToolPageShape:
    """Return a page of the tools in play, under the names that models call; with ``name``, only that tool."""
    names = [
        tool_name
        for tool_name in sorted(snapshot.tools)
        if name in (None, tool_name) and (cursor is None or tool_name > cursor)
    ]
    shapes = (
        tool_shape(snapshot.tools[tool_name].tool).model_copy(update={"name": tool_name}) for tool_name in names[:limit]
    )
    items = list(fitting_items(shapes))
    return SessionToolPageShape(items=items, next=items[-1].name if len(items) < len(names) else None)


def _toolkit_path(tool: InstalledTool) -> str:
    """Return the path of the toolkit that contains a tool, followed by a dot."""
    names = (tool.source.capability, tool.source.preset, *tool.toolkits)
    return "".join(f"{name}." for name in names if name)


def _used_shape(use: CapabilityUse) -> UsedCapabilityShape:
    presets = use.capability.presets if use.is_base else use.presets
    return UsedCapabilityShape(
        id=use.capability.name,
        name=use.capability.title,
        path=list(use.path),
        presets={name: name in use.presets for name in presets},
        config=None if use.config is None else use.config.model_dump(mode="json", by_alias=True),
        names={original_name: name for original_name, name in use.names.items() if original_name != name},
        is_dynamic=use.is_dynamic,
    )
