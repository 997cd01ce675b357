"""Turns and their events on the wire (spec 5, P10).

Events carry types, ids and a turn's output. The arguments and results of its calls are in the records, to which
``record`` refers, and in the session's files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field
from pydantic_core import from_json, to_json

from capset.definitions.governance.approvals import ApprovalRow
from capset.definitions.governance.hooks import ToolExecuted
from capset.errors import CapsetError, StoreError
from capset.kernel.governance.approvals import to_event_data
from capset.stores.base import EventRow, MessagePage, MessageRow, NewEvent
from capset.wire.errors import error_shape
from capset.wire.shapes import Shape

ENDINGS: Final = ("turn.ended", "turn.failed", "turn.cancelled")
"""The types of a turn's last event."""
_MAX_MESSAGE: Final = 2_000
"""The maximum length of an error message in an event."""


class TurnInput(Shape):
    """What an agent is told: any JSON, which its runner must understand."""

    model_config = ConfigDict(strict=True)

    content: Any


class ForkInput(Shape):
    """The turn with whose end the conversation of the new session ends; all of it if left out."""

    model_config = ConfigDict(strict=True)

    turn: Annotated[str, Field(max_length=200)] | None = None


class RewindInput(Shape):
    """The turn that is taken back, with all after it."""

    model_config = ConfigDict(strict=True)

    turn: Annotated[str, Field(max_length=200)]


class RewoundShape(Shape):
    """The number of messages that were removed."""

    removed: int


class TurnShape(Shape):
    """A turn that has begun. Its events come ``after`` that number, at the path ``events``."""

    turn: str
    session: str
    after: int
    events: str


class EventShape(Shape):
    """Something that was told of a turn: ``seq`` counts the session's events, ``at`` is ISO 8601 UTC.

    The types are in the guide of turns; more may come.
    """

    seq: int
    turn: str
    type: str
    at: str
    data: dict[str, Any]


class ConversationMessageShape(Shape):
    """A message of a conversation, in the form of the runner that stored it: ``seq`` counts the session's messages.

    ``kind`` is ``message``, ``summary`` for one that stands for all before it, or ``inner`` for one of an agent that
    works within a call of the turn: ``within`` names the call and the agent.
    """

    seq: int
    turn: str
    kind: Literal["message", "summary", "inner"]
    at: str
    message: Any
    within: str | None = None


class ConversationPageShape(Shape):
    """Some messages in order; ``total`` is the number of all, ``next`` the ``after`` of the next page."""

    items: list[ConversationMessageShape]
    total: int
    next: int | None


class GapShape(Shape):
    """The events after the number ``after``, up to ``last``, are not there any more."""

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
    """Return the event of a call that was let through and has ended."""
    code = execution.error.code if execution.error is not None else None
    data = {"tool": execution.name, "record": execution.record, "success": code is None, "code": code}
    return _event("tool.executed", {**data, "duration_us": execution.duration_us})


def requested_event(row: ApprovalRow) -> NewEvent:
    """Return the event of a request for an approval that a turn waits for: everything an approver has to know."""
    return _event("approval.requested", {**to_event_data(row), "tool_hash": row.tool_hash, "record": row.call})


def suspended_event(approvals: Sequence[str], calls: Mapping[str, str]) -> NewEvent:
    """Return the event of a turn that waits for approvals; it goes on once they are decided.

    ``calls`` has the request of each of the model's calls that wait, by the model's id of the call.
    """
    return _event("turn.suspended", {"approvals": list(approvals), "calls": dict(calls)})


def resumed_event(approvals: Sequence[str], before: str, after: str, takeovers: int) -> NewEvent:
    """Return the event of a turn that goes on, after these approvals, or after its process has died.

    ``before`` and ``after`` are the runtime hashes: other ones mean that the tools in play have changed. ``before`` is
    ``""`` where it is not known.
    """
    changed = before not in ("", after)
    data = {"approvals": list(approvals), "takeovers": takeovers, "runtime_hash": after, "changed": changed}
    return _event("turn.resumed", data)


def retried_event() -> NewEvent:
    """Return the event of a turn that had failed for the moment, and is taken up again."""
    return _event("turn.retried", {})


def discarded_event(newest: Sequence[EventRow]) -> NewEvent | None:
    """Return the event that takes back what was told of an answer that broke off, if the newest of a turn are of one.

    The turn goes on by asking for the whole answer again.
    """
    relevant = [row for row in newest if row.type not in ("turn.failed", "turn.retried")]
    if not relevant or relevant[-1].type not in ("text.delta", "reasoning.delta"):
        return None
    return _event("text.discarded", {"step": from_json(relevant[-1].data)["step"]})


def cancelled_event(by: str) -> NewEvent:
    """Return the last event of a turn that was cancelled, and by whom."""
    return _event("turn.cancelled", {"by": by})


def ended_event(output: Any, file: str | None = None) -> NewEvent:  # JSON data
    """Return the last event of a turn. If its output was cut, ``file`` has the whole, where that could be stored.

    Raises ``ValueError`` for an output that JSON cannot represent.
    """
    return _event("turn.ended", {"output": output} if file is None else {"output": output, "file": file})


def failed_event(error: CapsetError, correlation: str | None = None) -> NewEvent:
    """Return the last event of a failed turn; the invalid fields of its error are omitted."""
    shape = error_shape(error)
    short = shape.message.encode(errors="replace").decode()[:_MAX_MESSAGE]
    shape = shape.model_copy(update={"message": short, "fields": None, "correlation": shape.correlation or correlation})
    return _event("turn.failed", {"error": shape.plain()})


def _event(type: str, data: dict[str, Any]) -> NewEvent:
    return NewEvent(type, to_json(data).decode())
