"""The shape in which the contract sees a framework: an agent on its offline model, which makes given calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from capset import Session
from capset_frameworks.framework import Framework

Call = tuple[str, str | dict[str, Any]]
"""The name of a tool, and its arguments: an object, or a text that a model wrote."""


@dataclass(frozen=True)
class Shown:
    """What a model was shown in one step."""

    system: str
    tools: Mapping[str, Mapping[str, Any]]
    """The JSON Schema of each tool's arguments, by name."""


@dataclass(frozen=True)
class Read:
    """A result as the model read it. ``failed`` is whether the framework marked it so, if it has such a mark."""

    text: str
    failed: bool | None = None


HeldTool = Callable[[dict[str, Any], str], Awaitable[Read]]
"""Calls a tool by its arguments and the model's id of the call."""


@dataclass
class Conversation:
    """What happened in a run so far."""

    shown: list[Shown] = field(default_factory=list)
    read: list[Read] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    """The ids of capset's requests for which the framework has suspended the run, by its own means."""
    output: str | None = None
    """The model's last word, once the run has ended."""


class Driver(ABC):
    """An agent of one framework, with the tools of a session, on the framework's offline model.

    The model makes the calls of one list a step, then says "done". The ids of its calls are ``call-STEP-PLACE``, both
    from 1.
    """

    framework: ClassVar[Framework]
    misses: ClassVar[Mapping[str, str]] = {}
    """The parts of the contract that do not hold, by the names of their tests without ``test_``, and why."""
    has_own_ids: ClassVar[bool] = False
    """Whether the framework makes the ids of calls itself, so that the model's do not arrive."""

    def __init__(self, session: Session, *, defers: bool = False) -> None:
        """``defers`` suspends a run by the framework's own means where a call needs an approval."""
        self.session = session
        self.defers = defers
        self.events: list[tuple[float, str | None]] = []
        """The progress of calls that the framework passed on, where it can."""

    @abstractmethod
    async def run(self, *steps: Sequence[Call]) -> Conversation:
        """Have the model make these calls, until it is done, or the run is suspended."""

    @abstractmethod
    async def resume(self) -> Conversation:
        """Go on with a suspended run, as a user of the framework does who approved there; return all of it so far."""

    @abstractmethod
    async def take(self, name: str) -> HeldTool:
        """Return the framework's own object of a tool, to be called outside of a run: late, or twice."""

    @abstractmethod
    async def run_id(self) -> str | None:
        """Return the framework's own id of the last run or trace, which records have as their correlation."""
