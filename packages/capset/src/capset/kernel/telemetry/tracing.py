"""One span per call, following OpenTelemetry's conventions for tool execution (spec 5, P13)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextvars import Token
from functools import cache
from importlib.metadata import version
from typing import Any, Final, NamedTuple

from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import (
    INVALID_SPAN,
    Link,
    Span,
    SpanContext,
    SpanKind,
    StatusCode,
    TracerProvider,
    get_current_span,
    get_tracer,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from capset.definitions.agents import Agent
from capset.fingerprint.canonical import canonical
from capset.kernel.call.invocation import MISSING, Invocation, Observer
from capset.kernel.governance.audit import masked_arguments
from capset.kernel.governance.redaction import MAX_RECORDED_BYTES, redacted
from capset.kernel.telemetry import conventions as names

_PROPAGATOR: Final = TraceContextTextMapPropagator()
_WITH_CONTENT: Final = frozenset({"true", "span_only", "span_and_event"})


class Traced(NamedTuple):
    """The span of a call, and the context token that restores the task's previous context."""

    span: Span
    token: Token[Context]


class Tracing:
    """An observer that creates a span for every call: ``Kernel(observers=[Tracing()])``.

    A kernel adds one automatically if the host has set up an OpenTelemetry SDK before the kernel is entered.
    ``provider`` defaults to the host's tracer provider. With ``content``, spans contain arguments, results and error
    messages, masked as in records. It defaults to ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT``, or else to
    ``False``. Spans never identify the principal.
    """

    def __init__(self, provider: TracerProvider | None = None, *, content: bool | None = None) -> None:
        self.tracer = get_tracer("capset", _version(), provider)
        is_enabled = os.environ.get(names.CONTENT_VARIABLE, "").strip().lower() in _WITH_CONTENT
        self._has_content = is_enabled if content is None else content

    def on_start(self, call: Invocation) -> Traced:
        """Start the span of a call, as a child of the current span or of the requesting message's span."""
        name = _name_of(call)
        parent_context, links = parent_of(call.options.traceparent)
        span = self.tracer.start_span(
            f"{names.EXECUTE_TOOL} {name}",
            parent_context,
            SpanKind.INTERNAL,
            {names.OPERATION: names.EXECUTE_TOOL, names.TOOL_NAME: name},
            links,
            record_exception=False,
            set_status_on_exception=False,
        )
        if (context := span.get_span_context()).is_valid:
            call.span = traceparent_of(context)
        return Traced(span, attach(set_span_in_context(span)))

    def on_attach(self, state: Traced) -> None:
        """Make the span current in another task, until that task joins the next call."""
        attach(set_span_in_context(state.span))

    def on_end(self, call: Invocation, state: Traced) -> None:
        """End the span with the outcome of the call."""
        span = state.span
        try:
            if span.is_recording():
                self._describe(call, span)
        finally:
            span.end()

    def _describe(self, call: Invocation, span: Span) -> None:
        if call.compiled.tool is not None and (name := _name_of(call)):
            span.update_name(f"{names.EXECUTE_TOOL} {name}")  # dynamic uses may have added the tool since
        span.set_attributes({name: value for name, value in _attributes(call).items() if value is not None})
        if call.error is not None:
            span.set_attribute(names.ERROR_TYPE, call.error.code)
            span.set_status(StatusCode.ERROR, call.error.message if self._has_content else None)
        if self._has_content:
            span.set_attributes(_content(call))

    def on_detach(self, state: Traced) -> None:
        """Restore the previous current span."""
        detach(state.token)


def tracing_of(observers: Iterable[Observer]) -> Tracing | None:
    """Return the tracing observer among ``observers``, if there is one."""
    return next((observer for observer in observers if isinstance(observer, Tracing)), None)


def parent_of(traceparent: str | None) -> tuple[Context | None, list[Link]]:
    """Return the context of a remote ``traceparent`` (W3C Trace Context), and a link to the local span.

    If there is no valid ``traceparent``, or it names the local span, the context is ``None``: the local span is the
    parent.
    """
    if traceparent is None:
        return None, []
    parent_context = _PROPAGATOR.extract({"traceparent": traceparent})
    if (remote := get_current_span(parent_context)) is INVALID_SPAN:
        return None, []
    local_context, remote_context = get_current_span().get_span_context(), remote.get_span_context()
    if (local_context.trace_id, local_context.span_id) == (remote_context.trace_id, remote_context.span_id):
        return None, []
    return parent_context, [Link(local_context)] if local_context.is_valid else []


def traceparent_of(context: SpanContext) -> str:
    """Return a span context as a W3C ``traceparent``."""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def _attributes(call: Invocation) -> dict[str, Any]:  # of OpenTelemetry's attribute types, or None
    context, tool, snapshot = call.context, call.compiled.tool, call.context.snapshot
    is_agent = isinstance(context.block, Agent)
    return {
        names.TOOL_NAME: _name_of(call),
        names.TOOL_TYPE: "function",
        names.TOOL_DESCRIPTION: tool.description if tool else None,
        names.TOOL_CALL_ID: call.id,
        names.AGENT_NAME: context.block.name if is_agent else None,
        names.AGENT_ID: snapshot.agent_id if is_agent else None,
        names.CONVERSATION_ID: context.id,
        names.CAPABILITY: call.compiled.capability,
        names.EFFECT: tool.effect if tool else None,
        names.DECISION: call.decision.kind,
        names.OUTCOME: call.outcome,
        names.ATTEMPTS: call.attempts or None,
        names.RUNTIME_HASH: snapshot.runtime_hash,
    }


def _content(call: Invocation) -> dict[str, str]:
    """Return the arguments and the result as JSON text, masked and truncated like the arguments in a record."""
    attributes = {names.TOOL_CALL_ARGUMENTS: masked_arguments(call)}
    if call.error is None and call.value is not MISSING:
        redactor = call.context.runtime.redactor
        data = call.data if redactor is None else redactor(call.data)
        attributes[names.TOOL_CALL_RESULT] = canonical(redacted(data)).decode()
    return {name: _bounded(text) for name, text in attributes.items()}


def _bounded(text: str) -> str:
    return text if len(text) <= MAX_RECORDED_BYTES else f"{text[:MAX_RECORDED_BYTES]}…"


def _name_of(call: Invocation) -> str:
    return names.UNKNOWN_TOOL if call.compiled.tool is None else call.compiled.name


@cache
def _version() -> str:
    return version("capset")
