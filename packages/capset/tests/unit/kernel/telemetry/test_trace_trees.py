"""Spans stand where their calls do: below what made them, in whatever task or thread that runs (spec 5, P13)."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from opentelemetry.trace import get_current_span

from capset import Context, Emit, Json, Message, Meta, handles, tool
from capset.kernel.telemetry.tracing import traceparent_of
from tests.helpers.kernel.streams.support import Done, made
from tests.helpers.kernel.support import read
from tests.helpers.kernel.telemetry.tracing import count, greet, traced, twice
from tests.traces import Traces, context_of

pytestmark = pytest.mark.spec("P13")
REMOTE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def traces() -> Traces:
    return Traces()


def greeting(traceparent: str) -> Message:
    """Return a message from elsewhere, sent in a span."""
    meta = Meta("sent-1", "2026-01-01T00:00:00.000000Z", "thread-1", traceparent=traceparent)
    return Message("query", "greet", Json(b'{"name":"bob"}'), meta)


async def test_nested_calls_are_below_the_call_that_made_them(traces: Traces) -> None:
    async with traced(traces) as session:
        await session.call(twice, name="bob")
    assert traces.tree == ["execute_tool twice", "  execute_tool greet", "  execute_tool greet"]


async def test_what_a_handler_does_is_below_its_span_in_threads_too(traces: Traces) -> None:
    tracer = traces.provider.get_tracer("host")

    @tool(effect="read")
    def slowly() -> str:
        """Work in a thread."""
        assert threading.current_thread() is not threading.main_thread()
        with tracer.start_as_current_span("own work"):
            return "done"

    async with traced(traces, slowly) as session:
        with tracer.start_as_current_span("a request"):
            await session.call(slowly)
            assert get_current_span().is_recording()
        assert not get_current_span().is_recording()
    assert traces.tree == ["a request", "  execute_tool slowly", "    own work"]


async def test_a_stream_is_one_span_and_its_messages_carry_it(traces: Traces) -> None:
    async with traced(traces) as session:
        messages = await read(session.stream(count, to=2))
        assert not get_current_span().is_recording()
    context = context_of(traces.one)
    traceparents = {message.meta.traceparent for message in messages if message.meta}
    assert traceparents == {f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"}
    assert traces.tree == ["execute_tool count"]


async def test_what_a_processor_does_is_below_the_call_that_it_works_for(traces: Traces) -> None:
    async def serve(message: Any, emit: Emit, ctx: Context) -> None:
        await ctx.call(greet, name="bob")
        with traces.provider.get_tracer("host").start_as_current_span(f"for {message.data.to}"):
            await emit(Done(data=1))

    counter = made(handles(serve), name="counter")
    async with traced(traces, greet, counter) as session, session.open("Work.Do") as bar:
        for number in (1, 2):
            await bar.send({"to": number})
            await anext(bar)
        bar.finish()
        assert [message async for message in bar] == []
    served = [["execute_tool counter", "  execute_tool greet", f"  for {number}"] for number in (1, 2)]
    assert traces.tree == [*served[0], *served[1]]


async def test_the_span_of_a_message_from_elsewhere_is_the_parent(traces: Traces) -> None:
    async with traced(traces) as session:
        with traces.provider.get_tracer("host").start_as_current_span("reading a queue") as outer_span:
            outer = outer_span.get_span_context()
            for traceparent in (REMOTE, "00-no-such-span", traceparent_of(outer)):
                await read(session.invoke(greeting(traceparent)))
    _, far, near, named = traces.spans
    assert far.parent is not None
    assert (f"{far.parent.trace_id:x}", f"{far.parent.span_id:x}") == tuple(REMOTE[3:-3].lstrip("0").split("-"))
    assert [link.context for link in far.links] == [outer]
    assert near.parent == named.parent == outer
    assert list(named.links) == []
