"""The immutable registry of everything installed and known to a process, filled from entry points (spec 5, P1)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self

from typing_extensions import TypeVar

from capset.definitions.agents import Agent
from capset.definitions.capabilities import AnyCapability, Capability
from capset.definitions.tools.definition import AnyTool
from capset.errors import CapabilityConflict, CapsetError, DefinitionError, NotFound, unknown
from capset.extras import MissingExtras, missing_extras

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

CAPABILITIES: Final = "capset.capabilities"
"""The entry point group of capabilities: each one is a ``Capability`` object."""
AGENTS: Final = "capset.agents"
"""The entry point group of agents defined in code: each one is an ``Agent`` object (spec 5, P4)."""
_log = logging.getLogger("capset.registry")
T = TypeVar("T", Agent, AnyCapability)


@dataclass(frozen=True, slots=True)
class LoadProblem:
    """An installed definition that could not be loaded, and the reason."""

    entry_point: str
    message: str
    group: str


@dataclass(frozen=True, eq=False, slots=True)
class Registry:
    """Capabilities and agents by name, and load problems: a broken definition does not keep out the others.

    ``aliases`` are the capabilities by their other names. ``earlier`` are replaced agents, newest first: running
    sessions keep the version that they started with. ``missing`` has the extras of its package that a capability needs
    but that are not installed.
    """

    capabilities: Mapping[str, AnyCapability]
    agents: Mapping[str, Agent]
    problems: tuple[LoadProblem, ...] = ()
    aliases: Mapping[str, AnyCapability] = field(default_factory=dict[str, AnyCapability])
    earlier: tuple[Agent, ...] = ()
    missing: Mapping[str, MissingExtras] = field(default_factory=dict[str, MissingExtras])

    @classmethod
    def of(
        cls,
        capabilities: Iterable[AnyCapability],
        agents: Iterable[Agent] = (),
        problems: Iterable[LoadProblem] = (),
    ) -> Self:
        """Return a registry of definitions. Raises ``DefinitionError`` if two differ and share a name or an alias."""
        named = _by_name("capabilities", capabilities)
        return cls(named, _by_name("agents", agents), tuple(problems), _by_alias(named))

    @classmethod
    def installed(cls) -> Self:
        """Load everything that is installed. Raises ``DefinitionError`` as ``of`` does."""
        from importlib.metadata import entry_points  # a slow import

        problems: list[LoadProblem] = []
        points = entry_points()
        capabilities = _load_group(points.select(group=CAPABILITIES), CAPABILITIES, Capability, problems)
        agents = _load_group(points.select(group=AGENTS), AGENTS, Agent, problems)
        registry = cls.of(
            (definition for definition, _ in capabilities), (definition for definition, _ in agents), problems
        )
        missing = {capability.name: extras for capability, point in capabilities if (extras := missing_extras(point))}
        return replace(registry, missing=missing)

    def extended(self, capabilities: Iterable[AnyCapability]) -> Self:
        """Return a registry with more capabilities. Raises ``DefinitionError`` as ``of`` does."""
        named = _by_name("capabilities", (*self.capabilities.values(), *capabilities))
        return replace(self, capabilities=named, aliases=_by_alias(named))

    def get(self, name: str) -> AnyCapability:
        """Return a capability by its name, or by an alias.

        Raises ``NotFound`` with the nearest name, or the reason why it did not load.
        """
        capability = self.capabilities.get(name) or self.aliases.get(name)
        if capability is None:
            raise self._not_found("capability", name, CAPABILITIES, (*self.capabilities, *self.aliases))
        return capability

    def get_agent(self, name: str) -> Agent:
        """Return an agent by name. Raises ``NotFound`` with the nearest name, or the reason why it did not load."""
        try:
            return self.agents[name]
        except KeyError:
            raise self._not_found("agent", name, AGENTS, self.agents) from None

    @property
    def tools(self) -> tuple[AnyTool, ...]:
        """All tools of all capabilities, and the tools that agents declare themselves."""
        brought = [tool for capability in self.capabilities.values() for tool in capability.every_tool]
        return tuple(dict.fromkeys([*brought, *(tool for agent in self.agents.values() for tool in agent.part.tools)]))

    def versions(self, name: str) -> tuple[Agent, ...]:
        """Return all versions of an agent, the current one first, then the earlier ones."""
        now = self.agents.get(name)
        before = tuple(agent for agent in self.earlier if agent.name == name)
        return before if now is None else (now, *before)

    def _not_found(self, kind: str, name: str, group: str, candidates: Iterable[str]) -> NotFound:
        for problem in self.problems:
            if (problem.group, problem.entry_point) == (group, name):
                return NotFound(f"{kind} {name!r} is installed, but could not be loaded: {problem.message}")
        return NotFound(unknown(kind, name, candidates))


def _by_name(kind: str, definitions: Iterable[T]) -> Mapping[str, T]:
    by_name: dict[str, T] = {}
    for definition in definitions:
        if by_name.setdefault(definition.name, definition) is not definition:
            raise DefinitionError(
                f"two different {kind} named {definition.name!r} are installed; uninstall one of them"
            )
    return MappingProxyType(dict(sorted(by_name.items())))


def _by_alias(named: Mapping[str, AnyCapability]) -> Mapping[str, AnyCapability]:
    by_alias: dict[str, AnyCapability] = {}
    for capability in named.values():
        for alias in capability.aliases:
            other = named.get(alias) or by_alias.get(alias)
            if other is not None:
                role = "the name" if alias in named else "an alias"
                raise CapabilityConflict(
                    f"capability {capability.name!r} has the alias {alias!r}, "
                    f"which is {role} of capability {other.name!r}",
                    hint="uninstall one of them",
                )
            by_alias[alias] = capability
    return MappingProxyType(dict(sorted(by_alias.items())))


def _load_group(
    points: EntryPoints, group: str, kind: type[T], problems: list[LoadProblem]
) -> list[tuple[T, EntryPoint]]:
    by_name: dict[str, tuple[T, EntryPoint]] = {}
    for point in points:
        try:
            loaded = point.load()
        except CapsetError as error:
            problems.append(LoadProblem(point.name, error.message, group))
        except (Exception, SystemExit) as error:
            _log.debug("the entry point %r could not be loaded", point.name, exc_info=error)
            problems.append(
                LoadProblem(point.name, f"{type(error).__name__} while loading {point.value}: {error}", group)
            )
        else:
            if not isinstance(loaded, kind):
                message = f"{point.value} is {type(loaded).__name__}, not {kind.__name__}"
                problems.append(LoadProblem(point.name, message, group))
                continue
            first, origin = by_name.setdefault(loaded.name, (loaded, point))
            if first is not loaded:
                plural = group.removeprefix("capset.")
                both = f"{_origin(origin)} and {_origin(point)}"
                raise DefinitionError(
                    f"two different {plural} named {loaded.name!r} are installed: {both}; uninstall one of them"
                )
    return list(by_name.values())


def _origin(point: EntryPoint) -> str:
    package = f" of {point.dist.name}" if point.dist else ""
    return f"{point.name} = {point.value}{package}"
