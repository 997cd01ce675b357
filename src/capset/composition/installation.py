"""Tools and toolkits as they stand in a composition: under which names, behind which gates, with which hooks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from capset.composition.sources import ContributionSource
from capset.definitions.hooks import NO_HOOKS, Hooks, merge_hooks
from capset.definitions.names import TOOL, checked
from capset.definitions.policies import Policy
from capset.definitions.tools.definition import AnyTool, Tool
from capset.definitions.tools.toolkits import MAX_LEVELS, AnyToolkit, DynamicToolkit, Member, Toolkit, tools_in
from capset.errors import DefinitionError, ToolNameConflict

_QUOTED: Final = re.compile(r"`([A-Za-z0-9_-]{1,64})`")


@dataclass(frozen=True, slots=True)
class ToolNames:
    """The names of a capability's tools here, by their own; ``prefix`` is for those that are made at run time."""

    known: Mapping[str, str] = field(default_factory=dict[str, str])
    prefix: str = ""

    def of(self, tool: AnyTool) -> str:
        """Return the name that a model calls a tool by."""
        return self.known.get(tool.name) or self.prefix + tool.name

    def and_of(self, tools: Iterable[AnyTool]) -> ToolNames:
        """Return these names with those of tools that were made. Raises ``DefinitionError`` for what is no name."""
        made = {tool.name: checked(f"{tool.name!r} with its prefix", self.of(tool), TOOL) for tool in tools}
        return replace(self, known={**self.known, **made})

    def in_text(self, text: str) -> str:
        """Return instructions with the names that tools have here, where they stand in backquotes."""
        return _QUOTED.sub(lambda found: f"`{self.known.get(found[1], found[1])}`", text)


@dataclass(frozen=True, slots=True)
class Level:
    """One that stands around tools, a block, a capability, a preset or a toolkit: its name, its gates, its hooks."""

    owner: str
    policies: tuple[Policy, ...]
    hooks: Hooks = NO_HOOKS


@dataclass(frozen=True, slots=True)
class PolicyBinding:
    """A policy with its first owner in traversal order, and the hooks that are told of it, the outermost first."""

    policy: Policy
    owner: str
    hooks: Hooks


@dataclass(frozen=True, slots=True)
class Installed:
    """A tool of a composition: the name that a model calls it by, who brought it, and every gate before it.

    ``levels`` are the block, each capability, preset and toolkit that brings it, and itself, outermost first; ``gates``
    and ``hooks`` are theirs, in that order; ``met`` are the gates, each with its first owner here and the hooks that
    are told of it. ``toolkits`` are the names of those around it.
    """

    tool: AnyTool
    name: str
    source: ContributionSource
    levels: tuple[Level, ...]
    gates: tuple[Policy, ...]
    hooks: Hooks
    toolkits: tuple[str, ...]
    instructions: tuple[str, ...]
    met: tuple[PolicyBinding, ...]

    @property
    def owner(self) -> str:
        """The name of the capability that brought it, or of the block."""
        return self.source.capability or self.source.path[-1]

    @property
    def qualified(self) -> str:
        """The name with its owner's, ``capability.tool``."""
        return f"{self.owner}.{self.name}"

    def behind(self, levels: tuple[Level, ...]) -> Installed:
        """Return the tool as it stands when it is brought by another way too: every gate of both is before it."""
        both = tuple(dict.fromkeys((*self.levels[:-1], *levels)))
        # The hooks of one way are not around the other's gates.
        met = {gate.policy: gate for gate in (*bindings_of(levels), *self.met)}
        return replace(self, levels=both, gates=_gates(both), hooks=_hooks(both), met=tuple(met.values()))


@dataclass(frozen=True, eq=False, slots=True)
class InstalledToolkit:
    """A toolkit of a composition. ``levels`` are all that stand around its members, itself the last.

    ``toolkits`` are the names of those around it, ``tools`` those of the tools in it, as they are here.
    """

    toolkit: AnyToolkit
    source: ContributionSource
    names: ToolNames
    levels: tuple[Level, ...]
    toolkits: tuple[str, ...]
    tools: frozenset[str]

    @property
    def path(self) -> tuple[str, ...]:
        """Its name, and before it those of the toolkits around it."""
        return (*self.toolkits, self.toolkit.name)

    @property
    def qualified(self) -> str:
        """The path with its owner's name, and the preset's if one brought it: ``capability.toolkit``."""
        return ".".join(name for name in (self.source.capability, self.source.preset, *self.path) if name)

    @property
    def is_empty(self) -> bool:
        """Whether nothing can ever be in it."""
        return isinstance(self.toolkit, Toolkit) and not self.toolkit.members

    @property
    def gates(self) -> tuple[Policy, ...]:
        """Every gate before its members, outermost first."""
        return _gates(self.levels)

    @property
    def instructions(self) -> tuple[str, ...]:
        """What the model is told of it, with the names that its tools have here."""
        return tuple(map(self.names.in_text, self.toolkit.instructions))


