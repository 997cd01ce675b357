"""The state of one request, shared by everything that handles it (spec 5, P15)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from capset_server.auth.callers import Caller
from capset_server.http.request_rules import HttpRefusal
from capset_server.shield.guard import UNGUARDED, RequestGuard

if TYPE_CHECKING:
    from starlette.types import Scope

    from capset_server.http.bodies import RequestBody

_CORRELATION: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
CLIENT_LEFT: Final = 499
"""The logged status of a request whose client disconnected before it was answered."""
KEY: Final = "capset.visit"
"""The key of the request context in an ASGI scope."""
ARRIVED: Final = "capset.arrived"
"""The key in an ASGI scope for whether the whole body had arrived when the request was passed on."""


@dataclass(eq=False, slots=True)
class RequestContext:
    """A request's caller, correlation and headers; ``headers`` has the last value of each, by lower-case name."""

    correlation: str
    headers: dict[bytes, bytes] = field(repr=False)
    caller: Caller | None = None
    status: int = 0
    route: str | None = None
    """The path template, if the path exists."""
    guard: RequestGuard = UNGUARDED
    """The request's share of the server."""
    body: RequestBody | None = None
    """The body, once its limits are known."""
    refusal: str | None = None
    """The code of the ``HttpRefusal`` with which the request was answered, if any."""
    notes: dict[str, str] = field(default_factory=dict[str, str])
    """Further fields of the access log line."""

    def header(self, name: bytes) -> str:
        """Return a header, ``""`` if absent."""
        return self.headers.get(name, b"").decode("latin-1")


def note_refusal(request_info: RequestContext, error: Exception) -> None:
    """Note the code of an ``HttpRefusal``, for the metrics."""
    if isinstance(error, HttpRefusal):
        request_info.refusal = error.code


def path_of(scope: Scope) -> str:
    """Return the requested path, relative to the application's root path."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def request_context(scope: Scope) -> RequestContext:
    """Return the context of a request that passed the middleware."""
    return scope[KEY]


def body_of(scope: Scope) -> RequestBody:
    """Return the body of a request that passed the middleware."""
    body = request_context(scope).body
    if body is None:
        raise RuntimeError("the limits of this body are not known yet")
    return body


def caller_of(scope: Scope) -> Caller:
    """Return the caller. Raises ``RuntimeError`` on paths without authentication."""
    caller = request_context(scope).caller
    if caller is None:
        raise RuntimeError("this path is open to everyone: its callers are not identified")
    return caller


def correlation_of(header: bytes | None) -> str | None:
    """Return the client's own correlation id, if it is 1–100 letters, digits, dots, underscores and hyphens."""
    text = header.decode("latin-1") if header else ""
    return text if _CORRELATION.fullmatch(text) else None
