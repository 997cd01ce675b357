"""Checkpoints of turns: where a turn stands, in a form from which any process can continue it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from capset.errors import StateError

FORMAT: Final = 1
"""The version of the form in which checkpoints are written. A newer one is refused, an older one is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCheckpoint:
    """Where a turn stands. Its messages are in the conversation of its session.

    ``caller`` says on whose behalf it runs, as its host wrote it; ``runtime_hash`` is that of the tools in play when it
    began or was last continued.
    """

    content: Any
    """The message to the agent: any JSON."""
    correlation: str
    """The id that ties the turn to the request that began it."""
    caller: Mapping[str, Any]
    runtime_hash: str
    results: Mapping[str, str] = field(default_factory=dict[str, str])
    """Results of tool calls of the newest message, in the runner's own form, by the model's ids of the calls."""
    approvals: tuple[str, ...] = ()
    """The requests that it waits for."""
    usage: Mapping[str, float] = field(default_factory=dict[str, float])
    """Its usage so far, by names of the runner's own."""
    takeovers: int = 0
    """How often a process went on with it after another had died."""
    seconds: float = 0.0
    """How long it has run so far."""
    format: Literal[1] = FORMAT


_CHECKPOINT: Final = TypeAdapter(TurnCheckpoint)


def write_checkpoint(checkpoint: TurnCheckpoint) -> str:
    """Return the stored form of a checkpoint: JSON text."""
    return to_json(checkpoint).decode()


def read_checkpoint(text: str) -> TurnCheckpoint:
    """Return a checkpoint from its stored form.

    Raises ``StateError`` for one that a newer version of capset wrote, or that was changed.
    """
    try:
        return _CHECKPOINT.validate_json(text)
    except ValidationError as error:
        raise StateError(
            f"this turn was stored in a form that this version does not know; it knows up to {FORMAT}",
            hint="continue it with the version of capset that stored it, or cancel it",
            status=409,
        ) from error
