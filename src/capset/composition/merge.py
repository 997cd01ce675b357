"""How contributions are joined, and when they cannot be (spec 1, C15–C17)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from capset.definitions.capabilities import AnyTool, Capability
from capset.definitions.policies import Policy
from capset.errors import PolicyConflict, ToolNameConflict


@dataclass(frozen=True, slots=True)
class Installed:
    """A tool of a composition, and the capability that brought it."""

    tool: AnyTool
    capability: Capability

    @property
    def name(self) -> str:
        """The name that a model calls it by."""
        return self.tool.name

    @property
    def qualified(self) -> str:
        """The name with its capability's, ``capability.tool``."""
        return f"{self.capability.name}.{self.tool.name}"


def merge_tools(capabilities: Iterable[Capability]) -> Mapping[str, Installed]:
    """Return every tool under its name, in the order of its capability.

    Raises ``ToolNameConflict`` for two tools of one name and ``PolicyConflict`` for two policies of one id, naming
    both contributors.
    """
    tools: dict[str, Installed] = {}
    policies: dict[str, tuple[Policy, Installed]] = {}
    for capability in capabilities:
        for tool in capability.tools:
            new = Installed(tool, capability)
            first = tools.setdefault(tool.name, new)
            if first.tool is not tool:
                raise ToolNameConflict(
                    f"{first.qualified} and {new.qualified} are two different tools named {tool.name!r}",
                    hint="rename one with @tool(name=…), or leave one of the capabilities out",
                )
            for policy in tool.policies:
                gate, owner = policies.setdefault(policy.id, (policy, new))
                if gate is not policy:
                    raise PolicyConflict(
                        f"{owner.qualified} and {new.qualified} carry two different policies with the id {policy.id!r}",
                        hint="share one Policy object, or give one of them another id",
                    )
    return MappingProxyType(tools)
