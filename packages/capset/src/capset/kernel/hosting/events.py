"""Events of session hooks, and the argument of ``run``: each frozen, with the data available by then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from capset.definitions.blocks import Block
from capset.kernel.call.session import Session

Stage = Literal["start", "before_context", "context", "after_context", "open", "before_run", "run", "after_run"]
"""The stage of a turn: the hooks of that name, or merging the context, opening the session, running."""


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A turn has started: for ``on_start`` and ``on_before_context``. ``input`` is the caller's own."""

    agent: Block
    input: Any


@dataclass(frozen=True, slots=True)
class ContextMerged:
    """The context is merged, read-only: for ``on_after_context``."""

    agent: Block
    input: Any
    context: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SessionTurn:
    """One turn, about to run: for ``on_before_run``, and the argument of ``run``.

    ``session`` is the kernel's, evaluated for this turn: its calls are governed and on record.
    """

    agent: Block
    input: Any
    context: Mapping[str, Any]
    session: Session


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The turn has run and returned ``output``: for ``on_after_run``."""

    agent: Block
    input: Any
    context: Mapping[str, Any]
    session: Session
    output: Any


@dataclass(frozen=True, slots=True)
class TurnFailed:
    """The turn failed in a stage, and ``error`` is about to be raised: for ``on_error``.

    ``context`` and ``session`` are ``None`` if the turn failed before they existed.
    """

    agent: Block
    input: Any
    stage: Stage
    error: BaseException
    context: Mapping[str, Any] | None = None
    session: Session | None = None
