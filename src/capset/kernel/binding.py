"""Compiling a composition: each tool's road, once (DESIGN §4, rule 3)."""

from __future__ import annotations

from capset.composition.compose import Composition
from capset.definitions.tools import AnyTool
from capset.fingerprint.hashes import tool_hash
from capset.kernel.invocation import Road, Roads
from capset.kernel.stages.lookup import ambiguous_road
from capset.kernel.stages.order import STAGES


def bind(composition: Composition) -> Roads:
    """Compile every tool of a composition."""
    by_tool: dict[AnyTool, Road] = {}
    by_name: dict[str, Road] = {}
    for installed in composition.tools.values():
        tool = installed.tool
        steps = tuple(step for stage in STAGES if (step := stage(installed)) is not None)
        road = Road(installed.name, tool, installed.owner, tool_hash(tool), tool.has_side_effects, steps)
        by_name[installed.name] = road
        by_tool[tool] = ambiguous_road(road) if tool in by_tool else road
    for one in composition.chosen:
        for _, part in one.parts:
            for tool in part.tools:
                name = one.names[tool.name]
                for owner in (one.capability.name, *one.capability.aliases):
                    by_name[f"{owner}.{name}"] = by_name[name]
    return Roads(by_tool, by_name)
