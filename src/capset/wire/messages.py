"""Messages on the wire (spec 3, K1, K3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from capset.definitions.messages import Kind, Message, Progress
from capset.wire.shapes import Shape


class MetaShape(Shape):
    """What surrounds a message; ``timestamp`` is ISO 8601 UTC, ``deadline`` Unix time in seconds."""

    id: str
    timestamp: str
    correlation: str
    causation: str | None = None
    deadline: float | None = None
    traceparent: str | None = None


class MessageShape(Shape):
    """One envelope; its data is of the tool's own shape."""

    kind: Kind
    type: str
    data: Any = None  # any JSON
    meta: MetaShape | None = None


def message_data(message: Message) -> dict[str, Any]:
    """Return a kernel message as plain JSON data, as in ``MessageShape``."""
    data = {"kind": message.kind, "type": message.type, "data": message.data}
    if (meta := message.meta) is None:
        return data
    stamp: dict[str, Any] = {"id": meta.id, "timestamp": meta.timestamp, "correlation": meta.correlation}
    if meta.causation is not None:
        stamp["causation"] = meta.causation
    if meta.deadline is not None:
        stamp["deadline"] = meta.deadline
    if meta.traceparent is not None:
        stamp["traceparent"] = meta.traceparent
    return {**data, "meta": stamp}


def progress_of(message: Message | MessageShape) -> Progress | None:
    """Return the progress that an event reports, or ``None``.

    Processors choose the data of their events: one named ``progress`` counts if it has a fraction.
    """
    data: object = message.data
    if message.kind != "event" or message.type != "progress" or not isinstance(data, Mapping):
        return None
    said = cast("Mapping[str, object]", data)
    fraction, told = said.get("fraction"), said.get("message")
    if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not 0 <= fraction <= 1:
        return None
    return Progress(float(fraction), told if isinstance(told, str) else None)
