"""One span a call, by the conventions for the execution of tools (spec 5, P13)."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.trace import StatusCode

from capset import Agent, Capability, Json, tool
from capset.errors import PermissionDenied
from capset.ext import Governance
from tests.helpers.kernel.support import opened, read
from tests.helpers.kernel.telemetry.tracing import SECRET, fail, greet, traced, twice, unlock
from tests.traces import Traces, said
from tests.waiting import until

pytestmark = pytest.mark.spec("P13", "T25")


@pytest.fixture
def traces() -> Traces:
    return Traces()


async def test_a_call_is_one_span_with_the_conventional_attributes(traces: Traces) -> None:
    async with traced(traces) as session:
        result = await session.try_call(greet, name="bob")
    assert (traces.one.name, traces.one.kind.name) == ("execute_tool greet", "INTERNAL")
    assert said(traces.one) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "greet",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.description": "Greet somebody.",
        "gen_ai.tool.call.id": result.record,
        "gen_ai.agent.name": "tester",
        "gen_ai.agent.id": "agent-1",
        "gen_ai.conversation.id": session.id,
        "capset.capability": "kit",
        "capset.effect": "read",
        "capset.decision": "allow",
        "capset.outcome": "succeeded",
        "capset.attempts": 1,
        "capset.runtime_hash": result.runtime_hash,
    }
    assert traces.one.status.status_code is StatusCode.UNSET
    assert not traces.one.events


@pytest.mark.parametrize(
    ("name", "arguments", "code", "outcome"),
    [
        ("fail", {"why": "it rains"}, "refused_politely", "failed"),
        ("crash", {}, "internal_error", "failed"),
        ("unlock", {"code": "swordfish"}, "permission_denied", "denied"),
        ("greet", {"nmae": "bob"}, "invalid_arguments", "invalid"),
    ],
)
async def test_what_fails_names_its_error_and_says_nothing_of_it(
    name: str, arguments: dict[str, Any], code: str, outcome: str, traces: Traces
) -> None:
    async with traced(traces) as session:
        result = await session.try_message(session.message(name, arguments))
        assert result.error is not None
    attributes = said(traces.one)
    assert (attributes["error.type"], attributes["capset.outcome"], result.error.code) == (code, outcome, code)
    assert (traces.one.status.status_code, traces.one.status.description) == (StatusCode.ERROR, None)
    assert not traces.one.events
    assert not [value for value in ("it rains", SECRET, "swordfish", "nmae") if value in traces.text]


async def test_an_unknown_tool_has_no_name_of_the_callers_choice(traces: Traces) -> None:
    async with traced(traces) as session:
        await session.try_message(session.message("greet-" + "x" * 50, {}))
    assert traces.one.name == "execute_tool unknown_tool"
    assert said(traces.one)["gen_ai.tool.name"] == "unknown_tool"
    assert "xxx" not in traces.text


async def test_a_tool_of_dynamic_uses_has_its_name(traces: Traces) -> None:
    kit = Capability("kit", tools=[greet])
    async with opened(Agent("tester", uses=lambda ctx: [kit]), observers=[traces.observer()]) as desk:
        assert await desk.session.call(greet, name="bob") == "hello bob"
    assert traces.one.name == "execute_tool greet"
    attributes = said(traces.one)
    assert (attributes["gen_ai.tool.name"], attributes["capset.capability"]) == ("greet", "kit")


async def test_a_cancelled_call_ends_its_span(traces: Traces) -> None:
    started = asyncio.Event()

    @tool(effect="read")
    async def sleep() -> str:
        """Sleep."""
        started.set()
        await asyncio.Event().wait()
        return "late"

    async with traced(traces, sleep) as session:
        task = asyncio.ensure_future(session.call(sleep))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with session.stream(sleep):
            pass  # it is cancelled before its first step
    ends = [(said(span)["error.type"], said(span)["capset.outcome"]) for span in traces.spans]
    assert ends == [("cancelled", "cancelled")] * 2


async def test_the_span_of_a_call_that_is_given_up_ends_with_its_outcome(traces: Traces) -> None:
    release = threading.Event()

    @tool(effect="read", timeout=0.05)
    def stubborn() -> str:
        """Not stop."""
        release.wait(20)
        return "late"

    async with traced(traces, stubborn) as session:
        try:
            assert not (await session.try_call(stubborn)).success
            assert said(traces.one)["capset.outcome"] == "timed_out"
        finally:
            release.set()
    assert traces.one.end_time is not None


async def test_a_handler_that_swallows_its_deadline_has_a_span_that_ends_before_it(
    traces: Traces, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("capset.kernel.call.stages.run.CLEANUP_SECONDS", 0.05)
    release, gone = asyncio.Event(), asyncio.Event()

    @tool(effect="read", timeout=0.05)
    async def deaf() -> str:
        """Go on."""
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        gone.set()
        return "late"

    async with traced(traces, deaf) as session:
        reading = asyncio.ensure_future(read(session.stream(deaf)))
        try:
            await until(lambda: traces.spans)
            assert said(traces.one)["capset.outcome"] == "timed_out"
            assert not gone.is_set()
        finally:
            release.set()
        await gone.wait()
        await reading
    assert len(traces.spans) == 1


async def test_content_is_there_only_where_it_was_asked_for_and_then_masked() -> None:
    arguments = {"user": "ada", "password": SECRET, "pin": f"{SECRET}-pin", "key": f"{SECRET}-key"}
    for content in (False, True):
        traces = Traces()
        async with traced(traces, content=content) as session:
            await session.try_message(session.message("login", Json(json.dumps(arguments).encode())))
            await session.try_call(fail, why="it rains")
        logged, failed = traces.spans
        attributes = said(logged)
        assert attributes["capset.outcome"] == "succeeded"
        assert SECRET not in traces.text
        assert ("gen_ai.tool.call.arguments" in attributes) is ("gen_ai.tool.call.result" in attributes) is content
        assert failed.status.description == ("no: it rains" if content else None)
        if content:
            assert json.loads(attributes["gen_ai.tool.call.arguments"])["user"] == "ada"
            assert json.loads(attributes["gen_ai.tool.call.result"])["token"] == "[redacted]"


async def test_what_the_host_redacts_is_in_no_span(traces: Traces) -> None:
    async with traced(traces, content=True, governance=Governance(redact=["hunter[0-9]"])) as session:
        await session.call(greet, name=SECRET)
        await session.try_call(fail, why=SECRET)
    assert SECRET not in traces.text
    assert said(traces.spans[0])["gen_ai.tool.call.result"] == '"hello [redacted]"'


async def test_content_is_bounded(traces: Traces) -> None:
    async with traced(traces, content=True) as session:
        await session.call(greet, name="x" * 100_000)
    for name in ("arguments", "result"):
        assert len(said(traces.one)[f"gen_ai.tool.call.{name}"]) <= 16_385


async def test_spans_do_not_say_who_acts(traces: Traces) -> None:
    async with traced(traces, content=True) as session:
        with pytest.raises(PermissionDenied):
            await session.call(unlock, code="1")
        await session.call(twice, name="bob")
    assert not [value for value in ("acme", '"ada"') if value in traces.text]


@pytest.mark.parametrize(("value", "has_content"), [("true", True), ("SPAN_ONLY", True), ("false", False), ("", False)])
async def test_the_environment_may_ask_for_content(
    value: str, has_content: bool, traces: Traces, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", value)
    async with traced(traces) as session:
        await session.call(greet, name="bob")
    assert ("gen_ai.tool.call.result" in said(traces.one)) is has_content


async def test_a_span_that_is_not_sampled_costs_no_record_and_leaves_its_id() -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

    traces = Traces(TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False))
    async with traced(traces) as session:
        (reply,) = await read(session.stream(greet, name="bob"))
    assert traces.spans == []
    assert reply.meta is not None
    assert reply.meta.traceparent is not None
    assert int(reply.meta.traceparent[-2:], 16) & 1 == 0


@pytest.mark.realtime
def test_a_kernel_traces_by_itself_where_the_host_has_set_up_an_sdk_and_nowhere_else(tmp_path: Path) -> None:
    code = """
import asyncio, sys
from capset import Kernel

async def observers():
    async with Kernel(store="memory://") as kernel:
        return [type(one).__name__ for one in kernel.observers]

assert asyncio.run(observers()) == []
assert "opentelemetry" not in sys.modules and "capset.kernel.telemetry.tracing" not in sys.modules
from opentelemetry import trace
assert asyncio.run(observers()) == []  # the API alone makes no spans
assert "capset.kernel.telemetry.tracing" not in sys.modules
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider())
assert asyncio.run(observers()) == ["Tracing"]

async def none():
    async with Kernel(store="memory://", observers=()) as kernel:
        assert kernel.observers == ()

asyncio.run(none())
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True)
