"""Compilation of a composition: each tool, once, into the steps that its calls need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from capset.composition.compose import Composition
from capset.composition.installation import InstalledTool
from capset.definitions.tools.definition import AnyTool
from capset.fingerprint.hashes import tool_hash
from capset.kernel.call.compiled_tools import REPEATED_PHASES, CompiledTool, CompiledTools, Phase, Step
from capset.kernel.call.stages.access import ambiguous_tool
from capset.kernel.call.stages.phases import STAGES
from capset.kernel.call.stages.plain_calls import plain_call


def compile_tools(composition: Composition, tools: Mapping[str, InstalledTool] | None = None) -> CompiledTools:
    """Compile every tool of a composition; ``tools`` includes the tools made for one snapshot of it."""
    by_tool: dict[AnyTool, CompiledTool] = {}
    by_name: dict[str, CompiledTool] = {}
    aliases = {choice.capability.name: choice.capability.aliases for choice in composition.capability_uses}
    for installed in (composition.tools if tools is None else tools).values():
        tool, phases = installed.tool, compile_phases(installed)
        compiled = CompiledTool(
            installed.name,
            tool,
            installed.owner,
            tool_hash(tool),
            tool.has_side_effects,
            phases,
            installed.hooks,
            installed.may_ask,
            plain_call(installed, STAGES, phases),
        )
        by_name[installed.name] = compiled
        if installed.name not in composition.tools and installed.source.capability is not None:
            owners = (installed.source.capability, *aliases[installed.source.capability])
            by_name |= {f"{owner}.{installed.name}": compiled for owner in owners}
        by_tool[tool] = ambiguous_tool(compiled) if tool in by_tool else compiled
        if tool.contract is not None:
            by_name[tool.type] = by_tool[tool]
    for choice in composition.capability_uses:
        for _, part in choice.parts:
            for tool in part.tools:
                name = choice.names[tool.name]
                if (compiled := by_name.get(name)) is None:  # a hydrated snapshot has only the tools that were in play
                    continue
                for owner in (choice.capability.name, *choice.capability.aliases):
                    by_name[f"{owner}.{name}"] = compiled
    return CompiledTools(by_tool, by_name)


def compile_phases(installed: InstalledTool) -> Mapping[Phase, tuple[Step, ...]]:
    """Return the steps of a tool's calls, by phase."""
    return {
        phase: tuple(step for stage in stages if (step := stage(installed)) is not None)
        for phase, stages in STAGES.items()
    }


def check_only_tool(compiled: CompiledTool) -> CompiledTool:
    """Return a compiled tool that only checks a call: its steps up to the approval, without limits or the handler."""
    phases = {phase: compiled.phases.get(phase, ()) for phase in REPEATED_PHASES}
    return replace(compiled, phases={**phases, "admit": compiled.approval_steps})
