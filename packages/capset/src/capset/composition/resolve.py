"""The effective capabilities of a block, with their choices and order (spec 1, C3–C11, C27–C29; spec 5, P2)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from capset.composition.sources import ContributionSource
from capset.definitions.blocks import Block
from capset.definitions.capabilities import AnyCapability
from capset.definitions.parts import Part
from capset.definitions.references import AnyRef, DynamicUses
from capset.errors import CapabilityConflict, DefinitionError, PresetConflict

MAX_CAPABILITIES: Final = 100
"""The maximum number of capabilities of one block, and the maximum depth of their dependencies."""

DynamicRefs = Mapping[DynamicUses, tuple[AnyRef, ...]]
"""The results of the functions among the ``uses``, for one run."""


@dataclass(frozen=True, eq=False, slots=True)
class CapabilityUse:
    """A capability of a composition. ``presets`` are those that are on, in the order of their declaration.

    ``config`` is an instance of the capability's own model; ``names`` maps its tools' own names to those in the
    composition. If dynamic ``uses`` switch on more presets of a capability that is already present, a second entry has
    only those, with ``is_base`` false, so that nothing is contributed twice.
    """

    capability: AnyCapability
    presets: tuple[str, ...]
    config: Any
    names: Mapping[str, str]
    path: Path
    is_base: bool = True
    is_dynamic: bool = False
    prefix: str = ""
    """The prefix for the names of tools made at run time."""

    @property
    def parts(self) -> Iterator[tuple[ContributionSource, Part]]:
        """Its contributions with their sources: its own part, then those of its active presets."""
        name = self.capability.name
        if self.is_base:
            yield ContributionSource(self.path, name), self.capability.part
        for preset in self.presets:
            yield ContributionSource(self.path, name, preset), self.capability.presets[preset].part


@dataclass(frozen=True, eq=False, slots=True)
class Resolution:
    """The contributing capabilities, dependencies first, the dynamic ``uses``, and the notices to report."""

    capability_uses: tuple[CapabilityUse, ...]
    dynamic: tuple[DynamicUses, ...]
    notices: tuple[str, ...]


def resolve(block: Block, dynamic_refs: DynamicRefs | None = None) -> Resolution:
    """Resolve the capabilities of a block. ``dynamic_refs`` has the results of dynamic ``uses``; others add nothing.

    Raises ``CapabilityConflict`` for two capabilities with the same name or alias, even if they are alike;
    ``PresetConflict`` for two references at the same depth that disagree; and ``DefinitionError`` for more than 100
    capabilities, for a missing config without defaults, and for dynamic ``uses`` that would change existing choices.
    """
    walk = _DependencyWalk(block)
    roots = [(ref, (block.name,)) for ref in block.uses if not callable(ref)]
    walk.visit(roots)
    choices = Choices(roots)
    static = choices
    by_capability = {capability: _use_of(capability, path, choices) for capability, path in walk.order.items()}
    uses = list(by_capability.values())
    for function, path in walk.all_functions():
        function_path = (*path, f"{getattr(function, '__name__', 'uses')}()")
        added = [(ref, function_path) for ref in (dynamic_refs or {}).get(function, ())]
        new = walk.visit(added)
        choices = Choices(added, depth=len(path), known=by_capability, static=static)
        for capability, capability_path in new.items():
            by_capability[capability] = replace(_use_of(capability, capability_path, choices), is_dynamic=True)
            uses.append(by_capability[capability])
        for capability in [candidate for candidate in by_capability if candidate not in new and candidate in choices]:
            if (extra := _added_presets(by_capability[capability], choices, function_path)) is not None:
                by_capability[capability] = replace(extra, presets=(*by_capability[capability].presets, *extra.presets))
                uses.append(extra)
    return Resolution(tuple(uses), tuple(walk.functions), tuple(walk.notices))


class _DependencyWalk:
    """A walk over capabilities: depth first, dependencies before dependents, otherwise in list order."""

    def __init__(self, block: Block) -> None:
        self.order: dict[AnyCapability, Path] = {}
        self.functions: dict[DynamicUses, Path] = {
            function: (block.name,) for function in block.uses if callable(function)
        }
        self.notices: list[str] = []
        self._label = f"{type(block).__name__.lower()} {block.name!r}"
        self._visited: dict[AnyCapability, Path] = {}
        self._names: dict[str, AnyCapability] = {}

    def visit(self, refs: Iterable[tuple[AnyRef, Path]]) -> Mapping[AnyCapability, Path]:
        """Visit references, and return the new capabilities with their paths."""
        before = set(self.order)
        for ref, path in refs:
            self._visit(ref.base, (*path, ref.name))
        return {capability: path for capability, path in self.order.items() if capability not in before}

    def all_functions(self) -> Iterator[tuple[DynamicUses, Path]]:
        """Yield the functions with their paths, including those found during the iteration."""
        index = 0
        while index < len(self.functions):
            yield list(self.functions.items())[index]
            index += 1

    def _visit(self, capability: AnyCapability, path: Path) -> None:
        if capability in self._visited:
            return
        self._visited[capability] = path
        self._claim_names(capability, path)
        if max(len(self._visited), len(path) - 1) > MAX_CAPABILITIES:
            raise DefinitionError(
                f"{self._label} has more than {MAX_CAPABILITIES} capabilities, one of them by {' → '.join(path[:6])} …",
                hint="split the agent, or join small capabilities into one",
            )
        if (notice := _STATUS_NOTICES.get(capability.status)) is not None:
            self.notices.append(f"capability {capability.name!r} {notice}")
        if not capability.contributes:
            return
        for entry in capability.uses:
            if callable(entry):
                self.functions.setdefault(entry, path)
            else:
                self._visit(entry.base, (*path, entry.name))
        self.order[capability] = path

    def _claim_names(self, capability: AnyCapability, path: Path) -> None:
        for name in (capability.name, *capability.aliases):
            other = self._names.setdefault(name, capability)
            if other is not capability:
                raise CapabilityConflict(
                    f"{self._label} uses two different capabilities named {name!r}: "
                    f"by {' → '.join(self._visited[other])} and by {' → '.join(path)}",
                    hint="use the same object in both places, or give one of them another name",
                )


_STATUS_NOTICES: Final[Mapping[str, str]] = {
    "deprecated": "is deprecated: it still contributes, but plan to replace it",
    "coming_soon": "is coming soon: it contributes nothing yet",
    "retired": "is retired: it no longer contributes anything",
}


def _use_of(capability: AnyCapability, path: Path, choices: Choices) -> CapabilityUse:
    switches = choices.presets(capability)
    active = tuple(name for name in capability.presets if switches.get(name, name in capability.default))
    return CapabilityUse(
        capability,
        active,
        choices.config(capability),
        choices.names(capability),
        path,
        prefix=choices.prefix(capability),
    )


def _added_presets(existing: CapabilityUse, choices: Choices, path: Path) -> CapabilityUse | None:
    """Return the presets that dynamic references add to a capability already present, if any."""
    capability = existing.capability
    switches = choices.presets(capability)
    if off := [name for name in existing.presets if switches.get(name, True) is False]:
        change = f"switch off its preset {off[0]!r}"
    elif choices.has(capability, "config") and choices.config(capability) != existing.config:
        change = "configure it otherwise"
    elif (choices.has(capability, "prefix") or choices.has(capability, "rename")) and (
        choices.names(capability) != existing.names
    ):
        change = "rename its tools"
    else:
        added = tuple(name for name in capability.presets if switches.get(name) and name not in existing.presets)
        return (
            replace(existing, presets=added, path=(*path, capability.name), is_base=False, is_dynamic=True)
            if added
            else None
        )
    raise DefinitionError(
        f"capability {capability.name!r} is already present, and {path[-1]} would {change}: dynamic uses can only add",
        hint="keep the existing choice, or leave it out of the static uses",
    )


Path = tuple[str, ...]
"""The names on the path from the root, root first."""
_Key = tuple[str, str]
"""The subject of a choice: ``preset`` and its name, ``config``, ``prefix``, or ``rename`` and the tool's own name."""


