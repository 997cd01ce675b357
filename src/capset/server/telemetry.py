"""What is told of every request beside its line in the log: numbers, and a span if calls are traced (spec 5, P13)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from starlette.types import Scope

from capset.server.metrics import Metrics
from capset.server.routes import Routes
from capset.server.visit import CLIENT_LEFT, Visit, path_of

if TYPE_CHECKING:
    from capset.server.tracing import HttpSpan, HttpTracing

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"})
OTHER_METHOD: Final = "_OTHER"
"""What OpenTelemetry calls a method that is none of HTTP's: it would be the client's own word."""


class Telemetry:
    """Told by the gate as a request begins, and as it ends."""

    def __init__(self, routes: Routes, metrics: Metrics, tracing: HttpTracing | None) -> None:
        self._routes = routes
        self._metrics = metrics
        self._tracing = tracing

    def begin(self, scope: Scope, visit: Visit) -> HttpSpan | None:
        """Begin a request; its line in the log gets the ids of its span."""
        self._metrics.asked()
        visit.route = self._routes.of(path_of(scope))
        return None if self._tracing is None else self._tracing.begin(scope, visit, _method(scope))

    def end(self, scope: Scope, visit: Visit, started: float, span: HttpSpan | None) -> None:
        """End a request that was answered, or was left; ``started`` is of ``time.perf_counter()``."""
        seconds = time.perf_counter() - started
        self._metrics.answered(_method(scope), visit.route, visit.status or CLIENT_LEFT, seconds)
        if span is not None:
            span.end(visit)


def _method(scope: Scope) -> str:
    method: str = scope["method"]
    return method if method in _METHODS else OTHER_METHOD
