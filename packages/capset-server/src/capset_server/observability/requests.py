"""Telemetry of requests: metrics and a span for each, in addition to its log line (spec 5, P13)."""

from __future__ import annotations

import time
from contextvars import Token
from typing import Final

from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import Span, SpanKind, StatusCode, set_span_in_context
from starlette.types import Scope

from capset.kernel.governance.redaction import Redactor
from capset.kernel.telemetry import conventions as names
from capset.kernel.telemetry.tracing import Tracing, parent_of
from capset_server.http.request_context import RequestContext, path_of
from capset_server.http.routes import Routes
from capset_server.observability.metrics import Metrics

_MAX_PATH: Final = 1_000
"""The maximum length of a path in a span."""


class HttpTracing:
    """Traces requests. A span continues its request's ``traceparent`` header; the spans of calls are its children."""

    def __init__(self, tracing: Tracing, redactor: Redactor | None) -> None:
        self._tracer = tracing.tracer
        self._redactor = redactor

    def begin(self, scope: Scope, request_info: RequestContext, method: str) -> HttpSpan:
        """Start a request's span and make it current. It has no query, headers or user name."""
        path = path_of(scope).encode(errors="replace").decode()
        path = path if self._redactor is None else self._redactor(path)  # redact first: truncation could split a secret
        attributes = {
            names.HTTP_METHOD: method,
            names.URL_PATH: path[:_MAX_PATH],
            names.URL_SCHEME: scope["scheme"],
            names.CORRELATION: request_info.correlation,
        }
        if request_info.route is not None:
            attributes[names.HTTP_ROUTE] = request_info.route
        around, links = parent_of(request_info.header(b"traceparent"))
        span = self._tracer.start_span(
            f"{method} {request_info.route}" if request_info.route else method,
            around,
            SpanKind.SERVER,
            attributes,
            links,
        )
        context = span.get_span_context()
        request_info.notes.update(trace_id=f"{context.trace_id:032x}", span_id=f"{context.span_id:016x}")
        return HttpSpan(span, attach(set_span_in_context(span)))


class HttpSpan:
    """The span of one request."""

    __slots__ = ("_before", "_span")

    def __init__(self, span: Span, before: Token[Context]) -> None:
        self._span = span
        self._before = before

    def end(self, request_info: RequestContext) -> None:
        """End the span with the response status. 4xx statuses do not mark it as an error."""
        detach(self._before)
        if request_info.status:
            self._span.set_attribute(names.HTTP_STATUS, request_info.status)
        if not request_info.status or request_info.status >= 500:
            self._span.set_attribute(
                names.ERROR_TYPE, str(request_info.status) if request_info.status else "client_left"
            )
            self._span.set_status(StatusCode.ERROR)
        self._span.end()


_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"})
OTHER_METHOD: Final = "_OTHER"
"""OpenTelemetry's value for a method that HTTP does not define, whose name is arbitrary text from the client."""


class Telemetry:
    """Telemetry of requests. The middleware calls it at the start and the end of each."""

    def __init__(self, routes: Routes, metrics: Metrics, tracing: HttpTracing | None) -> None:
        self._routes = routes
        self._metrics = metrics
        self._tracing = tracing

    def begin(self, scope: Scope, request_info: RequestContext) -> HttpSpan | None:
        """Record the start of a request. Its log line gets the ids of its span."""
        self._metrics.asked()
        request_info.route = self._routes.of(path_of(scope))
        return None if self._tracing is None else self._tracing.begin(scope, request_info, _method(scope))

    def end(self, scope: Scope, request_info: RequestContext, started: float, span: HttpSpan | None) -> None:
        """Record the end of a request, answered or abandoned. ``started`` is from ``time.perf_counter()``."""
        self._metrics.answered(request_info, _method(scope), time.perf_counter() - started)
        if span is not None:
            span.end(request_info)


def _method(scope: Scope) -> str:
    method: str = scope["method"]
    return method if method in _METHODS else OTHER_METHOD