@dataclass(frozen=True, slots=True)
class _Choice:
    depth: int
    value: Any  # of the type that its key has
    path: Path


class Choices:
    """The explicit choices for every capability that can be reached from a set of references."""

    def __init__(
        self,
        roots: Iterable[tuple[AnyRef, Path]],
        *,
        depth: int = 1,
        known: Collection[AnyCapability] = (),
        static: Choices | None = None,
    ) -> None:
        """Walk breadth first, each capability once, so that each reference is found at its smallest depth.

        For dynamic references, ``depth`` is the depth of the first level, ``known`` has the capabilities whose own
        references were walked earlier, and ``static`` has the earlier choices. A nearer choice in ``static`` overrides
        a deeper dynamic one, unless that switches a preset on.

        Raises ``PresetConflict``, naming both paths, for two choices at the same depth that disagree.
        """
        self._choices: dict[AnyCapability, dict[_Key, _Choice]] = {}
        self._static = static
        level = list(roots)
        while level:
            next_level: list[tuple[AnyRef, Path]] = []
            for ref, path in level:
                is_new = ref.base not in self._choices and ref.base not in known
                self._record(ref, depth, path)
                if is_new and ref.base.contributes:
                    ref_path = (*path, ref.name)
                    next_level += [(use, ref_path) for use in ref.base.uses if not callable(use)]
            level, depth = next_level, depth + 1

    def presets(self, capability: AnyCapability) -> Mapping[str, bool]:
        """Return the presets that were explicitly switched on or off."""
        return {
            name: setting.value for (kind, name), setting in self._choices_for(capability).items() if kind == "preset"
        }

    def config(self, capability: AnyCapability) -> Any:
        """Return the chosen config or the defaults; ``None`` if the capability has no config.

        Raises ``DefinitionError`` if the config is required but missing.
        """
        if (setting := self._choices_for(capability).get(("config", ""))) is not None or capability.config is None:
            return setting and setting.value
        try:
            return capability.config()
        except ValidationError as error:
            missing = ", ".join(str(problem["loc"][0]) for problem in error.errors() if problem["loc"])
            raise DefinitionError(
                f"capability {capability.name!r} needs a config: {missing or 'its defaults are invalid'}",
                hint=f"use {capability.name}.with_config({capability.config.__name__}(…))",
            ) from None

    def names(self, capability: AnyCapability) -> Mapping[str, str]:
        """Return the name of every tool in this composition, by its own name."""
        settings, prefix = self._choices_for(capability), self.prefix(capability)
        tool_names = [tool.name for tool in capability.every_tool]
        return MappingProxyType(
            {
                name: settings["rename", name].value if ("rename", name) in settings else prefix + name
                for name in tool_names
            }
        )

    def prefix(self, capability: AnyCapability) -> str:
        """Return the prefix of its tools' names; it may be empty."""
        setting = self._choices_for(capability).get(("prefix", ""))
        return setting.value if setting else ""

    def has(self, capability: AnyCapability, kind: str) -> bool:
        """Whether any choice of this kind was made for a capability."""
        return any(key[0] == kind for key in self._choices_for(capability))

    def __contains__(self, capability: object) -> bool:
        return capability in self._choices

    def _choices_for(self, capability: AnyCapability) -> Mapping[_Key, _Choice]:
        return self._choices.get(capability, {})

    def _record(self, ref: AnyRef, depth: int, path: Path) -> None:
        settings = self._choices.setdefault(ref.base, {})
        for key, value in _choices_in(ref).items():
            nearer = self._static and self._static._choices_for(ref.base).get(key)
            if nearer and nearer.depth < depth and not (key[0] == "preset" and value):
                continue
            first = settings.setdefault(key, _Choice(depth, value, path))
            if first.depth == depth and not _is_same(first.value, value):
                setting_name = " ".join(part for part in key if part)
                if first.path == path:
                    raise PresetConflict(
                        f"{path[-1]!r} uses the capability {ref.name!r} twice, with different choices for its "
                        f"{setting_name}: {_describe_value(first.value)} and {_describe_value(value)}",
                        hint="keep one of the two entries",
                    )
                raise PresetConflict(
                    f"capability {ref.name!r}, {setting_name}: {_describe_value(first.value)} by "
                    f"{' → '.join(first.path)}, "
                    f"{_describe_value(value)} by {' → '.join(path)}",
                    hint=f"let the root choose: it can use {ref.name} with its own choice, which wins",
                )


def _choices_in(ref: AnyRef) -> Mapping[_Key, Any]:
    settings: dict[_Key, Any] = {("preset", name): is_on for name, is_on in ref.presets.items()}
    if ref.config is not None:
        settings["config", ""] = ref.config
    if ref.prefix is not None:
        settings["prefix", ""] = ref.prefix
    return settings | {("rename", old): new for old, new in (ref.rename or {}).items()}


def _is_same(value: Any, other: Any) -> bool:
    return type(value) is type(other) and value == other


def _describe_value(value: Any) -> str:
    return f"a {type(value).__name__}" if isinstance(value, BaseModel) else repr(value)
