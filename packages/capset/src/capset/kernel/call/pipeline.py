"""The pipeline: every call runs through its tool's steps in order, and leaves one outcome record (spec 4, G1, G19)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from capset.definitions.calls.messages import Json
from capset.definitions.calls.records import Outcome
from capset.definitions.governance.hooks import NO_HOOKS, ToolExecuted, merge_hooks
from capset.errors import (
    ApprovalVoid,
    Cancelled,
    CapsetError,
    ClientCapabilityMissing,
    ClientInputRequired,
    DeadlineExceeded,
    Field,
    InternalError,
    LimitExceeded,
    PermissionDenied,
    StoreError,
    ToolError,
    TooManyRefusals,
    TurnSuspended,
    Unauthenticated,
)
from capset.evaluation.containment import dispatch_hooks
from capset.kernel.call.compiled_tools import run_phases
from capset.kernel.call.errors import raise_contained, strip_causes
from capset.kernel.call.invocation import MISSING, NOT_VALIDATED, Invocation
from capset.kernel.governance.audit import CallEntry, outcome_of
from capset.kernel.governance.redaction import MAX_RECORDED_BYTES
from capset.kernel.named_tuples import new_tuple
from capset.kernel.revocation import Credential, RevocationWatch
from capset.kernel.runtime import KernelRuntime
from capset.kernel.streams.emission import hide_store_details
from capset.kernel.telemetry.observers import notify_detach, notify_end, notify_start, observe
from capset.schemas.plain_data import plain_unvalidated
from capset.stores.base import Claim

OUTPUT_MISMATCH: Final = "output_misfit"
"""The code on the record of a call that succeeded, but whose result does not fit its schema or protocol."""
_DENIALS: Final = (ApprovalVoid, LimitExceeded, PermissionDenied, Unauthenticated)
"""Errors that count as a decision to deny. Invalid arguments and unknown tools do not."""
_log = logging.getLogger("capset.kernel")


def execute(call: Invocation) -> Coroutine[None, None, None]:
    """Run one call through the pipeline. Afterwards ``call.error`` is set, or ``call.value`` is the result.

    Raises only what does not belong to the call: a cancellation from outside, or an error that ends the interpreter.
    """
    credential = call.options.credential
    if credential is None or call.options.depth:  # a nested call is cancelled with the call that made it
        return _execute_observed(call)
    return _execute_until_withdrawn(call, credential)


def _execute_observed(call: Invocation) -> Coroutine[None, None, None]:
    return observe(call, _execute) if call.context.runtime.observers else _execute(call)


async def _execute_until_withdrawn(call: Invocation, credential: Credential) -> None:
    """Run a call, which may wait or send events for long, and cancel it once its credential is withdrawn."""
    runtime = call.context.runtime

    def cancel(task: asyncio.Task[Any]) -> None:
        if call.channel is None:
            task.cancel()
        else:
            runtime.cancel([task])  # otherwise it would be taken for the handler's own cancellation

    try:
        with RevocationWatch(credential.check, cancel):
            await _execute_observed(call)
    except CapsetError as error:
        cancellation = Cancelled(f"The call was cancelled: {error.message}", correlation=call.correlation)
        cancellation.retryable = False
        call.error = cancellation


async def _execute(call: Invocation) -> None:  # noqa: PLR0912  # each call would pay for another coroutine
    steps, plain = call.compiled.steps, call.compiled.plain
    call.context.runtime.calls += 1
    release_task: asyncio.Task[None] | None = None
    try:
        if plain is not None:
            try:
                pending_result = plain.begin(call)
                if pending_result is not None:
                    call.value = await pending_result
                    steps = plain.after
            except BaseException as error:
                if not call.attempts:
                    raise
                raise_contained(call, error)
        for step in steps:
            pending = step(call)
            if pending is not None:
                await pending
        if call.outcome_entry is not None:  # it was abandoned, and that is on record
            return
        entry = _end(call, "succeeded")
    except Exception as error:
        if call.outcome_entry is not None:
            return
        release_task = _release_for_repeat(call, error) if call.attempts else _release_admission(call)
        entry = _fail(call, error)
        if entry is None:
            return
    except BaseException:
        if not call.attempts:
            _release_admission(call)  # a cancellation does not wait for this
        if call.outcome_entry is None:
            record_cancelled(call)
        raise
    pending = _record(call, entry)
    if pending is not None:
        await pending
    if release_task is not None:
        await asyncio.wait([release_task])  # so that the capacity is free when the caller gets the error
    has_hooks = call.compiled.hooks is not NO_HOOKS or call.context.snapshot.hooks is not NO_HOOKS
    if has_hooks and call.attempts and call.decision.kind == "allow":
        await _dispatch_hooks(call)


async def execute_check(call: Invocation) -> None:
    """Run the stages of a tool from ``compilation.check_only_tool``. A refusal is recorded.

    A call that nothing refuses leaves no record: if it is made at all, it is made as another call.
    """
    runtime = call.context.runtime
    runtime.calls += 1
    try:
        await run_phases(call)
    except Exception as error:
        entry = _fail(call, error)
        pending = None if entry is None else _record(call, entry)
        if pending is not None:
            await pending
    finally:
        if call.outcome_entry is None:
            runtime.end_call()


def _fail(call: Invocation, error: Exception) -> CallEntry | None:
    """End a call with an error, and return its entry, or ``None`` if a flood's shared record covers it (G15)."""
    public_error = _public_error(call, error)
    if (
        call.decision.kind is None
        and isinstance(public_error, _DENIALS)
        and not isinstance(public_error, TooManyRefusals)
    ):
        call.deny(public_error.message)  # the stage raised without calling deny()
    if call.awaits_response:  # nothing waits for the response any more
        public_error.answer_lost = True
    entry = _end(call, outcome_of(public_error), public_error)
    is_flood = public_error.refusal and call.decision.kind != "allow" and _is_flood(call, public_error, entry)
    return None if is_flood else entry