class Installing:
    """Walks members in traversal order, a toolkit before what is in it, and installs each under its name."""

    def __init__(self, tools: Mapping[str, Installed] | None = None, gates: Iterable[Policy] = ()) -> None:
        """``tools`` and ``gates`` are those that are there already: names must not clash, no gate is met again."""
        self.tools: dict[str, Installed] = dict(tools or {})
        self.steps: list[PolicyBinding | InstalledToolkit] = []
        self._order: dict[str | InstalledToolkit, None] = {}
        self._met: set[Policy] = set(gates)

    @property
    def members(self) -> tuple[Installed | InstalledToolkit, ...]:
        """What was installed, in the order in which that happened."""
        return tuple(self.tools[one] if isinstance(one, str) else one for one in self._order)

    @property
    def count(self) -> int:
        """How many members were installed."""
        return len(self._order)

    def add(
        self,
        members: Iterable[Member],
        source: ContributionSource,
        names: ToolNames,
        around: tuple[Level, ...],
        toolkits: tuple[str, ...] = (),
    ) -> None:
        """Install some members with everything in them. Raises ``ToolNameConflict``, naming both contributors."""
        for one in members:
            levels = (*around, Level(one.name, one.policies, one.hooks))
            met = bindings_of(levels)
            self._meet(met)
            if isinstance(one, Tool):
                self._install(one, source, names, levels, toolkits, met)
                continue
            if len(toolkits) >= MAX_LEVELS:
                raise DefinitionError(f"{source}: toolkits are nested more than {MAX_LEVELS} levels deep")
            inside = () if isinstance(one, DynamicToolkit) else one.members
            tools = frozenset(map(names.of, tools_in(inside)))
            installed = InstalledToolkit(one, source, names, levels, toolkits, tools)
            self._order[installed] = None
            if isinstance(one, DynamicToolkit):
                self.steps.append(installed)
            self.add(inside, source, names, levels, installed.path)

    def _install(
        self,
        tool: AnyTool,
        source: ContributionSource,
        names: ToolNames,
        levels: tuple[Level, ...],
        toolkits: tuple[str, ...],
        met: tuple[PolicyBinding, ...],
    ) -> None:
        name, told = names.of(tool), tuple(map(names.in_text, tool.instructions))
        gates = tuple([gate.policy for gate in met])
        new = Installed(tool, name, source, levels, gates, _hooks(levels), toolkits, told, met)
        first = self.tools.setdefault(name, new)
        if first.tool is not tool:
            owner = source.capability or first.source.capability
            raise ToolNameConflict(
                f"{first.source} and {source} bring two different tools named {name!r}",
                hint=f"rename one in uses: {owner}.with_names(prefix='…'), or rename={{{tool.name!r}: '…'}}",
            )
        if first is not new:
            self.tools[name] = first.behind(levels)
        self._order[name] = None

    def _meet(self, gates: tuple[PolicyBinding, ...]) -> None:
        """Note the gates that were not met before: their first owner in traversal order is here (spec 2, F23)."""
        new = [gate for gate in gates if gate.policy not in self._met]
        self._met.update(gate.policy for gate in new)
        self.steps += new


def bindings_of(levels: Sequence[Level]) -> tuple[PolicyBinding, ...]:
    """Return the gates of some levels, the outermost first, each with its first owner."""
    met: dict[Policy, PolicyBinding] = {}
    for depth, level in enumerate(levels, start=1):
        for policy in level.policies:
            if policy not in met:
                met[policy] = PolicyBinding(policy, level.owner, _hooks(levels[:depth]))
    return tuple(met.values())


def _gates(levels: Iterable[Level]) -> tuple[Policy, ...]:
    return tuple(dict.fromkeys(policy for level in levels for policy in level.policies))


def _hooks(levels: Iterable[Level]) -> Hooks:
    return merge_hooks(*(level.hooks for level in levels))
