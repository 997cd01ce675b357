"""Spans of agents and of requests to models, by OpenTelemetry's conventions for generative AI (spec 5, P13).

They have no content: what was said is in the conversation. Calls of tools have their own spans, as children.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from opentelemetry.trace import Span, SpanKind, StatusCode, use_span
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model

from capset.errors import CapsetError, TurnSuspended
from capset.kernel.blocks.generation import Turn
from capset.kernel.telemetry import conventions as names
from capset.kernel.telemetry.tracing import Tracing


@contextmanager
def agent_span(tracing: Tracing | None, turn: Turn) -> Generator[None]:
    """Trace one run of an agent, if calls are traced. The span is current within."""
    if tracing is None:
        yield
        return
    attributes = {
        names.OPERATION: names.INVOKE_AGENT,
        names.AGENT_NAME: turn.name,
        names.CONVERSATION_ID: turn.session,
        names.CORRELATION: turn.correlation,
    }
    if turn.agent_id is not None:
        attributes[names.AGENT_ID] = turn.agent_id
    span = tracing.tracer.start_span(f"{names.INVOKE_AGENT} {turn.name}", kind=SpanKind.INTERNAL, attributes=attributes)
    with _current(span):
        yield


class ModelSpan:
    """The span of one request to a model; it does nothing if calls are not traced."""

    def __init__(self, span: Span | None) -> None:
        self._span = span

    def answered(self, response: ModelResponse) -> None:
        """Add the answer's model, its end and its usage to the span."""
        if self._span is None:
            return
        usage = response.usage
        self._span.set_attributes({names.INPUT_TOKENS: usage.input_tokens, names.OUTPUT_TOKENS: usage.output_tokens})
        if response.model_name is not None:
            self._span.set_attribute(names.RESPONSE_MODEL, response.model_name)
        if response.finish_reason is not None:
            self._span.set_attribute(names.FINISH_REASONS, [response.finish_reason])


@contextmanager
def model_span(tracing: Tracing | None, model: Model) -> Generator[ModelSpan]:
    """Trace one request to a model, if calls are traced."""
    if tracing is None:
        yield ModelSpan(None)
        return
    attributes = {
        names.OPERATION: names.CHAT,
        names.PROVIDER: model.system,
        names.REQUEST_MODEL: model.model_name,
    }
    span = tracing.tracer.start_span(f"{names.CHAT} {model.model_name}", kind=SpanKind.CLIENT, attributes=attributes)
    with _current(span):
        yield ModelSpan(span)


@contextmanager
def _current(span: Span) -> Generator[None]:
    """Make a span current, and end it. An error is named by its code or type only: its text may contain anything."""
    with use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        try:
            yield
        except TurnSuspended:  # it continues later, in another span
            raise
        except BaseException as error:
            span.set_attribute(names.ERROR_TYPE, error.code if isinstance(error, CapsetError) else type(error).__name__)
            span.set_status(StatusCode.ERROR)
            raise
