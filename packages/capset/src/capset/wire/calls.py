"""The result of one governed call, the same object on the command line and every other interface (spec 5, P9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, cast

from pydantic import Field

from capset.definitions.calls.contents import ABSENT, ForeignResult
from capset.definitions.calls.messages import Kind, Message, Progress
from capset.errors import ApprovalRequired, CapsetError
from capset.kernel.results import Result
from capset.wire.errors import ErrorShape, Problem, error_shape
from capset.wire.shapes import Shape, StrictShape


class CallInput(StrictShape):
    """A call of a tool, named ``tool`` or ``capability.tool``, with its arguments.

    To make a call that had to wait for approval, send it again unchanged. ``approval`` may name its request; then no
    other approval is used.
    """

    tool: Annotated[str, Field(min_length=1, max_length=200)]
    arguments: dict[str, Any] = Field(default_factory=dict[str, Any])  # of the tool's own schema
    approval: Annotated[str, Field(min_length=1, max_length=200)] | None = None


class CallShape(Shape):
    """The result of a call: ``data`` if it was a ``success``, otherwise ``error``.

    ``refused`` says that the handler was never started. ``record`` is the id of the call's record, and ``approval`` the
    id of the request that must be decided first. ``structured`` is the structured content that an MCP server returned
    in addition to ``data``, and ``note`` says how its result deviates from its declaration.
    """

    success: bool
    data: Any = None  # the tool's own output, as JSON data
    error: ErrorShape | None = None
    refused: bool | None = None
    approval: str | None = None
    structured: Any = None  # any JSON
    note: str | None = None
    record: str
    session: str
    runtime_hash: str
    prompt_hash: str

    def plain(self) -> dict[str, Any]:
        """Return plain JSON data with exactly one of ``data`` and ``error``, even if ``data`` is null."""
        ending = self.model_dump(mode="json", include={"record", "session", "runtime_hash", "prompt_hash"})
        if self.error is None:
            foreign_members = self.model_dump(mode="json", include={"structured", "note"}, exclude_none=True)
            return {"success": True, "data": self.data, **foreign_members, **ending}
        approval_member = {} if self.approval is None else {"approval": self.approval}
        return {
            "success": False,
            "error": self.error.plain(),
            "refused": bool(self.refused),
            **approval_member,
            **ending,
        }


class CallProblem(Problem):
    """The problem details of a call that was refused in its session, together with the members of ``CallShape``."""

    success: bool
    error: ErrorShape
    refused: bool
    record: str
    session: str
    runtime_hash: str
    prompt_hash: str


def call_data(result: Result[Any], data: Any, session: str) -> dict[str, Any]:
    """Return a finished call as plain JSON data, as in ``CallShape``. ``data`` is its reply's data, as JSON.

    It does not use the shape, because it is on the hot path of every interface.
    """
    ending = {
        "record": result.record,
        "session": session,
        "runtime_hash": result.runtime_hash,
        "prompt_hash": result.prompt_hash,
    }
    if result.error is None:
        foreign_members = {} if result.foreign is None else _foreign_members(result.foreign)
        return {"success": True, "data": data, **foreign_members, **ending}
    error = result.error
    approval_member = {} if (approval := approval_of(error)) is None else {"approval": approval}
    return {
        "success": False,
        "error": error_shape(error).plain(),
        "refused": result.refused,
        **approval_member,
        **ending,
    }


def _foreign_members(foreign: ForeignResult) -> dict[str, Any]:
    """Return the other members for the result of an MCP server or API: different structured content, and the note."""
    is_other = foreign.structured not in (ABSENT, None) and foreign.structured != foreign.value
    structured = {"structured": foreign.structured} if is_other else {}
    return structured if foreign.note is None else {**structured, "note": foreign.note}


def approval_of(error: CapsetError | None) -> str | None:
    """Return the id of the approval request that a call waits for, if the error is ``ApprovalRequired``."""
    return error.approval if isinstance(error, ApprovalRequired) else None


class MetaShape(Shape):
    """The metadata of a message. ``timestamp`` is ISO 8601 UTC, ``deadline`` is Unix time in seconds."""

    id: str
    timestamp: str
    correlation: str
    causation: str | None = None
    deadline: float | None = None
    traceparent: str | None = None


class MessageShape(Shape):
    """A message. The form of its data depends on the tool."""

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

    Processors choose the data of their events, so an event named ``progress`` counts only if it has a fraction.
    """
    data: object = message.data
    if message.kind != "event" or message.type != "progress" or not isinstance(data, Mapping):
        return None
    progress = cast("Mapping[str, object]", data)
    fraction, text = progress.get("fraction"), progress.get("message")
    if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not 0 <= fraction <= 1:
        return None
    return Progress(float(fraction), text if isinstance(text, str) else None)
