"""A reverse proxy that cuts the beginning off the paths that it passes on.

Its arguments are that beginning, and the port behind it. It prints its own port when it listens.
"""

from __future__ import annotations

import sys
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

OF_THE_HOP = ("connection", "content-length", "transfer-encoding")


class Proxy(BaseHTTPRequestHandler):
    """Passes one request on, and its answer back."""

    protocol_version = "HTTP/1.1"
    prefix = ""
    port_behind = 0

    def pass_on(self) -> None:
        """Pass a request on."""
        if not self.path.startswith(f"{self.prefix}/"):
            return self.send_error(404)
        content = self.rfile.read(int(self.headers.get("content-length") or 0))
        behind = HTTPConnection("127.0.0.1", self.port_behind)
        behind.putrequest(self.command, self.path.removeprefix(self.prefix), skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            behind.putheader(name, value)
        behind.endheaders(content)
        answer = behind.getresponse()
        body = answer.read()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in OF_THE_HOP:
                self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        behind.close()
        return None

    do_GET = do_POST = pass_on  # the names that the library looks for


if __name__ == "__main__":
    Proxy.prefix, Proxy.port_behind = sys.argv[1], int(sys.argv[2])
    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()
