"""Who is told of calls as they begin and end, beside their records: traces and metrics (spec 5, P13).

Without observers a call reads one attribute more, and does nothing else.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from capset.kernel.call.invocation import Invocation

_log = logging.getLogger("capset.kernel")


class Observer(Protocol):
    """Is told of every call. It runs on the call's way, so it is quick; what it raises is logged, and harms no call."""

    def begun(self, call: Invocation) -> Any:  # whatever the observer keeps of the call
        """Take note of a call before its first step, in the task that runs it; what is returned comes back."""
        ...

    def joined(self, kept: Any) -> None:
        """Take note that another task works for the call from now on: that of a processor, which serves many calls."""
        ...

    def ended(self, call: Invocation, kept: Any) -> None:
        """Take note that a call has its outcome: once, wherever that is set; its handler may still go on."""
        ...

    def left(self, kept: Any) -> None:
        """Undo what ``begun`` did to the context of the task that ran the call."""
        ...


async def observe(call: Invocation, travel: Callable[[Invocation], Awaitable[None]]) -> None:
    """Run a call through the pipeline, and notify its observers."""
    begin(call)
    is_closed = False
    try:
        await travel(call)
    except GeneratorExit:
        is_closed = True  # from wherever its coroutine was dropped: that context is not the one that it began in
        raise
    finally:
        if not is_closed:
            leave(call)


def begin(call: Invocation) -> None:
    """Tell the observers that a call begins, and keep what they say of it."""
    told: list[tuple[Observer, Any]] = []
    call.observed = ()
    for observer in call.context.runtime.observers:
        try:
            told.append((observer, observer.begun(call)))
        except Exception:
            _log.exception("the observer %s failed", type(observer).__name__)
    call.observed = tuple(told)


def join(call: Invocation) -> None:
    """Tell the observers of a call that this task works for it now, in which it did not begin."""
    for observer, kept in call.observed or ():
        try:
            observer.joined(kept)
        except Exception:
            _log.exception("the observer %s failed", type(observer).__name__)


def tell_ended(call: Invocation) -> None:
    """Tell the observers of a call that it has its outcome."""
    for observer, kept in call.observed or ():
        try:
            observer.ended(call, kept)
        except Exception:
            _log.exception("the observer %s failed", type(observer).__name__)


def leave(call: Invocation) -> None:
    """Tell the observers that the task of a call goes on to something else, the last of them first.

    What they keep of it is let go: a record that is still to be written would hold it for longer.
    """
    told, call.observed = call.observed or (), None
    for observer, kept in reversed(told):
        try:
            observer.left(kept)
        except Exception:
            _log.exception("the observer %s failed", type(observer).__name__)


def host_observers() -> tuple[Observer, ...]:
    """Return what traces calls, where the host has set up an OpenTelemetry SDK; nothing is loaded for any other."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return ()
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return ()  # the API alone, which frameworks bring along: it would cost more than a call, for nothing
    from capset.kernel.telemetry.tracing import Tracing

    return (Tracing(),)
