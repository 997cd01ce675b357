"""The state and the limits of one request, shared by everything that handles it (spec 5, P15)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from starlette.types import Scope

from capset.definitions.files import FILE_BYTES
from capset.errors import CapsetError
from capset.server.auth.callers import Caller

_CORRELATION: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
FOLLOWERS: Final = 100
CLIENT_LEFT: Final = 499
"""The logged status of a request whose client disconnected before it was answered."""
KEY: Final = "capset.visit"
"""The key of the request context in an ASGI scope."""


class HttpRefusal(CapsetError):
    """A request refused at the HTTP level."""

    def __init__(self, status: int, code: str, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retryable = retryable


@dataclass(eq=False, slots=True)
class RequestContext:
    """A request's caller, correlation and headers; ``headers`` has the last value of each, by lower-case name."""

    correlation: str
    headers: dict[bytes, bytes] = field(repr=False)
    caller: Caller | None = None
    status: int = 0
    route: str | None = None
    """The path template, if the path exists."""
    notes: dict[str, str] = field(default_factory=dict[str, str])
    """Further fields of the access log line."""

    def header(self, name: bytes) -> str:
        """Return a header, ``""`` if absent."""
        return self.headers.get(name, b"").decode("latin-1")


def path_of(scope: Scope) -> str:
    """Return the requested path, relative to the application's root path."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def request_context(scope: Scope) -> RequestContext:
    """Return the context of a request that passed the middleware."""
    return scope[KEY]


def caller_of(scope: Scope) -> Caller:
    """Return the caller. Raises ``RuntimeError`` on paths without authentication."""
    caller = request_context(scope).caller
    if caller is None:
        raise RuntimeError("this path is open to everyone: its callers are not identified")
    return caller


def correlation_of(given: bytes | None) -> str | None:
    """Return the client's own correlation id, if it is 1–100 letters, digits, dots, underscores and hyphens."""
    text = given.decode("latin-1") if given else ""
    return text if _CORRELATION.fullmatch(text) else None


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Sizes in bytes, times in seconds."""

    head: int = 32 * 1024
    """The request line and all headers; beyond it, 431."""
    body: int = 16 * 1024 * 1024
    """A body; beyond it, 413."""
    file: int = FILE_BYTES
    """A file's content, unless the kernel's governance sets another limit; beyond it, 413."""
    head_seconds: float = 10.0
    """Until the headers have arrived; beyond it, 408."""
    body_seconds: float = 30.0
    """Between two parts of a body; beyond it, 408."""
    send_seconds: float = 30.0
    """Until a client has accepted part of a stream; beyond it, the client is dropped."""
    beat_seconds: float = 15.0
    """Between two keep-alives of a stream."""
    followers: int = FOLLOWERS
    """Streams of events that one principal may have open; beyond it, 429."""
