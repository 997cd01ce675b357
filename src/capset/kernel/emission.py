"""What a call says while it runs and when it ends, as messages stamped by the kernel (spec 3, K10, K11)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from capset.clock import iso
from capset.definitions.messages import Kind, Message, Meta
from capset.errors import ApprovalRequired, CapsetError, ConsumerTimeout, StoreError
from capset.ids import time_of
from capset.kernel.channel import Turn
from capset.kernel.invocation import MISSING, Invocation

_UNAVAILABLE: Final = "The store is not available; the log has the details."
_log = logging.getLogger("capset.kernel")


class Emitted(Message):
    """A message of a call's. Its ``meta`` is written out when somebody reads it: most of a million nobody does."""

    __slots__ = ("_call", "_mark", "_meta")

    @property
    def meta(self) -> Meta | None:
        """What the kernel stamped it with when it was emitted."""
        try:
            return self._meta
        except AttributeError:
            object.__setattr__(self, "_meta", _meta(self._call, self._mark))
            return self._meta

    @meta.setter
    def meta(self, value: Meta | None) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]  # it is a field still
        object.__setattr__(self, "_meta", value)  # of a copy, which has what it is given

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        mine, others = (self.kind, self.type, self.data), (other.kind, other.type, other.data)
        return mine == others and self.meta == other.meta

    def __hash__(self) -> int:
        return hash((self.kind, self.type, self.meta))


# A frozen dataclass sets its fields one by one through ``object``, which takes three times as long as its slots do.
_set_kind, _set_type, _set_data = (vars(Message)[name].__set__ for name in ("kind", "type", "data"))
_set_call, _set_mark = (vars(Emitted)[name].__set__ for name in ("_call", "_mark"))
_new = object.__new__


def emitted(call: Invocation, kind: Kind, type: str, data: Any) -> Message:
    """Return a message of a call, stamped with the moment and an id."""
    redactor = call.place.world.redactor
    if redactor is not None:
        data = redactor(data)
    message = _new(Emitted)
    _set_kind(message, kind)
    _set_type(message, type)
    _set_data(message, data)
    _set_call(message, call)
    _set_mark(message, call.place.world.mark())
    return message


def _meta(call: Invocation, mark: int) -> Meta:
    causation = call.causation or call.id
    stamped = iso(time_of(mark))
    return Meta(call.place.world.ids.text(mark), stamped, call.correlation, causation, None, call.traceparent)


async def emit_event(call: Invocation, type: str, data: Any) -> None:
    """Send one event, and return when its consumer has room. Nobody listening is no error."""
    call.has_emitted = True
    if call.lane is None:
        await unheard(call)
    elif (turn := call.lane.offer(emitted(call, "event", type, data))) is not None:
        await wait_for_consumer(call, turn)


async def unheard(call: Invocation) -> None:
    """Count an event that nobody listens to. Every hundredth lets others run: nothing else makes its sender wait."""
    call.unheard += 1
    if not call.unheard % 100:
        await asyncio.sleep(0)


async def wait_for_consumer(call: Invocation, turn: Turn) -> None:
    """Wait until a call's consumer has room.

    The tool's own timeout stands still meanwhile; a deadline from outside does not (K16). Raises ``ConsumerTimeout``
    when the consumer lets it wait for too long.
    """
    scope = call.scope
    call.blocked += 1
    if scope is not None and call.blocked == 1 and (end := scope.when()) is not None and not scope.expired():
        call.time_left = end - asyncio.get_running_loop().time()
        scope.reschedule(call.deadline)
    try:
        if call.consumer_timeout is None:
            await turn
        else:
            await _patiently(call, turn, call.consumer_timeout)
    finally:
        call.blocked -= 1
        if scope is not None and not call.blocked and call.time_left is not None:
            if call.scope is scope and not scope.expired():
                end = asyncio.get_running_loop().time() + call.time_left
                scope.reschedule(end if call.deadline is None else min(end, call.deadline))
            call.time_left = None


async def _patiently(call: Invocation, turn: Turn, seconds: float) -> None:
    loop, lane = asyncio.get_running_loop(), call.lane
    began = loop.time()
    try:
        while not turn.done():
            # While a consumer takes others' messages, it is not stalled.
            moved = lane.moved if lane is not None else 0.0
            left = max(began, moved) + seconds - loop.time()
            if left <= 0:
                call.stalled = ConsumerTimeout(
                    f"The consumer of {call.road.name!r} took nothing for {seconds:g} s, so it was ended."
                )
                raise call.stalled
            await asyncio.wait({turn}, timeout=left)
        await turn
    finally:
        turn.cancel()


def shown(error: CapsetError, call: Invocation) -> CapsetError:
    """Return an error as the caller may see it: what a store says of itself, such as its path, is for the log."""
    if not isinstance(error, StoreError) or error.message == _UNAVAILABLE:
        return error
    _log.error("the store failed %r, correlation %s: %s", call.road.name, call.correlation, error.message)
    safe = StoreError(_UNAVAILABLE, hint=error.message)
    safe.__cause__ = error
    return safe


def outcome_message(call: Invocation) -> Message | None:
    """Return the reply or the error that ends a call, or ``None`` if it succeeded without either."""
    if call.error is not None:
        return emitted(call, "error", call.road.type, error_data(call.error))
    if call.value is MISSING:
        return None
    return emitted(call, "reply", call.reply_type or call.road.type, call.data)


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
    if error.fields:
        data["fields"] = [
            {"path": field.path, "expected": field.expected}
            | ({"did_you_mean": field.did_you_mean} if field.did_you_mean else {})
            for field in error.fields
        ]
    return data
