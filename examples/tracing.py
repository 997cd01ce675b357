"""A call that makes two others, as OpenTelemetry sees it: one span each, with its arguments where they were asked for.

It needs the extra `otel`. A server with a collector needs no code at all: see the guide, "Operate".
"""

import asyncio

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from capset import Agent, Capability, Context, Kernel, Principal, ToolError, tool
from capset.kernel.telemetry.tracing import Tracing

spans = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)  # a kernel that is entered now traces its calls by itself


@tool(effect="external")
async def exchange_rate(currency: str, api_key: str) -> float:
    """Look up how many units of a currency one euro buys."""
    if currency == "XAU":
        raise ToolError("there is no rate for gold", code="no_rate")
    return 1.25


@tool(effect="read")
async def convert(ctx: Context, euros: float, currencies: list[str]) -> list[float]:
    """Convert euros into other currencies."""
    return [euros * await ctx.call(exchange_rate, currency, api_key="sk-secret") for currency in currencies]


teller = Agent("teller", uses=[Capability("money", tools=[exchange_rate, convert])])


def show(recorded_spans: list[ReadableSpan], above: int | None = None, depth: int = 0) -> None:
    """Print the spans below one, in the order of their start."""
    for span in sorted(recorded_spans, key=lambda candidate: candidate.start_time or 0):
        if (span.parent.span_id if span.parent else None) != above or span.context is None:
            continue
        attributes = dict(span.attributes or {})
        details = [
            attributes[name]
            for name in ("capset.outcome", "error.type", "gen_ai.tool.call.arguments")
            if name in attributes
        ]
        print("  " * depth + span.name, *details)
        show(recorded_spans, span.context.span_id, depth + 1)


async def main() -> None:
    async with Kernel(store="memory://") as kernel, kernel.open(teller, principal=Principal("ada")) as session:
        await session.try_call(convert, 100.0, ["USD", "XAU"])
    show(list(spans.get_finished_spans()))

    spans.clear()
    with_content = Tracing(provider, content=True)  # secrets are masked, as in records
    async with (
        Kernel(store="memory://", observers=[with_content]) as kernel,
        kernel.open(teller, principal=Principal("ada")) as session,
    ):
        await session.call(convert, 100.0, ["USD"])
    show(list(spans.get_finished_spans()))


asyncio.run(main())
