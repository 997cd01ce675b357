"""What is told of every request beside its line in the log: its span, if calls are traced (spec 5, P13)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.types import Scope

from capset.server.routes import Routes
from capset.server.visit import Visit, path_of

if TYPE_CHECKING:
    from capset.server.tracing import HttpSpan, HttpTracing

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"})
OTHER_METHOD: Final = "_OTHER"
"""What OpenTelemetry calls a method that is none of HTTP's: it would be the client's own word."""


class Telemetry:
    """Told by the gate as a request begins, and as it ends."""

    def __init__(self, routes: Routes, tracing: HttpTracing | None) -> None:
        self._routes = routes
        self._tracing = tracing

    def begin(self, scope: Scope, visit: Visit) -> HttpSpan | None:
        """Begin a request; its line in the log gets the ids of its span."""
        visit.route = self._routes.of(path_of(scope))
        if self._tracing is None:
            return None
        method: str = scope["method"]
        return self._tracing.begin(scope, visit, method if method in _METHODS else OTHER_METHOD)

    def end(self, visit: Visit, span: HttpSpan | None) -> None:
        """End a request that was answered, or was left."""
        if span is not None:
            span.end(visit)
