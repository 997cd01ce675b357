"""One request on its way through the server, and what all of its handling shares."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from starlette.types import Message, Receive, Scope

from capset.errors import CapsetError
from capset.server.caller import Caller

_CORRELATION: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
KEY: Final = "capset.visit"
"""Where a visit stands in an ASGI scope."""


class Refused(CapsetError):
    """A request that HTTP itself refuses."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


@dataclass(eq=False, slots=True)
class Visit:
    """Who asks what under which correlation; ``headers`` has the last value of each, by its name in lower case."""

    correlation: str
    headers: dict[bytes, bytes] = field(repr=False)
    caller: Caller | None = None
    status: int = 0
    notes: dict[str, str] = field(default_factory=dict[str, str])
    """What the line of the log should have besides."""

    def header(self, name: bytes) -> str:
        """Return a header, ``""`` for none."""
        return self.headers.get(name, b"").decode("latin-1")


def path_of(scope: Scope) -> str:
    """Return the path that was asked for, below wherever a host has put the application."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def visit_of(scope: Scope) -> Visit:
    """Return the visit of a request that came through the gate."""
    return scope[KEY]


def caller_of(scope: Scope) -> Caller:
    """Return who asks. Raises ``RuntimeError`` where nobody had to be known."""
    caller = visit_of(scope).caller
    if caller is None:
        raise RuntimeError("this path is open to everybody: nobody was asked who they are")
    return caller


def correlation_of(given: bytes | None, own: str) -> str:
    """Return a client's own correlation where it is 1–100 letters, digits, dots, underscores and hyphens."""
    text = (given or b"").decode("latin-1")
    return text if _CORRELATION.fullmatch(text) else own


def size_of(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """Return how many bytes headers take on the wire."""
    return sum(len(name) + len(value) + 4 for name, value in headers)


async def read_body(receive: Receive, declared: bytes | None, limit: int, seconds: float) -> bytes:
    """Return a request's whole body.

    Raises ``Refused`` for one that is too large or too slow, ``Gone`` if the client left.
    """
    if declared is not None and declared.isdigit() and (len(declared) > 18 or int(declared) > limit):
        raise _too_large(limit)
    message = await _next(receive, seconds)
    if not message.get("more_body"):
        body = message.get("body", b"")
        if len(body) > limit:
            raise _too_large(limit)
        return body
    parts, size = [message.get("body", b"")], len(message.get("body", b""))
    while message.get("more_body"):
        message = await _next(receive, seconds)
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        parts.append(part)
    return b"".join(parts)


class Gone(Exception):
    """The client left before its request was whole."""


def replaying(body: bytes, receive: Receive) -> Receive:
    """Return a ``receive`` that gives a body that was read already, and then what comes."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return first.pop() if first else await receive()

    return replayed


async def _next(receive: Receive, seconds: float) -> Message:
    try:
        async with asyncio.timeout(seconds):
            message = await receive()
    except TimeoutError:
        raise Refused(408, "request_timeout", f"Nothing of the body came for {seconds:g} seconds") from None
    if message["type"] == "http.disconnect":
        raise Gone
    return message


def _too_large(limit: int) -> Refused:
    return Refused(413, "body_too_large", f"A body has at most {limit} bytes here")
