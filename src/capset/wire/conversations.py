"""The conversation before a request for an approval, as its approver may read it (spec 5, P60)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, Literal, cast

from pydantic_core import from_json

from capset.definitions.secrets import mask_urls
from capset.errors import StoreError
from capset.kernel.governance.audit import redacted
from capset.kernel.governance.redaction import Redactor
from capset.stores.base import MessageRow
from capset.wire.shapes import Shape

EntryKind = Literal["instructions", "user", "agent", "reasoning", "call", "result", "summary", "other"]
MAX_TEXT: Final = 2_000
"""The maximum characters of an entry's text."""
_PARSED_BYTES: Final = 1024 * 1024
"""The size of a message that is read part by part, and of a text in it that is read as JSON."""
_KINDS: Final[Mapping[str, EntryKind]] = {
    "system-prompt": "instructions",
    "user-prompt": "user",
    "text": "agent",
    "thinking": "reasoning",
    "tool-call": "call",
    "builtin-tool-call": "call",
    "tool-return": "result",
    "builtin-tool-return": "result",
    "retry-prompt": "result",
}


class ConversationEntryShape(Shape):
    """A part of a message: what a person, the agent or a tool has said, with secrets masked, and cut off if it is long.

    Of a ``call`` there is the name of its ``tool`` alone: its arguments are in its record. ``within`` names the call
    and the agent for messages of an agent within a call. ``other`` is a message whose form is not known here.
    """

    seq: int
    turn: str
    at: str
    kind: EntryKind
    text: str | None = None
    tool: str | None = None
    within: str | None = None


class ApprovalConversationShape(Shape):
    """The end of the conversation that led to a request, in order; ``earlier`` counts the messages before it."""

    items: list[ConversationEntryShape]
    earlier: int


def conversation_entries(row: MessageRow, redact: Redactor | None) -> list[ConversationEntryShape]:
    """Return the entries of a message. Raises ``StoreError`` if it was altered."""
    if len(row.data) > _PARSED_BYTES:
        found: list[tuple[EntryKind, str | None, str | None]] = [("other", None, f"{len(row.data):,} characters")]
        within = None
    else:
        try:
            message: Any = from_json(row.data)
        except ValueError:
            raise StoreError(f"the message {row.seq} of the session {row.session} was changed: no JSON") from None
        within = message["within"] if row.kind == "inner" else None
        found = [*_parts(message["message"] if row.kind == "inner" else message, redact)]
    return [
        ConversationEntryShape(
            seq=row.seq,
            turn=row.turn,
            at=row.created_at,
            kind="summary" if row.kind == "summary" and kind == "user" else kind,
            text=text,
            tool=tool,
            within=within,
        )
        for kind, tool, text in found
    ]


def _parts(message: Any, redact: Redactor | None) -> Iterator[tuple[EntryKind, str | None, str | None]]:  # JSON data
    """Yield the kind, the tool and the text of each part of a message, as the runner of agents stores it."""
    parts = cast("dict[str, object]", message).get("parts") if isinstance(message, dict) else None
    if not isinstance(parts, list):
        yield "other", None, _text(cast("object", message), redact)
        return
    for part in cast("list[object]", parts):
        one = cast("dict[str, object]", part) if isinstance(part, dict) else {}
        kind = _KINDS.get(str(one.get("part_kind")))
        if kind is None:
            continue  # such as settings of the model, which say nothing to anybody
        name = one.get("tool_name")
        tool = None if name is None else _text(name, redact)
        yield kind, tool, None if kind == "call" else _text(_said(one.get("content")), redact)


def _said(content: object) -> object:
    """Return what a person wrote as text, with a word in the place of media."""
    items = cast("list[object]", content) if isinstance(content, list) else []
    if not any(isinstance(one, str) for one in items):
        return cast("object", content)
    return "\n".join(one if isinstance(one, str) else f"[{_medium(one)}]" for one in items)


def _medium(item: object) -> str:
    return str(cast("dict[str, object]", item).get("kind", "media")) if isinstance(item, dict) else "media"


def _text(value: object, redact: Redactor | None) -> str:
    """Return data as text with secrets masked: also those in JSON that is within a text."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "[") and len(value) <= _PARSED_BYTES:
        with suppress(ValueError):  # a text that only begins like JSON
            value = from_json(value)
    masked = value if redact is None else redact(value)
    masked = mask_urls(masked) if isinstance(masked, str) else json.dumps(redacted(masked), ensure_ascii=False)
    left = len(masked) - MAX_TEXT
    return f"{masked[:MAX_TEXT]}… [{left:,} more characters]" if left > 0 else masked
