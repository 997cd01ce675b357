"""Valid configurations, and the problems of invalid configuration files with their lines (spec 4, G28)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from capset.definitions.agents import Agent
from capset.definitions.capabilities import AnyCapability
from capset.definitions.governance.channels import NotificationChannel
from capset.definitions.governance.settings import Governance
from capset.definitions.references import AnyRef
from capset.definitions.tools.definition import AnyTool
from capset.errors import DefinitionError, Field
from capset.kernel.governance.checkpoints import Checkpoints
from capset.kernel.registry import Registry
from capset_connect.sources import Source


@dataclass(frozen=True, slots=True)
class Problem:
    """An error or a warning: its line (from 1), the path of the member, the message, and the action, if any.

    ``line`` is ``None`` if the file could not be parsed and the parser reported no line.
    """

    line: int | None
    path: str
    message: str
    action: str | None = None

    def __str__(self) -> str:
        place = "" if self.line is None else f"line {self.line}: "
        suffix = f" (action {self.action!r})" if self.action else ""
        return f"{place}{self.path}{suffix}{': ' if self.path else ''}{self.message}"


class InvalidConfiguration(DefinitionError):
    """Raised for an invalid file, which is rejected as a whole. ``problems`` are sorted by line."""

    def __init__(self, file: Path, problems: Iterable[Problem]) -> None:
        self.file = file
        self.problems = tuple(sorted(problems, key=lambda problem: (problem.line or 0, problem.path)))
        message = "\n".join([f"{file}: not a configuration:", *(f"  {problem}" for problem in self.problems)])
        super().__init__(message, fields=[Field(problem.path, problem.message) for problem in self.problems])


@dataclass(frozen=True, slots=True)
class Action:
    """A tool of the file, its ``source`` (the handler, or ``CAPABILITY.TOOL``), and its ``line``, from 1."""

    tool: AnyTool
    source: str
    line: int


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Configuration:
    """A valid configuration file. ``actions`` are keyed by name; ``digest`` is the SHA-256 of the file's text.

    Run it with ``Kernel(governance=…, workspace=…, checkpoints=…, channels=…)`` and a session of ``agent``.
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
    sources: tuple[Source, ...]
    """The MCP servers and APIs of the file and of its sub-agents' files."""
    own_sources: tuple[Source, ...]
    """The MCP servers and APIs of the file itself."""
    source_capabilities: tuple[AnyCapability, ...]
    """The capabilities of all ``sources``."""
    inner: tuple[Configuration, ...]
    """The configurations in the files of sub-agents."""
    channels: tuple[NotificationChannel, ...]
    shared: tuple[AnyCapability, ...]
    """The capabilities that stored agents can use: ``actions``, and those of the file's MCP servers and APIs."""
    files: Mapping[Path, str]
    """The SHA-256 of the file, of the Python files that it names, and the same of its sub-agents' files."""
    is_needed: bool
    """Whether sessions of the agent can be continued only with the file: it declares more than an agent, or a model."""

    @property
    def lasting(self) -> tuple[object, ...]:
        """The settings that cannot change while a kernel runs, for comparison with another configuration."""
        signed = self.checkpoints and (self.checkpoints.key.public.id, self.checkpoints.every, self.checkpoints.keep)
        return self.governance, self.workspace, signed, self.channels

    @property
    def models(self) -> Mapping[str, Path]:
        """The models that the agents of the file and of its sub-agents' files name, with the folders of the files."""
        inner = {name: folder for configuration in self.inner for name, folder in configuration.models.items()}
        return inner if self.agent.model is None else {**inner, self.agent.model: self.path.parent}

    @property
    def tools(self) -> tuple[AnyTool, ...]:
        """The tools of all actions, in the order of the file."""
        return tuple(action.tool for action in self.actions.values())

    def within(self, registry: Registry, *, earlier: tuple[Agent, ...] = ()) -> Registry:
        """Return the registry, extended with the agent and the shared capabilities.

        ``earlier`` are the agents that this agent replaces. Raises ``DefinitionError`` if another agent or capability
        with one of their names is installed.
        """
        agents = (*registry.agents.values(), self.agent)
        extended = Registry.of(registry.capabilities.values(), agents, registry.problems).extended(self.shared)
        return replace(extended, earlier=earlier, missing=registry.missing)


ActionWarning = tuple[str | None, str, str]
"""The action, if any; the member of the action or of the governance; and the warning."""


def warnings_of(actions: Iterable[Action], governance: Governance) -> Iterator[ActionWarning]:
    """Yield the warnings about a valid configuration."""
    tools = [action.tool for action in actions]
    is_limited = governance.allowance is not None and bool(governance.allowance.limits)
    if not governance.record_reads:
        yield None, "record_reads", "only calls of tools that read are unrecorded; all other calls are still recorded"
    if governance.default_permissions:
        permissions = ", ".join(sorted(governance.default_permissions))
        yield None, "default_permissions", f"every principal holds {permissions}, including anonymous ones"
    if not governance.require_auth and any(tool.permissions for tool in tools):
        warning = "some actions need permissions, but unauthenticated principals are not refused"
        yield None, "require_auth", f"{warning}: they hold the permissions that are granted to everyone"
    for tool in tools:
        if tool.has_side_effects and not tool.permissions:
            yield tool.name, "permissions", f"anyone may call it, but its effect is {tool.effect!r}"
        if tool.effect in ("external", "destructive") and not (tool.limits or is_limited):
            yield tool.name, "limits", f"its effect is {tool.effect!r}, but nothing limits how often it is called"
