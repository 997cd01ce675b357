"""Actions of a file that use installed tools, and the capability by which stored agents use a file's actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from capset.definitions.capabilities import AnyCapability, Capability, narrow_capability
from capset.definitions.governance.policies import Policy
from capset.definitions.references import AnyRef
from capset.definitions.tools.definition import AnyTool
from capset_connect.config_file.actions import Borrowed


def with_tools(ref: AnyRef, tools: Mapping[AnyTool, list[AnyTool]]) -> AnyRef:
    """Return a reference to a capability with only these tools. The presets that contain them are enabled."""
    presets = {
        name: True for name, preset in ref.base.presets.items() if any(tool in tools for tool in preset.part.tools)
    }
    return replace(ref.with_presets(**presets), base=narrow_capability(ref.base, tools))


def actions_capability(
    path: Path, tools: list[AnyTool], refs: tuple[AnyRef, ...], borrowed: list[Borrowed], policies: list[Policy]
) -> AnyCapability | None:
    """Return the capability ``actions``, by which stored agents use the actions of a file; ``None`` without any.

    The file's policies apply to its actions wherever they are used.
    """
    uses = [
        replace(ref, base=narrow_capability(origin, governed_tools))
        for ref in refs
        if (origin := ref.base.origin) is not None
        if (governed_tools := borrowed_tools(origin, borrowed, policies))
    ]
    if not tools and not uses:
        return None
    return Capability(
        "actions",
        description=f"The actions of {path.name}.",
        tools=tools,
        uses=uses,
        policies=policies if tools else (),
        risk="high",  # only an administrator gives them to another agent, for which other approvers may be in charge
    )


def borrowed_tools(
    capability: AnyCapability, borrowed: list[Borrowed], policies: Sequence[Policy] = ()
) -> dict[AnyTool, list[AnyTool]]:
    """Return the actions that use tools of a capability, by these tools, each with further policies."""
    tools: dict[AnyTool, list[AnyTool]] = {}
    for borrowed_tool in borrowed:
        if borrowed_tool.capability is capability:
            tool = borrowed_tool.tool
            governed = replace(tool, policies=tuple(dict.fromkeys((*tool.policies, *policies)))) if policies else tool
            tools.setdefault(borrowed_tool.original, []).append(governed)
    return tools
