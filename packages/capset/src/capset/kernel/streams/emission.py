"""The messages that a call emits while it runs and when it ends, stamped by the kernel (spec 3, K10, K11)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, cast

from pydantic import BaseModel

from capset.clock import iso
from capset.definitions.calls.messages import Kind, Message, Meta
from capset.definitions.tools.contracts import Contract
from capset.errors import (
    ApprovalRequired,
    CapsetError,
    ConnectionRequired,
    ConsumerTimeout,
    Field,
    InvalidOutput,
    StoreError,
    ToolError,
)
from capset.ids import time_of
from capset.kernel.call.invocation import MISSING, CallStream, Invocation
from capset.kernel.streams.channel import Turn
from capset.schemas.strict_json import MAX_INTEGER
from capset.schemas.validation_errors import VALIDATION_ERRORS, validation_fields


def stream_of(call: Invocation) -> CallStream:
    """Return the stream of a call, created on first use."""
    if call.stream is None:
        call.stream = CallStream()
    return call.stream


_log = logging.getLogger("capset.kernel")


class EmittedMessage(Message):
    """A message of a call. ``meta`` is built on first access, since most messages never need it."""

    __slots__ = ("_call", "_mark", "_meta")

    @property
    def meta(self) -> Meta | None:
        """The metadata that the kernel stamped at emission."""
        try:
            return self._meta
        except AttributeError:
            object.__setattr__(self, "_meta", _meta(self._call, self._mark))
            return self._meta

    @meta.setter
    def meta(self, value: Meta | None) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]  # still a field
        object.__setattr__(self, "_meta", value)  # a copy is created with its own

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        is_same = (self.kind, self.type, self.data) == (other.kind, other.type, other.data)
        return is_same and self.meta == other.meta

    def __hash__(self) -> int:
        return hash((self.kind, self.type, self.meta))


# A frozen dataclass sets each field through ``object.__setattr__``, which takes three times as long as its slot.
_set_kind, _set_type, _set_data = (vars(Message)[name].__set__ for name in ("kind", "type", "data"))
_set_call, _set_mark = (vars(EmittedMessage)[name].__set__ for name in ("_call", "_mark"))
_new = object.__new__


def create_message(call: Invocation, kind: Kind, type: str, data: Any) -> Message:
    """Return a message of a call, stamped with the time and an id."""
    redactor = call.context.runtime.redactor
    if redactor is not None:
        data = redactor(data)
    message = _new(EmittedMessage)
    _set_kind(message, kind)
    _set_type(message, type)
    _set_data(message, data)
    _set_call(message, call)
    _set_mark(message, call.context.runtime.mark())
    return message


def _meta(call: Invocation, mark: int) -> Meta:
    causation = call.causation or call.id
    stamped = iso(time_of(mark))
    return Meta(
        call.context.runtime.ids.text(mark),
        stamped,
        call.correlation,
        causation,
        None,
        call.span or call.options.traceparent,
    )


def has_consumer(call: Invocation) -> bool:
    """Return whether a consumer or a listener receives the events of a call."""
    stream = call.stream
    return stream is not None and (stream.channel is not None or stream.listener is not None)


async def emit_event(call: Invocation, type: str, data: Any) -> None:
    """Send an event of a handler, and wait until its consumer has room. The call is not retried after that."""
    stream_of(call).has_emitted = True
    await announce(call, type, data)


async def announce(call: Invocation, type: str, data: Any) -> None:
    """Send an event of the kernel, and wait until its consumer, if there is one, has room."""
    stream = stream_of(call)
    if stream.channel is None:
        await emit_without_consumer(call, stream, type, data)
    elif (turn := stream.channel.offer(create_message(call, "event", type, data))) is not None:
        await wait_for_consumer(call, stream, turn)


async def emit_without_consumer(call: Invocation, stream: CallStream, type: str, data: Any) -> None:
    """Count an event without a consumer, and pass it to the listener, if there is one.

    Yields to other tasks at every hundredth event, since nothing else makes the sender wait.
    """
    if stream.listener is not None:
        stream.listener(create_message(call, "event", type, data))
    stream.unconsumed += 1
    if not stream.unconsumed % 100:
        await asyncio.sleep(0)


async def wait_for_consumer(call: Invocation, stream: CallStream, turn: Turn) -> None:
    """Wait until a call's consumer has room.

    The tool's own timeout is paused during the wait; the caller's deadline is not (K16). Raises ``ConsumerTimeout`` if
    the consumer takes too long.
    """
    scope, deadline, patience = call.scope, call.options.deadline, call.options.consumer_timeout
    stream.blocked_emissions += 1
    if (
        scope is not None
        and stream.blocked_emissions == 1
        and (end := scope.when()) is not None
        and not scope.expired()
    ):
        stream.time_left = end - asyncio.get_running_loop().time()
        scope.reschedule(deadline)
    try:
        if patience is None:
            await turn
        else:
            await _wait_with_timeout(call, stream, turn, patience)
    finally:
        stream.blocked_emissions -= 1
        if scope is not None and not stream.blocked_emissions and stream.time_left is not None:
            if call.scope is scope and not scope.expired():
                end = asyncio.get_running_loop().time() + stream.time_left
                scope.reschedule(end if deadline is None else min(end, deadline))
            stream.time_left = None


async def _wait_with_timeout(call: Invocation, stream: CallStream, turn: Turn, seconds: float) -> None:
    loop, channel = asyncio.get_running_loop(), stream.channel
    start = loop.time()
    try:
        while not turn.done():
            # A consumer that takes other messages is not stalled.
            moved = channel.moved_at if channel is not None else 0.0
            remaining = max(start, moved) + seconds - loop.time()
            if remaining <= 0:
                stream.consumer_error = ConsumerTimeout(
                    f"The consumer of {call.compiled.name!r} read nothing for {seconds:g} s, so the call was ended."
                )
                raise stream.consumer_error
            await asyncio.wait({turn}, timeout=remaining)
        await turn
    finally:
        turn.cancel()


def hide_store_details(error: CapsetError, call: Invocation) -> CapsetError:
    """Return an error as shown to the caller. A store's own message may contain its path, so it is only logged."""
    if not isinstance(error, StoreError) or error.message == error.public:
        return error
    _log.error("the store failed for %r, correlation %s: %s", call.compiled.name, call.correlation, error.message)
    safe = type(error)(error.public, hint=error.message)
    safe.public, safe.__cause__ = error.public, error
    return safe


