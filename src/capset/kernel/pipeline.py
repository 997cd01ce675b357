"""The one road: every call takes its tool's steps in order, and leaves one outcome record (spec 4, G1, G19)."""

from __future__ import annotations

import logging

from capset.errors import Cancelled, CapsetError, InternalError, StoreError
from capset.kernel.audit import Ended, outcome_of
from capset.kernel.emission import shown
from capset.kernel.invocation import Invocation

_log = logging.getLogger("capset.kernel")


async def travel(call: Invocation) -> None:
    """Take one call along its road. Afterwards ``call.error`` is set, or ``call.value`` is the result.

    Raises only what is not the call's own: a cancellation from outside, or what ends the interpreter.
    """
    call.place.world.calls += 1
    try:
        for step in call.road.steps:
            pending = step(call)
            if pending is not None:
                await pending
        call.end("succeeded")
    except CapsetError as error:
        call.error = shown(error, call)
        call.end(outcome_of(error))
    except Exception as error:
        # A defect of a stage, not of the tool: it fails this call, closed and named, and no other.
        _log.exception("the road of %r failed, correlation %s", call.road.name, call.correlation)
        call.error = InternalError("The call failed unexpectedly; the log has the details.")
        call.error.__cause__ = error
        call.end("failed")
    except BaseException:
        record_cancelled(call)
        raise
    is_durable = call.road.has_side_effects and call.decision == "allow"
    if is_durable or _append(call) is not None:
        try:
            await call.place.world.store.audit.commit(Ended(call))
        except StoreError as failure:
            # The call may have run, but nothing says so yet: its caller must know, and its intent stays open.
            call.error = shown(failure, call)
    if call.error is not None:
        call.error.correlation = call.correlation


def record_cancelled(call: Invocation) -> None:
    """Say that a call was cancelled, and put that on record. The cancellation itself is the caller's to go on with."""
    call.error = Cancelled("The call was cancelled before it ended.", correlation=call.correlation)
    call.end("cancelled")
    if (failure := _append(call)) is not None:
        _log.error("the cancelled call %s is not on record: %s", call.id, failure.message)


def _append(call: Invocation) -> StoreError | None:
    """Buffer the outcome. Return why it was not taken, if it was not: whoever can wait commits it instead."""
    try:
        call.place.world.store.audit.append(Ended(call))
    except StoreError as failure:
        return failure
    return None
