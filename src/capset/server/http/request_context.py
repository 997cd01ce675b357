"""The state of one request, shared by everything that handles it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from starlette.types import Scope

from capset.errors import CapsetError
from capset.server.auth.callers import Caller

_CORRELATION: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
CLIENT_LEFT: Final = 499
"""The logged status of a request whose client disconnected before it was answered."""
KEY: Final = "capset.visit"
"""The key of the request context in an ASGI scope."""


class HttpRefusal(CapsetError):
    """A request refused at the HTTP level."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


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