def outcome_message(call: Invocation) -> Message | None:
    """Return the reply or the error that ends a call, or ``None`` if it succeeded without either."""
    if call.error is not None:
        return create_message(call, "error", call.compiled.type, error_data(call.error))
    if call.value is MISSING:
        return None
    return create_message(call, "reply", call.reply_type or call.compiled.type, call.data)


def error_data(error: CapsetError) -> dict[str, Any]:
    """Return an error as the data of an error message (spec 3, K2)."""
    data: dict[str, Any] = {
        "code": error.code,
        "status": error.status,
        "message": error.message,
        "retryable": error.retryable,
        "correlation": error.correlation,
    }
    if error.retry_after is not None:
        data["retry_after"] = error.retry_after
    if isinstance(error, ApprovalRequired) and error.approval is not None:
        data["approval"] = error.approval
    if isinstance(error, ConnectionRequired) and error.connection is not None:
        data["connection"] = error.connection
    if error.fields:
        data["fields"] = [
            {"path": field.path, "expected": field.expected}
            | ({"did_you_mean": field.did_you_mean} if field.did_you_mean else {})
            for field in error.fields
        ]
    return data


class Emitter:
    """The ``emit`` of one processor, for its current call.

    A reply, an error or a contract violation ends that call: ``on_end`` is called, possibly more than once, and the
    processor must return soon.
    """

    __slots__ = (
        "_events",
        "_is_closed",
        "_name",
        "_on_end",
        "_replies",
        "_stream",
        "call",
        "error",
        "is_over",
        "reply",
    )

    def __init__(self, contract: Contract, on_end: Callable[[], object]) -> None:
        self._events = contract.events
        self._replies = contract.replies
        self._on_end = on_end
        self.is_over = self._is_closed = True

    def begin(self, call: Invocation) -> None:
        """Switch to ``call``."""
        self.call = call
        self._stream = stream_of(call)
        self._name = call.compiled.name
        self.reply: Any = MISSING
        self.error: CapsetError | None = None
        self.is_over = False  # no outcome yet
        self._is_closed = False

    def close(self) -> None:
        """Close the current call: what an abandoned task emits after this reaches no consumer."""
        self._is_closed = self.is_over = True

    def outcome(self) -> Any:
        """Return the reply's data, unvalidated, or ``MISSING``. Raises the error that ended the call."""
        if self.error is not None:
            raise self.error
        return self.reply

    async def __call__(self, message: BaseModel | Message, /) -> None:
        """Send one message; see ``Emit``."""
        call, stream, emission = self.call, self._stream, cast("Any", message)
        try:
            kind, type_name, data = emission.kind, emission.type, getattr(emission, "data", None)
            schema = self._events.get(type_name) if kind == "event" else None
        except (AttributeError, TypeError):
            kind, type_name, data, schema = "", "", None, None
        if self.is_over:
            raise await self._late_error()
        stream.has_emitted = True
        if schema is not None:
            try:
                data = schema.check(data)
                if not schema.is_exact:
                    data = schema.jsonable(data)
                elif isinstance(data, int) and not -MAX_INTEGER < data < MAX_INTEGER:
                    raise ValueError("the integer is too long to be written")
            except (ValueError, RecursionError) as error:
                raise self._schema_violation(type_name, data, error) from None
            if stream.channel is None:
                await emit_without_consumer(call, stream, type_name, data)
            elif (turn := stream.channel.offer(create_message(call, "event", type_name, data))) is not None:
                await self._wait(turn)
        elif kind == "reply" and isinstance(type_name, str) and type_name in self._replies:
            self._accept_reply(type_name, data)
        elif kind == "error":
            self.error = self._to_tool_error(data)
            self._end()
        elif kind:
            outbound = ", ".join(
                [f"event {name!r}" for name in self._events] + [f"reply {name!r}" for name in self._replies]
            )
            raise self._violation(
                f"emitted {kind!r:.40} {type_name!r:.100}, which is not one of its outbound messages: {outbound}"
            )
        else:
            raise self._violation(
                f"emitted {type(emission).__name__}, which is not a message; emit an instance of an outbound model"
            )

    def _accept_reply(self, name: str, data: Any) -> None:
        if len(self._replies) > 1:  # a single reply is checked by the pipeline, as for every tool
            try:
                data = self._replies[name].check(data)  # a union of all schemas might match another one
            except VALIDATION_ERRORS as error:
                raise self._schema_violation(name, data, error) from None
        self.call.reply_type, self.reply = name, data
        self._end()

    async def _wait(self, turn: Any) -> None:
        try:
            await wait_for_consumer(self.call, self._stream, turn)
        except ConsumerTimeout as error:
            self._fail(error)
            raise

    def _schema_violation(self, name: str, data: Any, error: Exception) -> InvalidOutput:
        # The output may hold confidential values, so only their paths are logged.
        fields = validation_fields(error, (), data) if isinstance(error, VALIDATION_ERRORS) else ["not valid as JSON"]
        problems = "; ".join(map(str, fields)).replace("(arguments)", "the data")
        _log.error(
            "tool %r, correlation %s: its %r does not fit: %s", self._name, self.call.correlation, name, problems
        )
        return self._violation(f"emitted a {name!r} that does not fit its schema")

    def _violation(self, violation: str) -> InvalidOutput:
        error = InvalidOutput(f"The tool {self._name!r} {violation}.")
        self._fail(error)
        return error

    def _fail(self, error: CapsetError) -> None:
        """End the call with an error, even if the processor swallows it. The first violation or timeout wins."""
        if not isinstance(self.error, InvalidOutput | ConsumerTimeout):
            self.error = error
        self._end()

    def _end(self) -> None:
        self.is_over = True
        self._on_end()

    async def _late_error(self) -> InvalidOutput:
        """Return the error for a message emitted after the outcome, or after the call was closed.

        Yields to other tasks first, so that a processor that swallows the error and keeps emitting cannot block them.
        """
        await asyncio.sleep(0)
        return self.closed_error() if self._is_closed else self._violation("emitted something after its reply")

    def closed_error(self) -> InvalidOutput:
        """Return the error for a message emitted after its call was closed. It ends no call."""
        return InvalidOutput(f"The tool {self._name!r} emitted something after its call had ended.")

    def _to_tool_error(self, data: Any) -> CapsetError:
        """Convert an emitted error to a ``ToolError``, as if the processor had raised it (K2)."""
        payload: Mapping[str, Any] = cast("Mapping[str, Any]", data) if isinstance(data, Mapping) else {}
        message = payload.get("message")
        if not isinstance(message, str) or not message:
            raise self._violation("emitted an error without a message")
        try:
            fields = [_field(field) for field in payload.get("fields", ())]
            error = ToolError(message, code=payload.get("code"), status=payload.get("status"), fields=fields)
        except (TypeError, ValueError, KeyError, AttributeError):
            raise self._violation("emitted an error with an invalid code, status or fields") from None
        error.retryable = bool(payload.get("retryable", False))
        return error


def _field(payload: Mapping[str, Any]) -> Field:
    path, expected, did_you_mean = payload["path"], payload["expected"], payload.get("did_you_mean", "")
    if not all(isinstance(text, str) for text in (path, expected, did_you_mean)):
        raise TypeError("path, expected and did_you_mean must be strings")
    return Field(path, expected, did_you_mean or None)
