"""One request is one tree of spans, over REST and over MCP (spec 5, P13)."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.lowlevel import Server
from opentelemetry.trace import SpanKind, StatusCode

from capset import Context, tool
from capset.definitions.capabilities import Capability
from capset.ext import Governance
from capset_server.mcp.protocol import make_server
from capset_server.observability import logs
from capset_server.observability.log_writer import LogWriter
from tests.helpers.server.mcp.support import Era
from tests.helpers.server.support import Site, call, make_agent, make_session, site
from tests.traces import Traces, context_of, said
from tests.waiting import until

pytestmark = pytest.mark.spec("P13", "T25")
REMOTE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SECRET = "hunter2"


@tool(effect="write")
async def sign_in(user: str, password: str) -> dict[str, str]:
    """Sign in."""
    return {"user": user, "token": f"{SECRET}-token"}


@tool(effect="write")
async def sign_in_twice(ctx: Context, user: str, password: str) -> list[str]:
    """Sign in, twice."""
    return [(await ctx.call(sign_in, user=user, password=password))["user"] for _ in range(2)]


door = Capability("door", tools=[sign_in, sign_in_twice])


@asynccontextmanager
async def traced(traces: Traces, *, content: bool = True, **options: Any) -> AsyncGenerator[Site]:
    async with site(door, observers=[traces.observer(content=content)], **options) as server:
        yield server


@asynccontextmanager
async def mcp_client(server: Site, era: Era, agent: str) -> AsyncGenerator[Client]:
    headers = {"Authorization": f"Bearer {server.keys['ada']}"}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False, timeout=20) as http,
        Client(streamable_http_client(f"{server.url}/mcp/agents/{agent}", http_client=http), mode=era) as client,
    ):
        yield client


async def test_a_call_over_rest_is_one_tree() -> None:
    traces = Traces()
    async with traced(traces) as server, server.client() as ada:
        session = await make_session(ada, "door")
        traces.exporter.clear()
        answer = await call(ada, session, "sign_in_twice", user="ada", password=SECRET)
        assert answer.status_code == 200
    assert traces.tree == [
        "POST /v1/sessions/{id}/calls",
        "  execute_tool sign_in_twice",
        "    execute_tool sign_in",
        "    execute_tool sign_in",
    ]
    request, outer, *_ = traces.spans
    assert request.kind is SpanKind.SERVER
    assert said(request) == {
        "http.request.method": "POST",
        "http.route": "/v1/sessions/{id}/calls",
        "url.path": f"/v1/sessions/{session}/calls",
        "url.scheme": "http",
        "capset.correlation": answer.headers["x-correlation-id"],
        "http.response.status_code": 200,
    }
    assert json.loads(said(outer)["gen_ai.tool.call.arguments"]) == {"user": "ada", "password": "[redacted]"}
    assert said(outer)["gen_ai.tool.call.id"] == answer.json()["record"]
    assert_nothing_leaks(traces, server)


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_a_call_over_mcp_is_one_tree(era: Era) -> None:
    traces = Traces()
    async with traced(traces) as server, server.client() as ada:
        agent = await make_agent(ada, "door")
        async with mcp_client(server, era, agent["id"]) as client:
            traces.exporter.clear()
            called = await client.call_tool("sign_in_twice", {"user": "ada", "password": SECRET})
            assert not called.is_error
        spans = [span for span in traces.spans if context_of(span).trace_id == trace_of(traces, "sign_in_twice")]
    traces.exporter.clear()
    traces.exporter.export(spans)
    assert traces.tree == [
        "POST /mcp/agents/{id}",
        "  tools/call sign_in_twice",
        "    execute_tool sign_in_twice",
        "      execute_tool sign_in",
        "      execute_tool sign_in",
    ]
    _, message, outer, *_ = spans
    assert message.kind is SpanKind.SERVER
    attributes = said(message)
    assert (attributes["mcp.method.name"], attributes["gen_ai.tool.name"]) == ("tools/call", "sign_in_twice")
    assert attributes["mcp.protocol.version"] == ("2025-11-25" if era == "legacy" else "2026-07-28")
    assert attributes["jsonrpc.request.id"]
    assert "gen_ai.operation.name" not in attributes, "the call's own span says so, and only it"
    assert json.loads(said(outer)["gen_ai.tool.call.arguments"])["password"] == "[redacted]"
    assert_nothing_leaks(traces, server)


def test_the_sdks_own_span_of_each_message_is_taken_out() -> None:
    def names(server: Server[dict[str, Any]]) -> list[str]:
        return [type(middleware).__name__ for middleware in server.middleware]

    assert "OpenTelemetryMiddleware" in names(Server("plain")), "it has another name now: take that out instead"
    assert "OpenTelemetryMiddleware" not in names(make_server(lambda: pytest.fail("nobody asked")))


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_the_clients_own_words_are_in_no_name(era: Era) -> None:
    traces = Traces()
    async with traced(traces) as server, server.client() as ada:
        agent = await make_agent(ada, "door")
        async with mcp_client(server, era, agent["id"]) as client:
            traces.exporter.clear()
            assert (await client.call_tool(SECRET, {})).is_error
    named = {span.name for span in traces.spans}
    assert {"POST /mcp/agents/{id}", "tools/call", "execute_tool unknown_tool"} <= named
    (message,) = [span for span in traces.spans if span.name == "tools/call"]
    assert said(message)["error.type"] == "tool_error"
    assert not [span for span in traces.spans if SECRET in span.name]


async def test_the_trace_of_the_client_goes_on() -> None:
    traces = Traces()
    async with traced(traces) as server, server.client(headers={"traceparent": REMOTE}) as ada:
        session = await make_session(ada, "door")
        traces.exporter.clear()
        await call(ada, session, "sign_in", user="ada", password=SECRET)
    assert {f"{context_of(span).trace_id:032x}" for span in traces.spans} == {REMOTE[3:35]}


async def test_the_trace_in_a_messages_meta_goes_before_the_requests() -> None:
    traces = Traces()
    async with traced(traces) as server, server.client() as ada:
        agent = await make_agent(ada, "door")
        traces.exporter.clear()
        body = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {
                "name": "sign_in",
                "arguments": {"user": "ada", "password": SECRET},
                "_meta": {"traceparent": REMOTE},
            },
        }
        headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
        answer = await ada.post(f"/mcp/agents/{agent['id']}", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
    request, message, tool_span = traces.spans
    assert [f"{context_of(span).trace_id:032x}" == REMOTE[3:35] for span in (request, message, tool_span)] == [
        False,
        True,
        True,
    ]
    assert [link.context for link in message.links] == [context_of(request)]


@pytest.mark.parametrize(
    ("method", "named"),
    [
        ("initialize", "initialize"),
        ("ping", "ping"),
        ("tools/list", "tools/list"),
        ("notifications/initialized", "notifications/initialized"),
        ("notifications/progress", "notifications/progress"),
        (f"tools/{SECRET}", "_OTHER"),
    ],
)
async def test_a_message_is_named_by_its_method_if_there_is_such_a_one(method: str, named: str) -> None:
    traces = Traces()
    about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    params: dict[str, Any] = {
        "initialize": about,
        "notifications/progress": {"progressToken": 7, "progress": 1},
    }
    async with traced(traces) as server, server.client() as ada:
        agent = await make_agent(ada, "door")
        traces.exporter.clear()
        body: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params.get(method, {})}
        body |= {} if method.startswith("notifications/") else {"id": 1}
        headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
        answer = await ada.post(f"/mcp/agents/{agent['id']}", json=body, headers=headers)
        assert answer.status_code in (200, 202), answer.text
        await until(lambda: len(traces.spans) == 2)
    (span,) = (span for span in traces.spans if not span.name.startswith("POST"))
    assert (span.name, said(span)["mcp.method.name"]) == (named, named)


async def test_what_is_refused_has_a_span_too_and_is_no_error_of_the_servers() -> None:
    traces = Traces()
    async with traced(traces) as server, server.client(None) as stranger:
        assert (await stranger.get("/v1/agents/secret-agent")).status_code == 401
        assert (await stranger.get(f"/v2/{SECRET}?key={SECRET}-query")).status_code == 401
    known_route, unknown = traces.spans
    assert (known_route.name, unknown.name) == ("GET /v1/agents/{id}", "GET")
    assert [said(span)["http.response.status_code"] for span in traces.spans] == [401, 401]
    assert {span.status.status_code for span in traces.spans} == {StatusCode.UNSET}
    assert "http.route" not in said(unknown)
    assert f"{SECRET}-query" not in traces.text


async def test_what_fails_is_an_error() -> None:
    traces = Traces()
    async with traced(traces) as server, server.client() as ada:
        await server.kernel.store.close()
        try:
            traces.exporter.clear()
            assert (await ada.get("/v1/readyz")).status_code == 503
        finally:
            await server.kernel.store.open()
    assert said(traces.one)["error.type"] == "503"
    assert traces.one.status.status_code is StatusCode.ERROR
    assert traces.one.status.description is None


async def test_a_path_is_redacted_as_records_are() -> None:
    traces = Traces()
    async with traced(traces, governance=Governance(redact=["hunter[0-9]"])) as server, server.client(None) as stranger:
        await stranger.get(f"/v1/sessions/s/files/{SECRET}.txt")
    assert said(traces.one)["url.path"] == "/v1/sessions/s/files/[redacted].txt"


async def test_a_line_of_the_log_names_its_trace() -> None:
    traces = Traces()
    log = io.BytesIO()
    async with traced(traces, log=log) as server, server.client() as ada:
        await ada.get("/v1/agents")
    span = traces.one
    line = json.loads(log.getvalue())
    assert line["trace_id"] == f"{context_of(span).trace_id:032x}"
    assert line["span_id"] == f"{context_of(span).span_id:016x}"


def test_a_line_that_a_library_logs_names_its_trace() -> None:
    traces, stream = Traces(), io.BytesIO()
    log = LogWriter(stream)
    root, level = logging.getLogger(), logging.getLogger("capset").level
    before = root.handlers[:], root.level
    try:
        logs.configure(log)
        with traces.provider.get_tracer("host").start_as_current_span("a request"):
            logging.getLogger("capset.kernel").warning("something")
        logging.getLogger("capset.kernel").warning("something else")
        log.drain()
    finally:
        logging.captureWarnings(False)
        root.handlers[:], root.level = before
        logging.getLogger("capset").setLevel(level)
    within, outside = map(json.loads, stream.getvalue().splitlines())
    assert within["trace_id"] == f"{context_of(traces.one).trace_id:032x}"
    assert "trace_id" not in outside


async def test_without_tracing_nothing_is_traced_and_the_log_names_no_trace() -> None:
    log = io.BytesIO()
    async with site(door, log=log) as server, server.client() as ada:
        await ada.get("/v1/agents", headers={"traceparent": REMOTE})
    assert "trace_id" not in json.loads(log.getvalue())


def trace_of(traces: Traces, tool: str) -> int:
    """Return the trace in which a tool was called."""
    (span,) = [span for span in traces.spans if span.name == f"execute_tool {tool}"]
    return context_of(span).trace_id


def assert_nothing_leaks(traces: Traces, server: Site) -> None:
    """Check that no span holds a secret, a key, or who it was."""
    for secret in (SECRET, server.keys["ada"], "acme"):
        assert secret not in traces.text
