"""Compiled tools: the steps of one tool's calls, by the phases of the pipeline (spec 4, G1)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from capset.definitions.governance.hooks import NO_HOOKS, Hooks
from capset.definitions.tools.definition import AnyTool

if TYPE_CHECKING:
    from capset.kernel.call.invocation import Invocation

Phase = Literal["identify", "authorize", "arguments", "admit", "run", "result"]
"""A part of the pipeline. After the last phase, or the one that ended the call, the outcome is recorded."""

PHASES: Final[tuple[Phase, ...]] = get_args(Phase)
"""All phases, in the order in which a call goes through them."""
ACCESS_PHASES: Final[tuple[Phase, ...]] = ("identify", "authorize")
"""The phases that precede every other refusal, so that none reveals anything about a tool that a caller may not use."""
REPEATED_PHASES: Final[tuple[Phase, ...]] = ("identify", "authorize", "arguments")
"""The phases that a call repeats after it has waited for its approval, or after its arguments were changed."""

Step = Callable[["Invocation"], Awaitable[None] | None]
"""A stage's work on one call: changes the call, or raises to refuse it. Returns an awaitable only if it suspends."""


@dataclass(frozen=True, eq=False, slots=True)
class PlainCall:
    """The steps up to the handler in one function, for calls that no step refuses or suspends (``plain_calls``)."""

    phases: Mapping[Phase, tuple[Step, ...]]
    """The phases that it was compiled from."""
    begin: Callable[[Invocation], Awaitable[Any] | None]
    """Take the steps up to the handler, and return an awaitable of its result, or ``None`` if no step was taken."""
    after: tuple[Step, ...]
    """The steps after the handler."""


@dataclass(frozen=True, eq=False, slots=True)
class CompiledTool:
    """The steps that calls of one tool need, by phase; compiled once, by ``compile_tools``."""

    name: str
    tool: AnyTool | None
    capability: str | None
    hash: str | None
    has_side_effects: bool
    phases: Mapping[Phase, tuple[Step, ...]]
    hooks: Hooks = NO_HOOKS
    may_ask: bool = False
    """Whether its calls may need an approval, which is then the first step of the phase ``admit``."""
    plain: PlainCall | None = None
    """The shortcut for plain calls; ``None`` if ``phases`` are not those that it was compiled from."""
    kind: Literal["command", "query"] = field(init=False)
    """The kind of message that calls it: a query if it only reads."""
    steps: tuple[Step, ...] = field(init=False)
    """The steps of all phases, in order."""

    def __post_init__(self) -> None:
        only_reads = self.tool is not None and not self.has_side_effects
        object.__setattr__(self, "kind", "query" if only_reads else "command")
        object.__setattr__(self, "steps", self.steps_of(PHASES))
        if self.plain is not None and self.plain.phases is not self.phases:
            object.__setattr__(self, "plain", None)

    def steps_of(self, phases: Iterable[Phase]) -> tuple[Step, ...]:
        """Return the steps of some phases, in their order."""
        return tuple(step for phase in phases for step in self.phases.get(phase, ()))

    @property
    def approval_steps(self) -> tuple[Step, ...]:
        """The step that obtains the approval of a call, if its calls may need one."""
        return self.phases["admit"][:1] if self.may_ask else ()

    @property
    def own_name(self) -> str | None:
        """``CAPABILITY.TOOL`` with the capability's own name for the tool, not the agent's; ``None`` without a tool."""
        return None if self.tool is None else f"{self.capability}.{self.tool.name}"

    @property
    def type(self) -> str:
        """The type of its messages: a processor's own, else the name that it is called by."""
        contract = self.tool and self.tool.contract
        return self.name if contract is None else contract.type


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class CompiledTools:
    """The compiled tools of a composition: by tool, and by name (``tool`` or ``capability.tool``)."""

    by_tool: Mapping[AnyTool, CompiledTool]
    by_name: Mapping[str, CompiledTool]


async def run_phases(call: Invocation, phases: Iterable[Phase] = PHASES) -> None:
    """Take the steps of some phases of a call, in order. Raises the error that refuses the call."""
    for step in call.compiled.steps_of(phases):
        pending = step(call)
        if pending is not None:
            await pending
