"""Messages on the wire (spec 3, K1, K3)."""

from __future__ import annotations

from typing import Any

from capset.definitions.messages import Kind, Message
from capset.wire.shapes import Shape


class MetaShape(Shape):
    """What surrounds a message; ``timestamp`` is ISO 8601 UTC."""

    id: str
    timestamp: str
    correlation: str
    causation: str | None = None


class MessageShape(Shape):
    """One envelope; its data is of the tool's own shape."""

    kind: Kind
    type: str
    data: Any = None  # any JSON
    meta: MetaShape | None = None


def message_data(message: Message) -> dict[str, Any]:
    """Return a message of the kernel's as plain JSON data, as ``MessageShape`` says."""
    data = {"kind": message.kind, "type": message.type, "data": message.data}
    if (meta := message.meta) is None:
        return data
    stamp = {"id": meta.id, "timestamp": meta.timestamp, "correlation": meta.correlation}
    if meta.causation is not None:
        stamp["causation"] = meta.causation
    return {**data, "meta": stamp}
