"""Messages of the pipeline: commands and queries in; events, replies and errors out (spec 3, K1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, cast

from pydantic import BaseModel
from typing_extensions import TypeVar

from capset.errors import DefinitionError

Kind = Literal["command", "query", "event", "reply", "error"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Meta:
    """The metadata of a message. ``timestamp`` is ISO 8601 UTC; ``deadline`` is Unix time in seconds.

    ``correlation`` and ``traceparent`` (W3C Trace Context) carry over to all messages that result from this one.
    """

    id: str
    timestamp: str
    correlation: str
    causation: str | None = None
    deadline: float | None = None
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One message. ``type`` names the tool of a command or query, otherwise the type of the emission.

    ``data`` is ``Any`` because each tool defines its shape: it is checked against the tool's schemas on the way in and
    on the way out. Leave ``meta`` out of a message that you send: the kernel fills it in.
    """

    kind: Kind
    type: str
    data: Any = None
    meta: Meta | None = None


@dataclass(frozen=True, slots=True)
class Json:
    """Arguments that arrived as JSON text, unparsed: they are validated in strict JSON mode."""

    text: bytes


@dataclass(frozen=True, slots=True)
class Progress:
    """An event of a streaming tool: its progress from 0.0 to 1.0, and its current activity."""

    fraction: float
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    """The result of a streaming tool. Nothing may follow it."""

    data: T


def message_of(instance: object) -> Message:
    """Return a ``Message``, or convert an instance of a message model. Raises ``DefinitionError`` otherwise."""
    if isinstance(instance, Message):
        return instance
    kind, type_, data = (getattr(instance, name, None) for name in ("kind", "type", "data"))
    if not isinstance(instance, BaseModel) or not isinstance(kind, str) or not isinstance(type_, str):
        raise DefinitionError(
            f"expected a message; got {instance!r:.80}",
            hint="give a Message('command', 'the.type', {…}), or an instance of the model that declares it",
        )
    return Message(cast("Kind", kind), type_, data)


def message_schema(kind: Kind, type: str, description: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a message whose data has this schema."""
    inner = {key: value for key, value in data.items() if key != "$defs"}
    schema: dict[str, Any] = {
        "type": "object",
        "description": description,
        "properties": {"kind": {"const": kind}, "type": {"const": type}, "data": inner},
        "required": ["data", "kind", "type"],
    }
    # References are relative to the root of the schema, so their definitions stay there.
    return {**schema, "$defs": data["$defs"]} if "$defs" in data else schema


def progress_schema() -> dict[str, Any]:
    """Return the JSON Schema of the message that a ``Progress`` becomes."""
    fraction = {"type": "number", "minimum": 0, "maximum": 1}
    message = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    data = {"type": "object", "properties": {"fraction": fraction, "message": message}}
    return message_schema("event", "progress", "How far it has come, and what it is doing.", data)
