"""The phase ``run``: the handler runs, with its timeout and its retries, after state is loaded (C33, K15, G25)."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from copy import deepcopy
from functools import partial
from typing import Any, Final, cast

from capset.composition.installation import InstalledTool
from capset.definitions.calls.messages import Progress, Reply
from capset.definitions.tools.handlers import EVENTLESS_VARIANT, Shape
from capset.definitions.tools.retries import Retry
from capset.errors import CapsetError, DeadlineExceeded, InvalidOutput, TransientError
from capset.kernel.call.compiled_tools import Step
from capset.kernel.call.context import CallContext
from capset.kernel.call.errors import is_cancelled, raise_contained
from capset.kernel.call.execution import execution_of, run_for
from capset.kernel.call.invocation import ALLOWED, MISSING, CallArguments, Invocation
from capset.kernel.call.pipeline import record_abandoned
from capset.kernel.call.worker_threads import no_free_thread
from capset.kernel.governance.sent_requests import timed
from capset.kernel.runtime import CLEANUP_SECONDS
from capset.kernel.streams.emission import emit_event, has_consumer
from capset.kernel.streams.processors import process_one


def load_state(installed: InstalledTool) -> Step | None:
    """Read the state of every scope, if any is declared and the handler takes a context."""
    if not installed.tool.takes_context:
        return None

    def step(call: Invocation) -> Awaitable[None] | None:
        return execution_of(call).load() if call.context.data.states else None

    return step


Start = Callable[[Invocation], Awaitable[Any]]
"""Starts a handler; the awaitable returns its result, of the tool's own type."""

_log = logging.getLogger("capset.kernel")


def invoke(installed: InstalledTool) -> Step:
    """Run the handler as its shape requires, with the context if it takes one."""
    tool = installed.tool
    start = _STARTS[tool.shape](installed)
    if tool.retry is not None:
        start = with_retries(start, tool.retry)
    timeout, needs_no_decision = tool.timeout, not installed.policies and tool.approval == "auto"

    def step(call: Invocation) -> Awaitable[None]:
        call.decision = ALLOWED if needs_no_decision else call.decision.allowed()
        if timeout is None and call.options.deadline is None:
            return _run_contained(call, start)
        return _run_timed(call, start, timeout)

    return step


def with_retries(start: Start, retry: Retry) -> Start:
    """Return a starter that retries the handler after a ``TransientError``, within its deadline.

    Before attempt ``n + 1`` it sleeps a random time of up to ``retry.max_delay(n)``. The caller counts the first
    attempt.
    """

    async def start_with_retries(call: Invocation) -> Any:
        while True:
            # A handler may modify its arguments, and each attempt needs the original ones.
            original = call.arguments
            call.arguments = _copy_arguments(original)
            try:
                return await start(call)
            except TransientError:
                pause = random.uniform(0, retry.max_delay(call.attempts))  # noqa: S311  # for jitter, not for security
                if call.attempts >= retry.max_attempts or call.has_emitted or not _has_time(call, pause):
                    raise
            await asyncio.sleep(pause)
            call.arguments = original
            call.attempts += 1

    return start_with_retries


def _copy_arguments(arguments: CallArguments) -> CallArguments:
    try:
        values, inbound = deepcopy((arguments.values, arguments.inbound))
        return arguments._replace(values=values, inbound=inbound)
    except Exception:  # one of the host's own types cannot be copied
        return arguments


def _has_time(call: Invocation, seconds: float) -> bool:
    """Whether that much time is left, and the handler can be started again at all.

    The processor of a duplex stream cannot: it ends when it raises.
    """
    if call.processor is not None:
        return False
    end = call.scope.when() if call.scope is not None else None
    return end is None or asyncio.get_running_loop().time() + seconds < end


async def _run_contained(call: Invocation, start: Start) -> None:
    """Run the handler; raise only errors that are safe to show (spec 4, G4), and cancellations from outside."""
    call.attempts += 1
    try:
        call.value = await start(call)
    except BaseException as error:
        raise_contained(call, error)


async def _run_timed(call: Invocation, start: Start, timeout: float | None) -> None:
    """Run the handler until the tool's timeout or the call's deadline (loop time), whichever is earlier.

    A handler that swallows its cancellation, or fails while it cleans up, still counts as late. A cancellation from
    outside takes precedence over an expiry (spec 3, K16).
    """
    now = asyncio.get_running_loop().time()
    end = min(end for end in (call.options.deadline, timeout and now + timeout) if end is not None)
    if end <= now:
        raise DeadlineExceeded(f"Deadline exceeded: there was no time left for {call.compiled.name!r} to start.")
    scope = asyncio.timeout_at(end)
    timer = _AbandonTimer(call, end) if call.channel is not None and call.processor is None else None
    try:
        async with scope:
            call.scope = scope
            with timed(call):
                await _run_contained(call, start)
    except asyncio.CancelledError:
        if not scope.expired() or is_cancelled(call):
            raise
    except (TimeoutError, CapsetError):
        if not scope.expired():
            raise
    finally:
        call.scope = None
        if timer is not None:
            timer.end()
    if scope.expired():
        if call.channel is not None and is_cancelled(call):
            raise asyncio.CancelledError
        if not call.attempts:
            raise no_free_thread()
        unknown = " Whether it took effect is not known." if call.awaits_response else ""
        raise DeadlineExceeded(f"Deadline exceeded: {call.compiled.name!r} did not finish in time.{unknown}")


