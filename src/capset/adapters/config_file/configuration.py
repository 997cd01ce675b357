"""What is wrong with a configuration file, each with its line (spec 4, G28)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from capset.definitions.agents import Agent
from capset.definitions.governance import Governance
from capset.definitions.references import AnyRef
from capset.definitions.tools.definition import AnyTool
from capset.errors import DefinitionError, Field
from capset.kernel.governance.checkpoints import Checkpoints
from capset.kernel.registry import Registry


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, or worth a warning: on which line, from 1, at which member, in which action if it is in one.

    ``line`` is ``None`` where a file could not even be parsed, and the parser did not say.
    """

    line: int | None
    path: str
    message: str
    action: str | None = None

    def __str__(self) -> str:
        place = "" if self.line is None else f"line {self.line}: "
        whose = f" (action {self.action!r})" if self.action else ""
        return f"{place}{self.path}{whose}{': ' if self.path else ''}{self.message}"


class InvalidConfiguration(DefinitionError):
    """Nothing of the file is used; ``problems`` are all that was found in it, in the order of their lines."""

    def __init__(self, file: Path, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda one: (one.line or 0, one.path)))
        listed = "\n".join([f"{file}: not a configuration:", *(f"  {one}" for one in self.problems)])
        super().__init__(listed, fields=[Field(one.path, one.message) for one in self.problems])


@dataclass(frozen=True, slots=True)
class Action:
    """A tool of the file's, where it comes from (the handler, or ``CAPABILITY.TOOL``), and its line, from 1."""

    tool: AnyTool
    source: str
    line: int


@dataclass(frozen=True, eq=False, slots=True)
class Configuration:
    """A file that was taken whole. ``actions`` are by name; ``digest`` is the SHA-256 of the file's text.

    ``Kernel(governance=…, workspace=…, checkpoints=…)`` of what stands here, and a session of ``agent``, run it.
    """

    path: Path
    agent: Agent
    actions: Mapping[str, Action]
    capabilities: tuple[AnyRef, ...]
    governance: Governance
    workspace: Path | None
    checkpoints: Checkpoints | None
    warnings: tuple[Problem, ...]
    digest: str

    @property
    def lasting(self) -> tuple[object, ...]:
        """What holds for as long as a kernel runs, to be compared with another's."""
        signed = self.checkpoints and (self.checkpoints.key.public.id, self.checkpoints.every, self.checkpoints.keep)
        return self.governance, self.workspace, signed

    @property
    def tools(self) -> tuple[AnyTool, ...]:
        """Every action's tool, in the order of the file."""
        return tuple(one.tool for one in self.actions.values())

    def within(self, registry: Registry, *, earlier: tuple[Agent, ...] = ()) -> Registry:
        """Return a registry with the agent beside what is installed; ``earlier`` are those that it takes the place of.

        Raises ``DefinitionError`` where another agent of its name is installed.
        """
        agents = (*registry.agents.values(), self.agent)
        return replace(Registry.of(registry.capabilities.values(), agents, registry.problems), earlier=earlier)


Told = tuple[str | None, str, str]
"""The action that is meant, if it is one; which of its members, or of the governance's; and what to think of."""


def warnings_of(actions: Iterable[Action], governance: Governance) -> Iterator[Told]:
    """Yield what is worth a second look; nothing of it is refused."""
    tools = [one.tool for one in actions]
    is_limited = governance.allowance is not None and bool(governance.allowance.limits)
    if not governance.record_reads:
        yield None, "record_reads", "this silences reads only: calls of all other tools are on record all the same"
    if governance.default_permissions:
        held = ", ".join(sorted(governance.default_permissions))
        yield None, "default_permissions", f"every principal holds {held}, whoever it is"
    if not governance.require_auth and any(tool.permissions for tool in tools):
        told = "some actions need permissions, and principals whom nobody has authenticated are not refused"
        yield None, "require_auth", f"{told}: they may hold what is granted to everybody"
    for tool in tools:
        if tool.has_side_effects and not tool.permissions:
            yield tool.name, "permissions", f"everybody may call it, and its effect is {tool.effect!r}"
        if tool.effect in ("external", "destructive") and not (tool.limits or is_limited):
            yield tool.name, "limits", f"its effect is {tool.effect!r}, and nothing limits how often it is called"
