"""A composed and evaluated agent on the wire: its prompt, its tools, why some are not in play, and its hashes."""

from __future__ import annotations

from capset.definitions.tools import Effect
from capset.evaluation.snapshot import Snapshot
from capset.fingerprint.canonical import PROFILE
from capset.fingerprint.hashes import tool_hash
from capset.wire.shapes import Shape


class SnapshotTool(Shape):
    """A tool of the composition, and whether this principal may call it."""

    name: str
    capability: str
    effect: Effect
    permissions: list[str]
    hash: str
    in_play: bool
    reason: str


class SnapshotShape(Shape):
    """What the three hashes cover, and the hashes: 64 hexadecimal digits each, by the profile named."""

    agent: str
    principal: str
    system_prompt: str
    instructions: list[str]
    system_text: str
    capabilities: list[str]
    tools: list[SnapshotTool]
    notices: list[str]
    static_hash: str
    runtime_hash: str
    prompt_hash: str
    profile: str


def snapshot_shape(snapshot: Snapshot) -> SnapshotShape:
    """Return the wire shape of a snapshot; its tools are sorted by name."""
    composition = snapshot.composition
    tools = [
        SnapshotTool(
            name=name,
            capability=installed.capability.name,
            effect=installed.tool.effect,
            permissions=sorted(installed.tool.permissions),
            hash=tool_hash(installed.tool),
            in_play=name in snapshot.tools,
            reason=snapshot.explain(name).reason,
        )
        for name, installed in sorted(composition.tools.items())
    ]
    return SnapshotShape(
        agent=composition.agent.name,
        principal=snapshot.principal.id,
        system_prompt=composition.agent.system_prompt,
        instructions=list(snapshot.instructions),
        system_text=composition.system_text,
        capabilities=[one.name for one in composition.capabilities],
        tools=tools,
        notices=list(composition.notices),
        static_hash=snapshot.static_hash,
        runtime_hash=snapshot.runtime_hash,
        prompt_hash=snapshot.prompt_hash,
        profile=PROFILE,
    )