class _AbandonTimer:
    """Abandons a call whose handler swallows its expiry, together with the kernel's task that it runs in (K15)."""

    __slots__ = ("_call", "_handle", "_loop", "_task")

    def __init__(self, call: Invocation, end: float) -> None:
        self._call = call
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        self._handle = self._loop.call_at(end + CLEANUP_SECONDS, self._check)

    def end(self) -> None:
        self._handle.cancel()

    def _check(self) -> None:
        scope, call = self._call.scope, self._call
        if scope is None or self._task is None:
            return
        if not scope.expired():  # the timeout was paused while the call waited for its consumer
            later = scope.when() or self._loop.time()
            self._handle = self._loop.call_at(later + CLEANUP_SECONDS, self._check)
            return
        record_abandoned(call)
        call.context.runtime.abandon(self._task)


def _start_async(installed: InstalledTool) -> Start:
    tool, handler = installed.tool, installed.tool.handler
    if tool.takes_context:
        return lambda call: handler(CallContext(call), **call.arguments.values)
    return lambda call: handler(**call.arguments.values)


def _start_sync(installed: InstalledTool) -> Start:
    handler, takes_context = installed.tool.handler, installed.tool.takes_context

    async def start(call: Invocation) -> Any:
        leading = (CallContext(call),) if takes_context else ()
        work = partial(handler, *leading, **call.arguments.values)
        call.attempts -= 1  # the attempt counts once the handler gets a thread

        def begin() -> None:
            call.attempts += 1

        return await run_for(call, call.compiled.name, work, begin)

    return start


def _start_stream(installed: InstalledTool) -> Start:
    handler, takes_context, name = installed.tool.handler, installed.tool.takes_context, installed.name
    eventless = getattr(handler, EVENTLESS_VARIANT, None)

    async def start(call: Invocation) -> Any:
        leading = (CallContext(call),) if takes_context else ()
        if eventless is not None and not has_consumer(call):
            return await eventless(*leading, **call.arguments.values)
        emissions, reply = handler(*leading, **call.arguments.values), MISSING
        try:
            async for emission in emissions:
                if reply is not MISSING:
                    raise InvalidOutput(f"The tool {name!r} emitted something after its reply.")
                if isinstance(emission, Reply):
                    reply = cast("Reply[Any]", emission).data
                elif isinstance(emission, Progress):
                    await emit_event(call, "progress", _progress(emission))
                else:
                    emitted = type(emission).__name__
                    raise InvalidOutput(f"The tool {name!r} emitted {emitted}, neither Progress nor Reply.")
        except BaseException:
            try:
                await _close(emissions)
            except Exception as error:  # logged only: the error that ended the handler is raised
                _log.error("tool %r failed as it was closed, correlation %s", name, call.correlation, exc_info=error)
            raise
        await _close(emissions)
        return reply

    return start


async def _close(emissions: object) -> None:
    """Let an async generator clean up now, not when it is garbage-collected."""
    if (close := getattr(emissions, "aclose", None)) is not None:
        await close()


def _start_processor(installed: InstalledTool) -> Start:
    contract, factory = installed.tool.contract, installed.tool.handler
    assert contract is not None  # noqa: S101  # a processor has one

    def start(call: Invocation) -> Awaitable[Any]:
        processor = call.processor
        if processor is not None and processor.implements(contract):
            return processor.process(call)
        return process_one(call, contract, factory)

    return start


_STARTS: Final[Mapping[Shape, Callable[[InstalledTool], Start]]] = {
    "async": _start_async,
    "sync": _start_sync,
    "stream": _start_stream,
    "processor": _start_processor,
}


def _progress(emission: Progress) -> dict[str, Any]:
    fraction, message = emission.fraction, emission.message
    # Handlers may not be typed.
    if not isinstance(fraction, int | float) or not 0 <= fraction <= 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidOutput(f"Progress must be between 0.0 and 1.0; got {fraction!r}.")
    if not isinstance(message, str | None):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidOutput(f"The message of a Progress must be text; got {type(message).__name__}.")
    return {"fraction": float(fraction), "message": message and message.encode(errors="replace").decode()}