def _public_error(call: Invocation, error: Exception) -> CapsetError:
    """Return an error as the caller may see it, as a copy that belongs to this call alone."""
    if isinstance(error, CapsetError):
        try:
            return _readable_error(call, error)
        except Exception as failure:  # its class is the host's own, and breaks the contract of errors
            failure.__context__ = error
            error = failure
    # A defect of a stage, not of the tool: this call fails closed, and no other call is affected.
    _log.error("the pipeline of %r failed, correlation %s", call.compiled.name, call.correlation, exc_info=error)
    public_error = InternalError("The call failed unexpectedly; the log has the details.")
    public_error.__cause__ = error
    return public_error


def _readable_error(call: Invocation, error: CapsetError) -> CapsetError:
    if "message" not in vars(error):
        raise TypeError(f"{type(error).__qualname__}.__init__ does not call that of its base class")
    # A copy, since other calls may raise the same error object and must not see what is written to it here.
    public_error, redactor = hide_store_details(error, call).copy(), call.context.runtime.redactor
    if redactor is not None:
        public_error.message, public_error.hint = redactor(public_error.message), redactor(public_error.hint)
        public_error.args = (public_error.message,)
        public_error.fields = tuple(
            Field(*map(redactor, (field.path, field.expected, field.did_you_mean))) for field in public_error.fields
        )
    return public_error


def _release_admission(call: Invocation) -> asyncio.Task[None] | None:
    """Release what was taken for a handler that never started (G3), in a task that outlives the call's own."""
    reservation, claim = call.admitted
    if reservation is not None:
        reservation.release()
    if claim is None:
        return None
    runtime = call.context.runtime
    try:
        asyncio.get_running_loop()
    except RuntimeError:  # the call's coroutine was dropped
        _log.error("the call %s never started, but still counts: its event loop is gone", call.id)
        return None
    return runtime.spawn(_release(runtime, claim))


