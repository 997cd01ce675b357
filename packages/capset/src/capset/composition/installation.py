"""Tools and toolkits of a composition, with their names, policies and hooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from capset.composition.sources import ContributionSource
from capset.definitions.governance.hooks import NO_HOOKS, Hooks, merge_hooks
from capset.definitions.governance.limits import Limit
from capset.definitions.governance.policies import Policy
from capset.definitions.names import TOOL, checked_name, replace_tool_names
from capset.definitions.tools.definition import AnyTool, Tool
from capset.definitions.tools.toolkits import MAX_TOOLKIT_LEVELS, AnyToolkit, DynamicToolkit, Member, Toolkit, tools_in
from capset.errors import DefinitionError, ToolNameConflict


@dataclass(frozen=True, slots=True)
class ToolNames:
    """The names of a capability's tools in a composition, by their own names.

    ``prefix`` is for tools made at run time.
    """

    known: Mapping[str, str] = field(default_factory=dict[str, str])
    prefix: str = ""

    def name_of(self, tool: AnyTool) -> str:
        """Return a tool's name for the model."""
        return self.known.get(tool.name) or self.prefix + tool.name

    def with_tools(self, tools: Iterable[AnyTool]) -> ToolNames:
        """Return these names plus those of tools made at run time. Raises ``DefinitionError`` for an invalid name."""
        new_names = {
            tool.name: checked_name(f"{tool.name!r} with its prefix", self.name_of(tool), TOOL) for tool in tools
        }
        return replace(self, known={**self.known, **new_names})

    def rename_in(self, text: str) -> str:
        """Replace the tool names in backquotes in instructions with those in the composition."""
        return replace_tool_names(text, self.known)


@dataclass(frozen=True, slots=True)
class Level:
    """One layer around tools, such as a block, a capability, a preset or a toolkit: its name, policies and hooks.

    ``limits`` are shared by all tools of a capability.
    """

    owner: str
    policies: tuple[Policy, ...]
    hooks: Hooks = NO_HOOKS
    limits: tuple[Limit, ...] = ()


@dataclass(frozen=True, slots=True)
class PolicyBinding:
    """A policy, its first owner in traversal order, and the hooks to notify of its decisions, outermost first."""

    policy: Policy
    owner: str
    hooks: Hooks


@dataclass(frozen=True, slots=True)
class InstalledTool:
    """A tool of a composition: its name for the model, its contributor, and every policy that applies to it.

    ``levels`` lists the layers around it, outermost first: the block, each capability, preset and toolkit that brings
    it, and the tool itself. ``policies`` and ``hooks`` are those of the levels, in that order. ``policy_bindings``
    bind each policy to its first owner here and the hooks to notify. ``toolkits`` has the names of the enclosing
    toolkits.
    """

    tool: AnyTool
    name: str
    source: ContributionSource
    levels: tuple[Level, ...]
    policies: tuple[Policy, ...]
    hooks: Hooks
    toolkits: tuple[str, ...]
    instructions: tuple[str, ...]
    policy_bindings: tuple[PolicyBinding, ...]

    @property
    def owner(self) -> str:
        """The name of the capability or the block that brings it."""
        return self.source.capability or self.source.path[-1]

    @property
    def qualified_name(self) -> str:
        """The name prefixed with its owner's, ``capability.tool``."""
        return f"{self.owner}.{self.name}"

    @property
    def own_name(self) -> str:
        """``CAPABILITY.TOOL`` with the name that the tool has in the capability itself."""
        return f"{self.owner}.{self.tool.name}"

    @property
    def may_ask(self) -> bool:
        """Whether a call may need an approval, by the tool's own rule or because a policy asks for it."""
        return self.tool.approval != "auto" or bool(self.policies)

    @property
    def has_simple_policies(self) -> bool:
        """Whether every policy is asked at each call, no hook observes the policies, and all arguments are scalars."""
        has_observer = any(binding.hooks.on_policy_evaluated for binding in self.policy_bindings)
        return self.tool.arguments.only_scalars and all(policy.is_live for policy in self.policies) and not has_observer

    def with_more_levels(self, levels: tuple[Level, ...]) -> InstalledTool:
        """Return the tool as brought by a second path, too: the policies of both paths apply."""
        all_levels = tuple(dict.fromkeys((*self.levels[:-1], *levels)))
        # The hooks of a path observe only the policies of that path.
        bindings = {binding.policy: binding for binding in (*_bindings_of(levels), *self.policy_bindings)}
        return replace(
            self,
            levels=all_levels,
            policies=_policies(all_levels),
            hooks=_hooks(all_levels),
            policy_bindings=tuple(bindings.values()),
        )


