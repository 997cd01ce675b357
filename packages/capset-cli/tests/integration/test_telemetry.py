"""``capset serve`` sends its traces where the environment says (spec 5, P13)."""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path

import httpx2
import pytest

from capset.errors import DefinitionError
from capset.extras import install_command
from capset_cli.serve.telemetry import requested_exporters
from tests.collector import Collector, collecting
from tests.helpers.cli.support import Run
from tests.helpers.server.running import running

pytestmark = pytest.mark.spec("P13")
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.fixture
def collector() -> Generator[Collector]:
    """Give a collector that runs."""
    with collecting() as receiver:
        yield receiver


@pytest.mark.realtime
@pytest.mark.parametrize("named", [{}, {"OTEL_SERVICE_NAME": "my-tools"}])
def test_what_was_not_sent_is_sent_at_the_end(tmp_path: Path, collector: Collector, named: dict[str, str]) -> None:
    waits = {"OTEL_BSP_SCHEDULE_DELAY": "3600000"}
    environ = {ENDPOINT: collector.url, **waits, **named}
    with (
        running(tmp_path, "--insecure", **environ) as server,
        httpx2.Client(base_url=server.url, trust_env=False) as client,
    ):
        agent = client.post("/v1/agents", json={"name": "adder", "capabilities": ["test_math"]}).json()
        session = client.post("/v1/sessions", json={"agent_id": agent["id"]}).json()
        call = {"tool": "add", "arguments": {"a": 2, "b": 3}}
        assert client.post(f"/v1/sessions/{session['id']}/calls", json=call).status_code == 200
        assert collector.names == []
    assert {"POST /v1/sessions/{id}/calls", "execute_tool add", "POST /v1/agents"} <= set(collector.names)
    assert collector.services == {named.get("OTEL_SERVICE_NAME", "capset")}
    assert '"trace_id"' in server.log.read_text()


def test_without_the_extra_it_says_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:4318")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    done = run("serve", "--port", "0")
    assert done.code == 2
    assert "needs the extra 'otel'" in done.err
    assert install_command("otel") in done.err


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"OTEL_TRACES_EXPORTER": "jaeger"}, "OTEL_TRACES_EXPORTER must be otlp, console or none; got 'jaeger'"),
        ({ENDPOINT: "http://x", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "traces are sent as http/protobuf; got 'grpc'"),
    ],
)
def test_what_cannot_be_sent_is_refused(environ: dict[str, str], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        requested_exporters(environ)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, []),
        ({ENDPOINT: ""}, []),
        ({ENDPOINT: "http://x"}, ["otlp"]),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, ["otlp"]),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, ["otlp"]),
        ({"OTEL_TRACES_EXPORTER": " Console, otlp,console"}, ["console", "otlp"]),
        ({ENDPOINT: "http://x", "OTEL_TRACES_EXPORTER": "none"}, []),
        ({ENDPOINT: "http://x", "OTEL_SDK_DISABLED": "true"}, []),
        ({"OTEL_TRACES_EXPORTER": "console", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, ["console"]),
        (
            {
                ENDPOINT: "http://x",
                "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
                "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
            },
            ["otlp"],
        ),
    ],
)
def test_the_environment_says_which_exporters(environ: dict[str, str], expected: list[str]) -> None:
    assert requested_exporters(environ) == expected
