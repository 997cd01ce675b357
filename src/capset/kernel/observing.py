"""Who is told of calls as they begin and end, beside their records: traces and metrics (spec 5, P13).

Without observers a call reads one attribute more, and does nothing else.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from capset.kernel.invocation import Invocation

_log = logging.getLogger("capset.kernel")


class Observer(Protocol):
    """Is told of every call. It runs on the call's way, so it is quick; what it raises is logged, and harms no call."""

    def begun(self, call: Invocation) -> Any:  # whatever the observer keeps of the call
        """Take note of a call before its first step, in the task that runs it; what is returned comes back."""
        ...

    def ended(self, call: Invocation, kept: Any) -> None:
        """Take note that a call has its outcome: once, wherever that is set; its handler may still go on."""
        ...

    def left(self, kept: Any) -> None:
        """Undo what ``begun`` did to the context of the task that ran the call."""
        ...


async def observed(call: Invocation, travel: Callable[[Invocation], Awaitable[None]]) -> None:
    """Take a call along its road, and tell its observers."""
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
    for observer in call.place.world.observers:
        try:
            told.append((observer, observer.begun(call)))
        except Exception:
            _log.exception("the observer %s failed", type(observer).__name__)
    call.observed = tuple(told)


def tell_ended(call: Invocation) -> None:
    """Tell the observers of a call that it has its outcome."""
    for observer, kept in call.observed or ():
        try:
            observer.ended(call, kept)
        except Exception:
            _log.exception("the observer %s failed", type(observer).__name__)


def leave(call: Invocation) -> None:
    """Tell the observers that the task of a call goes on to something else, the last of them first."""
    for observer, kept in reversed(call.observed or ()):
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
    from capset.kernel.tracing import Tracing

    return (Tracing(),)
