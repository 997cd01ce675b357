"""Turns and their events on the wire (spec 5, P10).

Events contain types, ids and a turn's output. The arguments and results of its calls are in the records, which
``record`` refers to, and in the session's files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field
from pydantic_core import from_json, to_json

from capset.definitions.governance.approvals import ApprovalRow
from capset.definitions.governance.hooks import ToolExecuted
from capset.errors import CapsetError, StoreError
from capset.kernel.governance.approvals import to_event_data
from capset.stores.base import EventRow, MessagePage, MessageRow, NewEvent
from capset.wire.errors import error_shape
from capset.wire.shapes import Shape, StrictShape

ENDINGS: Final = ("turn.ended", "turn.failed", "turn.cancelled")
"""The types of a turn's last event."""


class TurnInput(StrictShape):
    """The message to an agent: any JSON that its runner accepts."""

    content: Any


class ForkInput(StrictShape):
    """The last turn to copy to the new session's conversation; if absent, everything is copied."""

    turn: Annotated[str, Field(max_length=200)] | None = None


class RewindInput(StrictShape):
    """The turn to remove, together with all later ones."""

    turn: Annotated[str, Field(max_length=200)]


class RewoundShape(Shape):
    """The number of removed messages."""

    removed: int


class TurnShape(Shape):
    """A turn that has begun. Its events have numbers greater than ``after``, and are at the path ``events``."""

    turn: str
    session: str
    after: int
    events: str


class EventShape(Shape):
    """An event of a turn. ``seq`` counts the session's events; ``at`` is ISO 8601 UTC.

    The guide on turns lists the types; later versions may add more.
    """

    seq: int
    turn: str
    type: str
    at: str
    data: dict[str, Any]


class ConversationMessageShape(Shape):
    """A message of a conversation, in the format of the runner that stored it. ``seq`` counts the session's messages.

    ``kind`` is ``message``, ``summary`` for one that replaces all earlier ones, or ``inner`` for a message of an agent
    that runs within a call of the turn; ``within`` names the call and the agent.
    """

    seq: int
    turn: str
    kind: Literal["message", "summary", "inner"]
    at: str
    message: Any
    within: str | None = None


class ConversationPageShape(Shape):
    """A page of messages in order. ``total`` is the number of all messages, ``next`` the ``after`` of the next page."""

    items: list[ConversationMessageShape]
    total: int
    next: int | None


class GapShape(Shape):
    """A gap: the events after number ``after``, up to ``last``, no longer exist."""

    after: int
    last: int


def event_shape(row: EventRow) -> EventShape:
    """Return the wire shape of an event. Raises ``StoreError`` if it was altered."""
    return EventShape(seq=row.seq, turn=row.turn, type=row.type, at=row.created_at, data=_parsed(row, "event"))


def _parsed(row: EventRow | MessageRow, noun: str) -> Any:  # JSON
    try:
        return from_json(row.data)
    except ValueError:
        raise StoreError(f"the {noun} {row.seq} of the session {row.session} was changed: it is not JSON") from None


def _message_shape(row: MessageRow) -> ConversationMessageShape:
    message, within = _parsed(row, "message"), None
    if row.kind == "inner":
        message, within = message["message"], message["within"]
    return ConversationMessageShape(
        seq=row.seq, turn=row.turn, kind=row.kind, at=row.created_at, message=message, within=within
    )


def conversation_page_shape(page: MessagePage) -> ConversationPageShape:
    """Return the wire shape of a page of messages. Raises ``StoreError`` if one was altered."""
    items = [_message_shape(row) for row in page.items]
    last = items[-1].seq if items else page.count
    return ConversationPageShape(items=items, total=page.count, next=last if last < page.count else None)


def started_event(agent: str, version: int | None, runtime_hash: str) -> NewEvent:
    """Return the first event of a turn."""
    return _event("turn.started", {"agent": agent, "agent_version": version, "runtime_hash": runtime_hash})


def executed_event(execution: ToolExecuted) -> NewEvent:
    """Return the event of a call that was allowed and has ended."""
    code = execution.error.code if execution.error is not None else None
    data = {"tool": execution.name, "record": execution.record, "success": code is None, "code": code}
    return _event("tool.executed", {**data, "duration_us": execution.duration_us})


def requested_event(row: ApprovalRow) -> NewEvent:
    """Return the event of an approval request that a turn waits for, with everything that approvers need to know."""
    return _event("approval.requested", {**to_event_data(row), "tool_hash": row.tool_hash, "record": row.call})


def suspended_event(approvals: Sequence[str], calls: Mapping[str, str]) -> NewEvent:
    """Return the event of a turn that waits for approvals and continues once they are decided.

    ``calls`` maps the model's ids of the waiting calls to their requests.
    """
    return _event("turn.suspended", {"approvals": list(approvals), "calls": dict(calls)})


def resumed_event(approvals: Sequence[str], before: str, after: str, takeovers: int) -> NewEvent:
    """Return the event of a turn that continues, after approvals or after the death of its process.

    ``before`` and ``after`` are the runtime hashes. If they differ, the tools in play have changed. ``before`` is
    ``""`` if it is unknown.
    """
    changed = before not in ("", after)
    data = {"approvals": list(approvals), "takeovers": takeovers, "runtime_hash": after, "changed": changed}
    return _event("turn.resumed", data)


def retried_event() -> NewEvent:
    """Return the event of a turn that is retried after a temporary failure."""
    return _event("turn.retried", {})


def discarded_event(newest: Sequence[EventRow]) -> NewEvent | None:
    """Return the event that discards the text of an interrupted answer, or ``None`` if there is none.

    ``newest`` are the newest events of the turn. The turn continues by requesting the whole answer again.
    """
    relevant = [row for row in newest if row.type not in ("turn.failed", "turn.retried")]
    if not relevant or relevant[-1].type not in ("text.delta", "reasoning.delta"):
        return None
    return _event("text.discarded", {"step": from_json(relevant[-1].data)["step"]})


def cancelled_event(by: str) -> NewEvent:
    """Return the last event of a cancelled turn, with who cancelled it."""
    return _event("turn.cancelled", {"by": by})


def ended_event(output: Any, file: str | None = None) -> NewEvent:  # JSON data
    """Return the last event of a turn. If its output was truncated, ``file`` has all of it, if it could be stored.

    Raises ``ValueError`` for output that JSON cannot represent.
    """
    return _event("turn.ended", {"output": output} if file is None else {"output": output, "file": file})


def failed_event(error: CapsetError, correlation: str | None = None) -> NewEvent:
    """Return the last event of a failed turn. Its error's invalid fields are omitted."""
    shape = error_shape(error)
    short = shape.message.encode(errors="replace").decode()[:2_000]  # characters, to keep events small
    shape = shape.model_copy(update={"message": short, "fields": None, "correlation": shape.correlation or correlation})
    return _event("turn.failed", {"error": shape.plain()})


def _event(type: str, data: dict[str, Any]) -> NewEvent:
    return NewEvent(type, to_json(data).decode())
