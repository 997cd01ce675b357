"""What a configuration file comes to: its actions as tools, an agent that has them, and what governs them (G27)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from capset.adapters.config_file.problems import Problem
from capset.definitions.agents import Agent
from capset.definitions.governance import Governance
from capset.definitions.references import AnyRef
from capset.definitions.tools.definition import AnyTool
from capset.kernel.governance.checkpoints import Checkpoints
from capset.kernel.registry import Registry


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
