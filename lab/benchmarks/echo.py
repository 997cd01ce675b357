"""A raw ASGI echo on the server's own uvicorn: what serving costs before anybody does anything."""

from __future__ import annotations

import asyncio
import sys

import uvloop
from starlette.types import Receive, Scope, Send

from capset_server.http.request_rules import RequestLimits
from capset_server.http.uvicorn_server import bind, serve


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the body."""
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def main() -> None:
    """Serve on a free port, and print it on stderr as ``capset serve`` does."""
    with bind("127.0.0.1", 0) as bound:
        address = f"http://127.0.0.1:{bound.getsockname()[1]}"

        def started() -> None:
            print(f"echo serves {address}", file=sys.stderr, flush=True)

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(echo, bound, RequestLimits(), started=started))


if __name__ == "__main__":
    main()