def _release_for_repeat(call: Invocation, error: Exception) -> asyncio.Task[None] | None:
    """Release what a call with a started handler took, if the same call will be made again.

    A call in a suspended turn counts when the turn continues, so everything is released. A call that needs something
    from its client releases its approval only.
    """
    if isinstance(error, TurnSuspended):
        return _release_admission(call)
    claim = call.admitted.claim
    will_repeat = isinstance(error, ClientInputRequired | ClientCapabilityMissing)
    if not will_repeat or claim is None or claim.approval is None:
        return None
    return call.context.runtime.spawn(_release(call.context.runtime, replace(claim, windows=(), quotas=())))


async def _release(runtime: KernelRuntime, claim: Claim) -> None:
    try:
        await runtime.store.admissions.release(claim)
    except StoreError as failure:
        _log.error("the claim of the call %s could not be released; retrying: %s", claim.call, failure.message)
        runtime.spawn(_release_later(runtime, claim))


async def _release_later(runtime: KernelRuntime, claim: Claim) -> None:
    """Retry a release until the store is available again; releasing twice does no harm."""
    pause = 0.1  # seconds
    while True:
        await asyncio.sleep(pause)
        pause = min(2 * pause, 5.0)
        with suppress(StoreError):
            return await runtime.store.admissions.release(claim)


def _end(call: Invocation, outcome: Outcome, error: CapsetError | None = None) -> CallEntry:
    """End a call, which ``runtime.calls`` has counted since its start, and return the entry of its outcome."""
    context, arguments, code = call.context, call.arguments, None
    runtime, recorded, secrets = context.runtime, None, None
    if arguments is not NOT_VALIDATED:
        recorded, secrets = arguments.recorded, arguments.secrets
    if recorded is None and not isinstance(call.raw_arguments, Json):
        # Never validated, so these may be the caller's own lists, which the caller may still change.
        recorded = plain_unvalidated(call.raw_arguments)
    if error is not None:
        call.error, code = error, error.code
        strip_causes(error, runtime)
        if call.foreign is not None and call.foreign.error is not None and isinstance(error, ToolError):
            call.foreign = replace(call.foreign, error=error)  # as the caller may see it
    elif call.foreign is not None and call.foreign.note is not None:
        code = OUTPUT_MISMATCH
    duration_us = (runtime.monotonic_ns() - call.started_ns) // 1000
    entry = call.outcome_entry = new_tuple(
        CallEntry,
        (
            "outcome",
            context,
            call.compiled,
            call.mark,
            call.options.cause,
            recorded,
            secrets,
            call.raw_arguments,
            call.decision,
            call.attempts,
            outcome,
            code,
            duration_us,
            call.lent_credential,
            None,
        ),
    )
    runtime.calls -= 1
    if runtime.idle is not None:
        runtime.set_idle()
    if call.observer_states:
        notify_end(call)
    return entry


def _is_flood(call: Invocation, error: CapsetError, entry: CallEntry) -> bool:
    """Count a refused call; return whether it was refused unexamined, so that it shares a record with others (G15)."""
    refusals = call.context.runtime.refusals
    if not isinstance(error, TooManyRefusals):
        refusals.count(call.context.principal)
        return False
    error.correlation = call.correlation
    refusals.gather(call.context.principal, entry)
    return True


def _record(call: Invocation, entry: CallEntry) -> Awaitable[None] | None:
    """Record the outcome. Return an awaitable if the call may have had effects, or the queue cannot take the entry."""
    is_allowed, runtime = call.decision.kind == "allow", call.context.runtime
    if is_allowed and call.compiled.has_side_effects:
        return _commit(call, entry, is_durable=True)
    if not is_allowed or runtime.governance.record_reads:  # refusals are always recorded (G23)
        if _is_large(entry):
            return _commit(call, entry, is_durable=False)
        try:
            runtime.audit.append(entry)
        except StoreError:
            return _commit(call, entry, is_durable=False)
    if call.error is not None:
        call.error.correlation = call.correlation
    return None


def _is_large(entry: CallEntry) -> bool:
    """Whether an entry is too large for the queue, which is bounded by number alone and served by a busy thread."""
    return type(entry.raw_arguments) is Json and len(entry.raw_arguments.text) > MAX_RECORDED_BYTES