@dataclass(frozen=True, eq=False, slots=True)
class InstalledToolkit:
    """A toolkit of a composition. ``levels`` lists all layers around its members, itself last.

    ``toolkits`` has the names of the enclosing toolkits, ``tools`` the names that its tools have in the composition.
    """

    toolkit: AnyToolkit
    source: ContributionSource
    names: ToolNames
    levels: tuple[Level, ...]
    toolkits: tuple[str, ...]
    tools: frozenset[str]

    @property
    def path(self) -> tuple[str, ...]:
        """Its name, after those of the enclosing toolkits."""
        return (*self.toolkits, self.toolkit.name)

    @property
    def qualified_name(self) -> str:
        """The path prefixed with its owner's name, and the preset's if one brought it: ``capability.toolkit``."""
        return ".".join(name for name in (self.source.capability, self.source.preset, *self.path) if name)

    @property
    def is_empty(self) -> bool:
        """Whether it can never have members."""
        return isinstance(self.toolkit, Toolkit) and not self.toolkit.members

    @property
    def policies(self) -> tuple[Policy, ...]:
        """Every policy that applies to its members, outermost first."""
        return _policies(self.levels)

    @property
    def instructions(self) -> tuple[str, ...]:
        """Its instructions for the model, with the names that its tools have in the composition."""
        return tuple(map(self.names.rename_in, self.toolkit.instructions))


class ToolInstaller:
    """Installs tools and toolkits under their names, in traversal order, a toolkit before its contents."""

    def __init__(self, tools: Mapping[str, InstalledTool] | None = None, policies: Iterable[Policy] = ()) -> None:
        """Start from existing ``tools``, whose names are taken, and ``policies`` that are already among the steps."""
        self.tools: dict[str, InstalledTool] = dict(tools or {})
        self.steps: list[PolicyBinding | InstalledToolkit] = []
        self._order: dict[str | InstalledToolkit, None] = {}
        self._policies_seen: set[Policy] = set(policies)

    @property
    def members(self) -> tuple[InstalledTool | InstalledToolkit, ...]:
        """The installed members, in order of installation."""
        return tuple(self.tools[member] if isinstance(member, str) else member for member in self._order)

    @property
    def count(self) -> int:
        """The number of installed members."""
        return len(self._order)

    def add(
        self,
        members: Iterable[Member],
        source: ContributionSource,
        names: ToolNames,
        outer_levels: tuple[Level, ...],
        toolkits: tuple[str, ...] = (),
    ) -> None:
        """Install members and everything inside them. Raises ``ToolNameConflict``, naming both contributors."""
        for member in members:
            levels = (*outer_levels, Level(member.name, member.policies, member.hooks))
            bindings = _bindings_of(levels)
            self._add_policies(bindings)
            if isinstance(member, Tool):
                self._install(member, source, names, levels, toolkits, bindings)
                continue
            if len(toolkits) >= MAX_TOOLKIT_LEVELS:
                raise DefinitionError(f"{source}: toolkits are nested more than {MAX_TOOLKIT_LEVELS} levels deep")
            members_inside = () if isinstance(member, DynamicToolkit) else member.members
            tools = frozenset(map(names.name_of, tools_in(members_inside)))
            installed = InstalledToolkit(member, source, names, levels, toolkits, tools)
            self._order[installed] = None
            if isinstance(member, DynamicToolkit):
                self.steps.append(installed)
            self.add(members_inside, source, names, levels, installed.path)

    def _install(
        self,
        tool: AnyTool,
        source: ContributionSource,
        names: ToolNames,
        levels: tuple[Level, ...],
        toolkits: tuple[str, ...],
        bindings: tuple[PolicyBinding, ...],
    ) -> None:
        name, instructions = names.name_of(tool), tuple(map(names.rename_in, tool.instructions))
        policies = tuple([binding.policy for binding in bindings])
        new = InstalledTool(tool, name, source, levels, policies, _hooks(levels), toolkits, instructions, bindings)
        first = self.tools.setdefault(name, new)
        if first.tool is not tool:
            owner = source.capability or first.source.capability
            raise ToolNameConflict(
                f"{first.source} and {source} bring two different tools named {name!r}",
                hint=f"rename one in uses: {owner}.with_names(prefix='…'), or rename={{{tool.name!r}: '…'}}",
            )
        if first is not new:
            self.tools[name] = first.with_more_levels(levels)
        self._order[name] = None

    def _add_policies(self, bindings: tuple[PolicyBinding, ...]) -> None:
        """Record the policies that occur for the first time, with their owners."""
        new = [binding for binding in bindings if binding.policy not in self._policies_seen]
        self._policies_seen.update(binding.policy for binding in new)
        self.steps += new


def _bindings_of(levels: Sequence[Level]) -> tuple[PolicyBinding, ...]:
    """Return the policies of levels, the outermost first, each with its first owner."""
    bindings: dict[Policy, PolicyBinding] = {}
    for depth, level in enumerate(levels, start=1):
        for policy in level.policies:
            if policy not in bindings:
                bindings[policy] = PolicyBinding(policy, level.owner, _hooks(levels[:depth]))
    return tuple(bindings.values())


def _policies(levels: Iterable[Level]) -> tuple[Policy, ...]:
    return tuple(dict.fromkeys(policy for level in levels for policy in level.policies))


def _hooks(levels: Iterable[Level]) -> Hooks:
    return merge_hooks(*(level.hooks for level in levels))
