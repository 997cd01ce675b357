"""A server on this machine that answers every request alike, and keeps what it got."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from lab.corpus.expected import Received


class RecordingServer(ThreadingHTTPServer):
    """A server with the requests that it got."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: list[Received] = []

    @property
    def host(self) -> str:
        """Its address and port."""
        return f"127.0.0.1:{self.server_port}"

    def take(self) -> list[Received]:
        """Return the requests since the last time."""
        taken, self.received = self.received, []
        return taken


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def record(self) -> None:
        """Keep a request, and answer it with an empty JSON object."""
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        method, target, _version = self.requestline.split(" ", 2)
        headers = {name.lower(): text for name, text in self.headers.items()}
        cast("RecordingServer", self.server).received.append(Received(method, target, headers, body))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", "0" if method == "HEAD" else "2")
        self.end_headers()
        if method != "HEAD":
            self.wfile.write(b"{}")

    do_GET = do_PUT = do_POST = do_DELETE = do_OPTIONS = do_HEAD = do_PATCH = record

    def log_message(self, format: str, *args: Any) -> None:  # as it is there
        """Print nothing."""


@contextmanager
def recording() -> Generator[RecordingServer]:
    """Serve from a thread."""
    with RecordingServer() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
