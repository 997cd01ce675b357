"""One request on its way through the server, and what all of its handling shares."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from starlette.types import Scope

from capset.errors import CapsetError
from capset.server.auth.callers import Caller

_CORRELATION: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
CLIENT_LEFT: Final = 499
"""What is said of a request whose client left before it was answered."""
KEY: Final = "capset.visit"
"""Where a visit stands in an ASGI scope."""


class HttpRefusal(CapsetError):
    """A request that HTTP itself refuses."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


@dataclass(eq=False, slots=True)
class RequestContext:
    """Who asks what under which correlation; ``headers`` has the last value of each, by its name in lower case."""

    correlation: str
    headers: dict[bytes, bytes] = field(repr=False)
    caller: Caller | None = None
    status: int = 0
    route: str | None = None
    """The template of the path, if there is such a path."""
    notes: dict[str, str] = field(default_factory=dict[str, str])
    """What the line of the log should have besides."""

    def header(self, name: bytes) -> str:
        """Return a header, ``""`` for none."""
        return self.headers.get(name, b"").decode("latin-1")


def path_of(scope: Scope) -> str:
    """Return the path that was asked for, below wherever a host has put the application."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def request_context(scope: Scope) -> RequestContext:
    """Return the visit of a request that came through the gate."""
    return scope[KEY]


def caller_of(scope: Scope) -> Caller:
    """Return who asks. Raises ``RuntimeError`` where nobody had to be known."""
    caller = request_context(scope).caller
    if caller is None:
        raise RuntimeError("this path is open to everybody: nobody was asked who they are")
    return caller


def correlation_of(given: bytes | None) -> str | None:
    """Return a client's own correlation, if it is 1–100 letters, digits, dots, underscores and hyphens."""
    text = given.decode("latin-1") if given else ""
    return text if _CORRELATION.fullmatch(text) else None
