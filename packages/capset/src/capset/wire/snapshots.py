"""A composed and evaluated agent on the wire: its prompt, its tools, the reasons for absent ones, and its hashes."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from capset.composition.explain import Surface
from capset.composition.installation import Installed
from capset.composition.resolve import Chosen
from capset.definitions.governance.policies import DecisionKind
from capset.definitions.tools.options import Effect
from capset.evaluation.snapshot.snapshot import Snapshot
from capset.fingerprint.canonical import PROFILE
from capset.fingerprint.hashes import tool_hash
from capset.wire.capabilities import ToolShape, tool_shape
from capset.wire.pages import fitting_items
from capset.wire.shapes import Shape


class SnapshotTool(Shape):
    """A tool of the composition, and whether this principal may call it.

    ``toolkits`` are the names of those around it, ``policies`` the ids of all that gate it here, both outermost first.
    ``is_dynamic`` says that a dynamic toolkit made it for this evaluation; ``static_hash`` does not cover it then.
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
    """What a policy said when this was evaluated, and why, if it gave a reason."""

    id: str
    kind: DecisionKind
    reason: str | None = None


class MadeShape(Shape):
    """A dynamic toolkit: whether it was made, and why not.

    ``path`` is its name behind those of the toolkits around it, and of the capability and the preset if it is of one.
    ``tools`` are the names of those that it made, in toolkits or not; ``policies`` the ids of those that decided.
    """

    path: str
    in_play: bool
    reason: str
    policies: list[str]
    tools: list[str]


class UsedShape(Shape):
    """A capability as it is used here: by which way it came, and what was chosen of it.

    ``path`` are the names on the way to it, the agent's first. ``presets`` are all that it has, in order, and whether
    they are on; of what dynamic ``uses`` add to one that is there already, only the added ones. ``names`` are its tools
    that have another name here, by their own.
    """

    id: str
    name: str
    path: list[str]
    presets: dict[str, bool]
    config: dict[str, Any] | None = None
    names: dict[str, str]
    is_dynamic: bool


class ExplainedShape(Shape):
    """One thing of the composition, and who contributed it: a capability, by a preset perhaps, or else the agent.

    ``name`` is a tool's, a resource's or a state field's with its scope before it, a target's, a path; of an
    instruction the first line, of context its keys, its text or its function's name (spec 1, C40). ``path`` begins with
    the block that has it; ``within`` are the blocks around that, the agent first, and empty for the agent's own.
    """

    surface: Surface
    name: str
    capability: str | None = None
    preset: str | None = None
    path: list[str]
    within: list[str] = Field(default_factory=list[str])


class SnapshotShape(Shape):
    """What the hashes cover, and the hashes: 64 hexadecimal digits each, by the profile named.

    ``system_text`` is all that a model is told; of a session with its context, as it is now. ``uses`` and ``explained``
    say where everything comes from; ``dynamic`` are the functions that add more at run time. ``decisions`` are those of
    the policies that were asked, in that order; a policy that is asked at calls only is not among them. ``toolkits``
    are the dynamic ones. ``namespace``, ``agent_id`` and ``agent_name`` are the host's labels, where it set them.
    ``invocation_hash`` is null where no invocation was given.
    """

    agent: str
    principal: str
    system_prompt: str
    instructions: list[str]
    system_text: str
    capabilities: list[str]
    uses: list[UsedShape]
    dynamic: list[str]
    tools: list[SnapshotTool]
    explained: list[ExplainedShape]
    notices: list[str]
    decisions: list[DecisionShape] = Field(default_factory=list[DecisionShape])
    toolkits: list[MadeShape] = Field(default_factory=list[MadeShape])
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

    ``system_text`` is the text with its context, if a session has resolved it.
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
            policies=[policy.id for policy in installed.gates],
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
        uses=[_used(chosen) for chosen in composition.chosen],
        dynamic=[getattr(function, "__name__", "uses") for function in composition.dynamic],
        tools=tools,
        explained=[
            ExplainedShape(
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
            MadeShape(
                path=path,
                in_play=toolkit.in_play,
                reason=toolkit.reason,
                policies=list(toolkit.policies),
                tools=[tool.name for tool in dynamic_tools if _around(tool).startswith(f"{path}.")],
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


class SessionToolPageShape(Shape):
    """Some tools in play by name, and the cursor of the next page, if there is one."""

    items: list[ToolShape]
    next: str | None = None


def session_tool_page(
    snapshot: Snapshot, limit: int, *, name: str | None = None, cursor: str | None = None
) -> SessionToolPageShape:
    """Return a page of the tools in play, by the names that a model calls them by; only the one of a ``name``."""
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


def _around(tool: Installed) -> str:
    """Return the path of the toolkit that contains a tool, followed by a dot."""
    names = (tool.source.capability, tool.source.preset, *tool.toolkits)
    return "".join(f"{name}." for name in names if name)


def _used(chosen: Chosen) -> UsedShape:
    presets = chosen.capability.presets if chosen.is_base else chosen.presets
    return UsedShape(
        id=chosen.capability.name,
        name=chosen.capability.title,
        path=list(chosen.path),
        presets={name: name in chosen.presets for name in presets},
        config=None if chosen.config is None else chosen.config.model_dump(mode="json", by_alias=True),
        names={original_name: name for original_name, name in chosen.names.items() if original_name != name},
        is_dynamic=chosen.is_dynamic,
    )
