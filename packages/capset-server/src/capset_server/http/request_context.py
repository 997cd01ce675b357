"""The state and the limits of one request, shared by everything that handles it (spec 5, P15)."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from starlette.types import Scope

from capset.definitions.files import FILE_BYTES
from capset.errors import CapsetError
from capset_server.auth.callers import Caller

if TYPE_CHECKING:
    from capset_server.http.bodies import RequestBody, Reservation

_CORRELATION: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
CLIENT_LEFT: Final = 499
"""The logged status of a request whose client disconnected before it was answered."""
MAX_ID: Final = 200
"""The maximum length of an id in a path, in characters; beyond it, 414."""
KEY: Final = "capset.visit"
"""The key of the request context in an ASGI scope."""
ARRIVED: Final = "capset.arrived"
"""The key that says in an ASGI scope whether the whole body was there when the request was passed on."""


class HttpRefusal(CapsetError):
    """A request refused at the HTTP level."""

    def __init__(self, status: int, code: str, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retryable = retryable


def overloaded(message: str) -> HttpRefusal:
    """Return the refusal of a request that found no room, and may come again."""
    return HttpRefusal(503, "overloaded", message, retryable=True)


@dataclass(eq=False, slots=True)
class RequestContext:
    """A request's caller, correlation and headers; ``headers`` has the last value of each, by lower-case name."""

    correlation: str
    headers: dict[bytes, bytes] = field(repr=False)
    caller: Caller | None = None
    status: int = 0
    route: str | None = None
    """The path template, if the path exists."""
    memory: Reservation | None = None
    """The memory for what is held whole; ``None`` on paths without authentication."""
    body: RequestBody | None = None
    """The body, once its limits are known."""
    transfer: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    """Waits for one of the caller's large transfers, and holds it while inside."""
    refusal: str | None = None
    """The code of the ``HttpRefusal`` that it was answered with, if it was."""
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


def correlation_of(given: bytes | None) -> str | None:
    """Return the client's own correlation id, if it is 1–100 letters, digits, dots, underscores and hyphens."""
    text = given.decode("latin-1") if given else ""
    return text if _CORRELATION.fullmatch(text) else None


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Sizes in bytes, times in seconds."""

    head: int = 32 * 1024
    """The request line and all headers; beyond it, 431."""
    body: int = 1024 * 1024
    """A body, where the path or the tool that is called allows no more; beyond it, 413."""
    large_body: int = 16 * 1024 * 1024
    """A body of a call, of MCP and of a message to an agent; beyond it, 413."""
    json_values: int = 20_000
    """The values in a JSON body, counting lists, objects and what is in them; beyond it, 413."""
    memory: int = 128 * 1024 * 1024
    """All JSON above 64 KiB that is held at once, four times each; what finds no room in it waits."""
    connections: int = 5_000
    """Connections; for the next one, an idle one is closed. Nine of ten may have requests under way, in fair slots:
    one principal at most half of these, one organisation three quarters; beyond it, 429."""
    file: int = FILE_BYTES
    """A file's content, unless the kernel's governance sets another limit; beyond it, 413."""
    head_seconds: float = 10.0
    """Until the headers have arrived; beyond it, 408."""
    body_seconds: float = 5.0
    """Until 16 kB of a body have to come each second; below it, 408."""
    send_seconds: float = 30.0
    """Until a client has accepted part of an answer; beyond it, the client is dropped."""
    beat_seconds: float = 15.0
    """Between two keep-alives of a stream."""
    share_seconds: float = 10.0
    """Until a request comes to its turn while others have had less of the server; beyond it, 503."""
    turn_seconds: float = 3_600.0
    """A turn of an agent, without the time that it waits for approvals; beyond it, the turn fails."""
    turns: int = 16
    """Turns of agents of one principal that the server runs at once; beyond it, 429."""
    followers: int = 100
    """Streams of events that one principal may have open; beyond it, 429."""
