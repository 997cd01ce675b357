"""Notification of observers, for traces and metrics, when calls begin and end (spec 5, P13).

Without observers, a call only reads one more attribute.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from capset.kernel.call.invocation import Invocation, Observer

_log = logging.getLogger("capset.kernel")


async def observe(call: Invocation, pipeline: Callable[[Invocation], Awaitable[None]]) -> None:
    """Run a call through the pipeline and notify its observers."""
    notify_start(call)
    is_closed = False
    try:
        await pipeline(call)
    except GeneratorExit:
        is_closed = True  # the coroutine is closed in another context than the one it began in
        raise
    finally:
        if not is_closed:
            notify_detach(call)


def notify_start(call: Invocation) -> None:
    """Notify the observers that a call begins, and store the state that each returns."""
    observed: list[tuple[Observer, Any]] = []
    call.observer_states = ()
    observer: Observer
    for observer in call.context.runtime.observers:
        try:
            observed.append((observer, observer.on_start(call)))
        except Exception:
            _log.exception("the observer %s failed", type(observer).__name__)
    call.observer_states = tuple(observed)


def notify_attach(call: Invocation) -> None:
    """Notify the observers of a call that the current task, which did not start it, now works on it."""
    for observer, state in call.observer_states or ():
        try:
            observer.on_attach(state)
        except Exception:
            _log.exception("the observer %s failed", type(observer).__name__)


def notify_end(call: Invocation) -> None:
    """Notify the observers of a call that it has its outcome."""
    for observer, state in call.observer_states or ():
        try:
            observer.on_end(call, state)
        except Exception:
            _log.exception("the observer %s failed", type(observer).__name__)


def notify_detach(call: Invocation) -> None:
    """Notify the observers, in reverse order, that the task of a call is done with it.

    Releases their state, which the call would otherwise keep alive until its record is written.
    """
    observed, call.observer_states = call.observer_states or (), None
    for observer, state in reversed(observed):
        try:
            observer.on_detach(state)
        except Exception:
            _log.exception("the observer %s failed", type(observer).__name__)


def host_observers() -> tuple[Observer, ...]:
    """Return the tracing observer if the host has set up an OpenTelemetry SDK. Otherwise, nothing is imported."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return ()
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return ()  # only the API, a dependency of frameworks: spans would go nowhere, and cost more than the call
    from capset.kernel.telemetry.tracing import Tracing

    return (Tracing(),)
