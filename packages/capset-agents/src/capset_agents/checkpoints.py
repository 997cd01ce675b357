"""Checkpoints of turns: the stored state from which any process can continue a turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from capset.definitions.governance.usage import usage_of
from capset.errors import StateError

FORMAT: Final = 1
"""The version of the checkpoint format. Older versions can be read; newer ones are refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCheckpoint:
    """The state of a turn. Its messages are in the conversation of its session.

    ``caller`` identifies the turn's caller, in the host's own format. ``runtime_hash`` is the hash of the tools in play
    when the turn began or was last continued.
    """

    content: Any
    """The message to the agent: any JSON."""
    correlation: str
    """The id that ties the turn to the request that began it."""
    caller: Mapping[str, Any]
    runtime_hash: str
    results: Mapping[str, str] = field(default_factory=dict[str, str])
    """Results of the newest message's tool calls, in the runner's own format, by the model's call id."""
    approvals: tuple[str, ...] = ()
    """The ids of the approval requests that the turn waits for."""
    usage: Mapping[str, float] = field(default_factory=dict[str, float])
    """The turn's usage so far, by the names of ``AgentUsage``; its budget applies to it."""
    earlier_usage: Mapping[str, float] = field(default_factory=dict[str, float])
    """The usage of earlier attempts at the turn."""
    takeovers: int = 0
    """How many times the turn was continued after its process had died."""
    seconds: float = 0.0
    """How long the turn has run so far."""
    format: Literal[1] = FORMAT

    def total_usage(self) -> Mapping[str, float]:
        """Return the usage of the turn, with what it had used before it was begun again."""
        return (usage_of(self.earlier_usage) + usage_of(self.usage)).plain()


_CHECKPOINT: Final = TypeAdapter(TurnCheckpoint)


def write_checkpoint(checkpoint: TurnCheckpoint) -> str:
    """Return a checkpoint as JSON text for the store."""
    return to_json(checkpoint).decode()


def read_checkpoint(text: str) -> TurnCheckpoint:
    """Parse a stored checkpoint.

    Raises ``StateError`` if a newer version of capset wrote it, or if it was changed.
    """
    try:
        return _CHECKPOINT.validate_json(text)
    except ValidationError as error:
        raise StateError(
            f"this turn was stored in a format that this version cannot read; it reads up to {FORMAT}",
            hint="continue it with the version of capset that stored it, or cancel it",
            status=409,
        ) from error
