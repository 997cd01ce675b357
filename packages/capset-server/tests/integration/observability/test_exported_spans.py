"""What leaves a server for a collector: one span a request, and nothing of its query or its headers (spec 5, P13)."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from tests.collector import Collector, collecting
from tests.helpers.server.running import EVERYTHING, Running, running
from tests.helpers.server.support import site
from tests.traces import Traces

pytestmark = pytest.mark.spec("P32", "T25")
ATTRIBUTES = {
    *("http.request.method", "http.route", "url.path", "url.scheme"),
    *("capset.correlation", "http.response.status_code"),
}
TOLD = {
    "User-Agent": "told-by-user-agent",
    "Cookie": "told-by-cookie=told-by-cookie-value",
    "Referer": "http://told-by-referer.example/",
    "X-Forwarded-For": "203.0.113.77",
    "X-Told-By-Name": "told-by-header",
    "baggage": "told-by-baggage=told-by-baggage-value",
    "tracestate": "told-by-tracestate=told-by-tracestate-value",
}
QUERY = "?told-by-query=told-by-value&limit=told-by-limit"
EVENTS = {"Accept": "text/event-stream"}


@dataclass
class Asked:
    """Requests, each in a trace of its own, and the spans that each is to leave."""

    server: Running
    key: str
    expected: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def __call__(
        self, status: int, method: str, path: str, *spans: str, leave: bool = False, **options: Any
    ) -> httpx2.Response:
        """Make one request, which is to be answered by a status; ``leave`` goes before the answer is whole."""
        trace = f"{len(self.expected) + 1:032x}"
        headers = {"Authorization": f"Bearer {self.key}", **TOLD, "traceparent": f"00-{trace}-00000000000000ff-01"}
        headers |= options.pop("headers", {})
        with (
            httpx2.Client(base_url=self.server.url, trust_env=False, timeout=20) as client,
            client.stream(method, path, headers=headers, **options) as answer,
        ):
            content = None if leave else answer.read()
        assert answer.status_code == status, (method, path, content)
        self.expected[trace] = list(spans)
        return answer


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Asked, Collector]]:
    """Give requests of every kind that were made of a real server, and the collector that it sent its spans to."""
    folder = tmp_path_factory.mktemp("traced")
    with collecting() as collector:
        environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "FASTAPI_OTEL_AUTO_CONFIGURE": "true"}
        with running(folder, **environ) as server:
            key = server.key("told-by-principal", org="told-by-org", scopes=EVERYTHING)
            asker = Asked(server, key)
            ask_everything(asker)
        yield asker, collector


def ask_everything(ask: Asked) -> None:
    """Ask for what there is, and for what is refused, by the application and before it."""
    body = {"name": "adder", "capabilities": ["test_math"]}
    agent = ask(201, "POST", "/v1/agents", "POST /v1/agents", json=body).json()["id"]
    session = ask(201, "POST", "/v1/sessions", "POST /v1/sessions", json={"agent_id": agent}).json()["id"]
    add = {"tool": "add", "arguments": {"a": 2, "b": 3}}
    calls, called = f"/v1/sessions/{session}/calls", ("POST /v1/sessions/{id}/calls", "execute_tool add")
    ask(200, "POST", calls, *called, json=add)
    ask(200, "POST", calls, *called, json=add, headers=EVENTS)
    events = f"/v1/sessions/{session}/events"
    ask(200, "GET", f"{events}?follow=false", "GET /v1/sessions/{id}/events", headers=EVENTS)
    ask(200, "GET", f"{events}?follow=true", "GET /v1/sessions/{id}/events", headers=EVENTS, leave=True)
    ask(200, "GET", "/v1/audit?tool=told-by-value", "GET /v1/audit")
    ask(200, "HEAD", "/v1/audit?tool=told-by-value", "HEAD /v1/audit")
    ask(200, "GET", "/v1/healthz", "GET /v1/healthz")
    ask(422, "GET", f"/v1/healthz{QUERY}", "GET /v1/healthz")
    ask(200, "GET", "/openapi.json?told-by-query=told-by-value", "GET /openapi.json")
    ask(422, "GET", f"/v1/agents{QUERY}", "GET /v1/agents")
    ask(422, "POST", f"/v1/sessions{QUERY}", "POST /v1/sessions", json={"told-by-body": "told-by-body"})
    ask(404, "GET", "/v1/agents/none", "GET /v1/agents/{id}")
    ask(404, "GET", f"/v2/none{QUERY}", "GET")
    ask(405, "PUT", f"/v1/agents{QUERY}", "PUT /v1/agents")
    ask(405, "PURGE", f"/v1/agents{QUERY}", "_OTHER /v1/agents")
    ask(401, "GET", f"/v1/agents{QUERY}", "GET /v1/agents", headers={"Authorization": "Bearer told-by-key"})
    ask(421, "GET", f"/v1/agents{QUERY}", "GET /v1/agents", headers={"Host": "told-by-host.example"})
    ask(403, "GET", f"/v1/agents{QUERY}", "GET /v1/agents", headers={"Origin": "http://told-by-origin.example"})
    ask(400, "GET", f"/v1/agents/%FF{QUERY}", "GET /v1/agents/{id}")
    # Little more than is allowed, so that it comes in one piece: the connection refuses a larger one, without a span.
    ask(431, "GET", f"/v1/agents{QUERY}", "GET /v1/agents", headers={"X-Long": "told-by-length" * 2_341})
    mcp, accepts = f"/mcp/agents/{agent}{QUERY}", {"Accept": "application/json, text/event-stream"}
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "add", "arguments": add["arguments"]},
    }
    spans = ("POST /mcp/agents/{id}", "tools/call add", "execute_tool add")
    ask(200, "POST", mcp, *spans, json=message, headers={**accepts, "MCP-Protocol-Version": "2025-11-25"})
    ask(405, "GET", mcp, "GET /mcp/agents/{id}", headers=accepts)


@pytest.mark.realtime
def test_a_request_leaves_one_span_and_a_message_one_below_it(asked: tuple[Asked, Collector]) -> None:
    asker, collector = asked
    names = {trace: [span.name for span in collector.trace(trace)] for trace in asker.expected}
    assert names == asker.expected
    assert len(collector.spans) == sum(map(len, asker.expected.values())), "no trace but those that were asked for"
    for trace in asker.expected:
        first, *others = collector.trace(trace)
        assert (first.kind, first.parent_span_id.hex()) == (Span.SPAN_KIND_SERVER, "00000000000000ff")
        messages = [span for span in others if span.kind == Span.SPAN_KIND_SERVER]
        assert [span.parent_span_id for span in messages] == [first.span_id] * first.name.startswith("POST /mcp")
    assert (collector.scopes, collector.others) == ({"capset"}, [])


@pytest.mark.realtime
def test_no_span_tells_of_a_query_a_header_or_who_asked(asked: tuple[Asked, Collector]) -> None:
    asker, collector = asked
    requests = [collector.trace(trace)[0] for trace in asker.expected]
    assert {attribute.key for span in requests for attribute in span.attributes} <= {*ATTRIBUTES, "error.type"}
    assert not [span.name for span in collector.spans if span.events or span.trace_state or span.status.message]
    text = collector.text.lower()
    assert "told-by" not in text
    assert TOLD["X-Forwarded-For"] not in text
    assert asker.key not in collector.text


async def test_a_hosts_own_providers_hear_nothing_of_the_framework(monkeypatch: pytest.MonkeyPatch) -> None:
    traces, reader, logged = Traces(), InMemoryMetricReader(), InMemoryLogRecordExporter()
    logs = LoggerProvider(shutdown_on_exit=False)
    logs.add_log_record_processor(SimpleLogRecordProcessor(logged))
    meters = MeterProvider([reader], shutdown_on_exit=False)
    # A process can set these only once, and other tests want it without.
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", traces.provider)
    monkeypatch.setattr("opentelemetry.metrics._internal._METER_PROVIDER", meters)
    monkeypatch.setattr("opentelemetry._logs._internal._LOGGER_PROVIDER", logs)
    async with site() as server, server.client() as ada:
        assert (await ada.get(f"/v1/agents{QUERY}")).status_code == 422
    assert traces.one.name == "GET /v1/agents"
    assert "told-by" not in traces.text
    assert reader.get_metrics_data() is None
    assert not logged.get_finished_logs()
