"""Turns and their events on the wire (spec 5, P10).

Events carry types, ids and a turn's output. The arguments and results of its calls are in the records, to which
``record`` refers, and in the session's files.
"""

from __future__ import annotations

from typing import Any, Final

from pydantic import ConfigDict
from pydantic_core import from_json, to_json

from capset.definitions.hooks import ToolExecuted
from capset.errors import CapsetError, StoreError
from capset.stores.base import EventRow, NewEvent
from capset.wire.errors import error_shape
from capset.wire.shapes import Shape

ENDINGS: Final = ("turn.ended", "turn.failed")
"""The types of a turn's last event."""
_MAX_MESSAGE: Final = 2_000
"""The maximum length of an error message in an event."""


class TurnInput(Shape):
    """What an agent is told: any JSON, which its runner must understand."""

    model_config = ConfigDict(strict=True)

    content: Any


class TurnShape(Shape):
    """A turn that has begun. Its events come ``after`` that number, at the path ``events``."""

    turn: str
    session: str
    after: int
    events: str


class EventShape(Shape):
    """Something that was told of a turn: ``seq`` counts the session's events, ``at`` is ISO 8601 UTC.

    The types are ``turn.started``, ``tool.executed``, ``turn.ended`` and ``turn.failed``; more may come.
    """

    seq: int
    turn: str
    type: str
    at: str
    data: dict[str, Any]


class GapShape(Shape):
    """The events after the number ``after``, up to ``last``, are not there any more."""

    after: int
    last: int


def event_shape(row: EventRow) -> EventShape:
    """Return the wire shape of an event. Raises ``StoreError`` if it was altered."""
    try:
        data: Any = from_json(row.data)
    except ValueError:
        raise StoreError(f"the event {row.seq} of the session {row.session} was changed: it is not JSON") from None
    return EventShape(seq=row.seq, turn=row.turn, type=row.type, at=row.created_at, data=data)


def started_event(agent: str, version: int | None, runtime_hash: str) -> NewEvent:
    """Return the first event of a turn."""
    return _event("turn.started", {"agent": agent, "agent_version": version, "runtime_hash": runtime_hash})


def executed_event(told: ToolExecuted) -> NewEvent:
    """Return the event of a call that was let through and has ended."""
    code = told.error.code if told.error is not None else None
    data = {"tool": told.name, "record": told.record, "success": code is None, "code": code}
    return _event("tool.executed", {**data, "duration_us": told.duration_us})


def ended_event(output: Any, file: str | None = None) -> NewEvent:  # JSON data
    """Return the last event of a turn. If its output was cut, ``file`` has the whole, where that could be stored.

    Raises ``ValueError`` for an output that JSON cannot represent.
    """
    return _event("turn.ended", {"output": output} if file is None else {"output": output, "file": file})


def failed_event(error: CapsetError, correlation: str | None = None) -> NewEvent:
    """Return the last event of a failed turn; the invalid fields of its error are omitted."""
    said = error_shape(error)
    short = said.message.encode(errors="replace").decode()[:_MAX_MESSAGE]
    said = said.model_copy(update={"message": short, "fields": None, "correlation": said.correlation or correlation})
    return _event("turn.failed", {"error": said.plain()})


def _event(type: str, data: dict[str, Any]) -> NewEvent:
    return NewEvent(type, to_json(data).decode())
