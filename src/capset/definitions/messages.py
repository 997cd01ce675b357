"""What travels along the road: commands and queries in; events, replies and errors out (spec 3, K1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Literal

from typing_extensions import TypeVar

Kind = Literal["command", "query", "event", "reply", "error"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Meta:
    """What surrounds a message. ``timestamp`` is ISO 8601 UTC; ``deadline`` is Unix time in seconds (spec 3, K16)."""

    id: str
    timestamp: str
    correlation: str
    causation: str | None = None
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One envelope. ``type`` names the tool of a command or query, and the sort of thing that is emitted otherwise.

    ``data`` is ``Any`` because its shape is the tool's own: it is checked against the tool's schema on the way in
    and on the way out. Leave ``meta`` out of a message that you send: the kernel fills it in.
    """

    kind: Kind
    type: str
    data: Any = None
    meta: Meta | None = None


@dataclass(frozen=True, slots=True)
class Json:
    """Arguments that arrived as JSON text, unparsed: they are validated in strict JSON mode (spec 4, G11)."""

    text: bytes


@dataclass(frozen=True, slots=True)
class Progress:
    """An event of a streaming tool: how far it has come, from 0.0 to 1.0, and what it is doing."""

    fraction: float
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    """The outcome of a streaming tool. Nothing may follow it (spec 3, K10)."""

    data: T