async def _commit(call: Invocation, entry: CallEntry, *, is_durable: bool) -> None:
    try:
        await call.context.runtime.audit.commit(entry)
    except StoreError as failure:
        is_unrecorded_effect = is_durable and call.attempts > 0
        call.error = _unrecorded_error(failure, call) if is_unrecorded_effect else hide_store_details(failure, call)
        if is_durable:
            # The caller learns now that the outcome is not durable; it is recorded once the store is back.
            with suppress(StoreError):
                call.context.runtime.audit.append(entry)
    if call.error is not None:
        strip_causes(call.error, call.context.runtime)
        if is_durable and call.attempts:
            call.error.retryable = False  # it may have had its effects
        call.error.correlation = call.correlation


async def _dispatch_hooks(call: Invocation) -> None:
    """Notify the hooks of a call whose handler ran; they cannot change its outcome (spec 2, F23)."""
    snapshot, tool, entry = call.context.snapshot, call.compiled.tool, call.outcome_entry
    functions = merge_hooks(call.compiled.hooks, snapshot.hooks).on_tool_executed
    if tool is None or entry is None or not functions:
        return
    event = ToolExecuted(
        tool,
        call.compiled.name,
        MappingProxyType(call.arguments.values),
        None if call.error is not None or call.value is MISSING else call.value,
        call.error,
        snapshot.principal,
        call.context.id,
        call.id,
        call.correlation,
        entry.duration_us,
    )
    await dispatch_hooks(functions, event)


def _unrecorded_error(failure: StoreError, call: Invocation) -> StoreError:
    """Return the error of a call that ran, but whose outcome is not recorded yet."""
    unrecorded = StoreError("The call ran, but its outcome could not be put on record; the log has the details.")
    unrecorded.__cause__ = hide_store_details(failure, call)
    return unrecorded


def record_never_started(call: Invocation) -> None:
    """Record a call that was cancelled before its first step: it still counts as an attempt."""
    if call.outcome_entry is None:
        call.context.runtime.calls += 1
        notify_start(call)
        record_cancelled(call)
        notify_detach(call)


def record_unfinished(call: Invocation, task: asyncio.Task[None]) -> None:
    """Record a call whose task ended without an outcome, or was cancelled and abandoned (K15, K17)."""
    if task.done():
        record_never_started(call)
    elif call.outcome_entry is None:
        record_cancelled(call)


def record_cancelled(call: Invocation) -> None:
    """Record a call as cancelled. Propagating the cancellation is left to the caller."""
    _abort(call, Cancelled("The call was cancelled before it ended.", correlation=call.correlation))


def record_abandoned(call: Invocation) -> None:
    """Record a call as timed out while its handler is still running; the handler's result is discarded (K15)."""
    message = f"Deadline exceeded: {call.compiled.name!r} did not finish in time, and does not stop."
    _abort(call, DeadlineExceeded(message, correlation=call.correlation))


def _abort(call: Invocation, error: CapsetError) -> None:
    runtime, is_cancelled = call.context.runtime, isinstance(error, Cancelled)
    error.answer_lost = call.awaits_response and not is_cancelled
    entry = _end(call, "cancelled" if is_cancelled else outcome_of(error), error)
    if not _is_large(entry):
        with suppress(StoreError):
            return runtime.audit.append(entry)
    # No caller waits for this call any more, so a task of the kernel waits for room for its record.
    try:
        asyncio.get_running_loop()
    except RuntimeError:  # the call's coroutine was dropped
        _log.error("the %s call %s is not on record: its event loop is gone", entry.outcome, call.id)
        return None
    runtime.spawn(_commit_without_caller(call, entry))
    return None


async def _commit_without_caller(call: Invocation, entry: CallEntry) -> None:
    try:
        await call.context.runtime.audit.commit(entry)
    except StoreError as failure:
        _log.error("the %s call %s is not on record: %s", entry.outcome, call.id, failure.message)
