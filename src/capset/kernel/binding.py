"""Compiling a composition: each tool's road, once (DESIGN §4, rule 3)."""

from __future__ import annotations

from capset.composition.compose import Composition
from capset.definitions.capabilities import AnyTool
from capset.fingerprint.hashes import tool_hash
from capset.kernel.invocation import Road, Roads
from capset.kernel.stages.order import STAGES


def bind(composition: Composition) -> Roads:
    """Compile every tool of a composition."""
    by_tool: dict[AnyTool, Road] = {}
    by_name: dict[str, Road] = {}
    for installed in composition.tools.values():
        tool = installed.tool
        steps = tuple(step for stage in STAGES if (step := stage(tool)) is not None)
        road = Road(tool.name, tool, installed.capability.name, tool_hash(tool), tool.has_side_effects, steps)
        by_tool[tool] = by_name[installed.name] = road
    for capability in composition.capabilities:
        by_name |= {f"{capability.name}.{tool.name}": by_tool[tool] for tool in capability.tools}
    return Roads(by_tool, by_name)
