"""The span of a request over HTTP, by OpenTelemetry's conventions for servers (spec 5, P13)."""

from __future__ import annotations

from contextvars import Token
from typing import Final

from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import Span, SpanKind, StatusCode, set_span_in_context
from starlette.types import Scope

from capset.kernel.governance.redaction import Redactor
from capset.kernel.telemetry import conventions as names
from capset.kernel.telemetry.tracing import Tracing, parent_of
from capset.server.visit import Visit, path_of

_MAX_PATH: Final = 1_000
"""Characters of a path that a span keeps."""


class HttpTracing:
    """Makes the span of a request, within that of its ``traceparent`` header; its calls are below it."""

    def __init__(self, tracing: Tracing, redactor: Redactor | None) -> None:
        self._tracer = tracing.tracer
        self._redactor = redactor

    def begin(self, scope: Scope, visit: Visit, method: str) -> HttpSpan:
        """Start the span of a request and make it the current one. It has no query, no header, and nobody's name."""
        path = path_of(scope).encode(errors="replace").decode()
        path = path if self._redactor is None else self._redactor(path)  # whole: a secret may stand where it is cut
        attributes = {
            names.HTTP_METHOD: method,
            names.URL_PATH: path[:_MAX_PATH],
            names.URL_SCHEME: scope["scheme"],
            names.CORRELATION: visit.correlation,
        }
        if visit.route is not None:
            attributes[names.HTTP_ROUTE] = visit.route
        around, links = parent_of(visit.header(b"traceparent"))
        span = self._tracer.start_span(
            f"{method} {visit.route}" if visit.route else method, around, SpanKind.SERVER, attributes, links
        )
        context = span.get_span_context()
        visit.notes.update(trace_id=f"{context.trace_id:032x}", span_id=f"{context.span_id:016x}")
        return HttpSpan(span, attach(set_span_in_context(span)))


class HttpSpan:
    """The span of one request."""

    __slots__ = ("_before", "_span")

    def __init__(self, span: Span, before: Token[Context]) -> None:
        self._span = span
        self._before = before

    def end(self, visit: Visit) -> None:
        """End it with the status that was answered; what a client did wrong is no error of the server's."""
        detach(self._before)
        if visit.status:
            self._span.set_attribute(names.HTTP_STATUS, visit.status)
        if not visit.status or visit.status >= 500:
            self._span.set_attribute(names.ERROR_TYPE, str(visit.status) if visit.status else "client_left")
            self._span.set_status(StatusCode.ERROR)
        self._span.end()
