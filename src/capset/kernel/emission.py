"""What a call says while it runs and when it ends, as messages stamped by the kernel (spec 3, K10, K11)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from capset.clock import iso
from capset.definitions.messages import Kind, Message, Meta
from capset.errors import CapsetError, StoreError
from capset.kernel.invocation import MISSING, Invocation

_UNAVAILABLE: Final = "The store is not available; the log has the details."
_log = logging.getLogger("capset.kernel")


async def emit_event(call: Invocation, type: str, data: Any) -> None:
    """Send one event, and return when its consumer has room. Nobody listening is no error.

    The tool's own timeout stands still while its consumer makes it wait; a deadline from outside does not (K16).
    """
    if call.sink is None:
        return
    scope, loop = call.scope, asyncio.get_running_loop()
    if scope is None or scope.when() is None:
        await call.sink(_message(call, "event", type, data))
        return
    left = (scope.when() or 0) - loop.time()
    scope.reschedule(call.deadline)
    await call.sink(_message(call, "event", type, data))
    end = loop.time() + left
    scope.reschedule(end if call.deadline is None else min(end, call.deadline))


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
        return _message(call, "error", call.road.name, error_data(call.error))
    if call.value is MISSING:
        return None
    return _message(call, "reply", call.road.name, call.data)


def _message(call: Invocation, kind: Kind, type: str, data: Any) -> Message:
    world = call.place.world
    meta = Meta(world.ids.new(), iso(world.clock.time_ns()), call.correlation, causation=call.causation)
    return Message(kind, type, data, meta)


def error_data(error: CapsetError) -> dict[str, Any]:
    """Return an error as the data of an error message (spec 3, K2)."""
    data: dict[str, Any] = {
        "code": error.code,
        "status": error.status,
        "message": error.message,
        "retryable": error.retryable,
        "correlation": error.correlation,
    }
    if error.fields:
        data["fields"] = [
            {"path": field.path, "expected": field.expected}
            | ({"did_you_mean": field.did_you_mean} if field.did_you_mean else {})
            for field in error.fields
        ]
    return data
