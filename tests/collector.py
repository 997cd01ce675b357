"""A collector of traces on a port of this machine, and ways to read what came."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass
class Collector:
    """Takes traces over HTTP, as an OpenTelemetry collector does."""

    url: str = ""
    services: set[str] = field(default_factory=set[str])
    scopes: set[str] = field(default_factory=set[str])
    spans: list[Any] = field(default_factory=list[Any])  # protobuf's own class, made when it is imported
    others: list[str] = field(default_factory=list[str])
    """The paths of what is no trace, such as metrics and logs."""

    @property
    def names(self) -> list[str]:
        """The names of all spans."""
        return [span.name for span in self.spans]

    @property
    def text(self) -> str:
        """All that was told, as text."""
        return "".join(map(str, self.spans))

    def trace(self, trace: str) -> list[Any]:
        """Return the spans of one trace, in the order of their start."""
        return sorted(
            (span for span in self.spans if span.trace_id.hex() == trace), key=lambda span: span.start_time_unix_nano
        )

    def take(self, path: str, body: bytes) -> None:
        """Read one batch."""
        if path != "/v1/traces":
            self.others.append(path)
            return
        batch: Any = ExportTraceServiceRequest.FromString(body)
        for of in batch.resource_spans:
            attributes = {attribute.key: attribute.value.string_value for attribute in of.resource.attributes}
            self.services.add(attributes["service.name"])
            for scope in of.scope_spans:
                self.scopes.add(scope.scope.name)
                self.spans += scope.spans


@contextmanager
def collecting() -> Generator[Collector]:
    """Give a collector that runs."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            collector.take(self.path, gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        collector.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()
