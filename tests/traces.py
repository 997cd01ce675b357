"""Spans that are kept in memory, and ways to read them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext

from capset.kernel.telemetry.tracing import Tracing


@dataclass
class Traces:
    """A provider of its own, since a process can set one up only once."""

    provider: TracerProvider = field(default_factory=lambda: TracerProvider(shutdown_on_exit=False))
    exporter: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)

    def __post_init__(self) -> None:
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def observer(self, *, content: bool | None = None) -> Tracing:
        """Return what makes spans here of a kernel's calls."""
        return Tracing(self.provider, content=content)

    @property
    def spans(self) -> list[ReadableSpan]:
        """Those that have ended, in the order in which they began."""
        return sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    @property
    def one(self) -> ReadableSpan:
        """The only span that has ended."""
        (span,) = self.spans
        return span

    @property
    def tree(self) -> list[str]:
        """The names of all spans, each indented below its parent; the children of one in the order of their start."""
        children: dict[int | None, list[ReadableSpan]] = {}
        ids = {id_of(span) for span in self.spans}
        for span in self.spans:
            above = span.parent.span_id if span.parent and span.parent.span_id in ids else None
            children.setdefault(above, []).append(span)

        def lines(above: int | None, depth: int) -> list[str]:
            return [
                line
                for span in children.get(above, ())
                for line in (f"{'  ' * depth}{span.name}", *lines(id_of(span), depth + 1))
            ]

        return lines(None, 0)

    @property
    def text(self) -> str:
        """All that leaves the process of them."""
        return "".join(json.dumps(json.loads(span.to_json())) for span in self.spans)


def context_of(span: ReadableSpan) -> SpanContext:
    """Return the ids of a span."""
    context = span.get_span_context()
    assert context is not None
    return context


def id_of(span: ReadableSpan) -> int:
    """Return the id of a span, in its trace."""
    return context_of(span).span_id


def said(span: ReadableSpan) -> dict[str, Any]:
    """Return the attributes of a span."""
    return dict(span.attributes or {})
