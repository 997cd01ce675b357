"""The rules for requests before they reach a route: head, host, origin, path and body size (spec 5, P15).

Scopes and the kernel decide what a caller may do; the shield decides how much of the server it may use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote_to_bytes

from capset.definitions.calls.files import MAX_FILE_BYTES
from capset.errors import CapsetError, DefinitionError, PermissionDenied
from capset.net.addresses import is_loopback
from capset_server.http.paths import APPROVAL_PAGE, CALLS_PATH, PROTOCOL_PATHS, SLACK_INTERACTIONS

if TYPE_CHECKING:
    from starlette.types import Scope

LARGE: Final = 64 * 1024
"""Bodies above this size, in bytes, are read into a temporary file, once it is known that they are allowed."""
MAX_ID: Final = 200
"""The maximum length of an id in a path, in characters; beyond it, 414."""
PUBLIC: Final = frozenset({"/v1/healthz", "/v1/readyz"})
"""The REST paths that need no key. Well-known paths need none either: clients without a key look there."""
LARGE_BODIES: Final = frozenset({CALLS_PATH, "/v1/sessions/{id}/messages", *PROTOCOL_PATHS})
"""The paths that accept larger bodies: a tool may allow large arguments, and a message may contain media."""
FORMS: Final = {APPROVAL_PAGE: 16 * 1024, SLACK_INTERACTIONS: 256 * 1024}
"""The paths with their own authentication, and the maximum size of their forms in bytes."""
_UPLOADS: Final = frozenset({"/v1/sessions/{id}/files/{path}", "/sessions/{id}/files/{path}"})
_WELL_KNOWN: Final = "/.well-known/"
_HOST: Final = re.compile(r"\*|[a-z0-9._-]+|\[[0-9a-f:.]+\]", re.IGNORECASE | re.ASCII)
_ORIGIN: Final = re.compile(r"null|[a-z][a-z0-9+.-]*://[^/?#@*\s]+/?", re.IGNORECASE | re.ASCII)


class HttpRefusal(CapsetError):
    """A request refused at the HTTP level."""

    def __init__(self, status: int, code: str, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retryable = retryable


def overloaded(message: str) -> HttpRefusal:
    """Return the refusal of a request for which there is no room; it can be retried."""
    return HttpRefusal(503, "overloaded", message, retryable=True)


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Limits on requests: sizes in bytes, times in seconds."""

    head: int = 32 * 1024
    """The request line and all headers; beyond it, 431."""
    body: int = 1024 * 1024
    """A body, unless the path or the called tool allows more; beyond it, 413."""
    large_body: int = 16 * 1024 * 1024
    """The body of a call, of an MCP request, or of a message to an agent; beyond it, 413."""
    json_values: int = 20_000
    """The values in a JSON body, counting lists, objects and their members; beyond it, 413."""
    memory: int = 128 * 1024 * 1024
    """All JSON bodies above 64 KiB that are held at once, each counted four times; without room, a request waits."""
    connections: int = 5_000
    """Connections; when one more arrives, an idle one is closed. Nine tenths of them may have requests under way, of
    which one principal gets at most half, and one organisation three quarters; beyond it, 429."""
    file: int = MAX_FILE_BYTES
    """A file's content, unless the kernel's governance sets another limit; beyond it, 413."""
    head_seconds: float = 10.0
    """Until the headers have arrived; beyond it, 408."""
    body_seconds: float = 5.0
    """Until 16 kB of a body must arrive per second; below that rate, 408."""
    send_seconds: float = 30.0
    """Until a client has accepted a part of a response; beyond it, the client is dropped."""
    beat_seconds: float = 15.0
    """Between two keep-alives of a stream."""
    share_seconds: float = 10.0
    """Until a request gets its turn, while others that have used less of the server go first; beyond it, 503."""
    turn_seconds: float = 3_600.0
    """A turn of an agent, not counting the time that it waits for approvals; beyond it, the turn fails."""
    turns: int = 16
    """Turns of agents that the server runs at once for one principal; beyond it, 429."""
    followers: int = 100
    """Streams of events that one principal may have open; beyond it, 429."""
    shield: bool = True
    """Whether the shield is on: fair shares, capacities per caller, and the limits on connections."""


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """The host names of this server (``*``: any), and the origins that browsers may call it from."""

    written: str
    hosts: frozenset[str]
    origins: frozenset[str] = frozenset()

    @classmethod
    def of(cls, bound: str, hosts: Iterable[str] = (), origins: Iterable[str] = ()) -> AllowedHosts:
        """Return the hosts and origins of a server bound to ``bound``; on loopback, all names of loopback are allowed.

        Raises ``DefinitionError`` for a host or an origin that no request could name.
        """
        hosts, origins = [*hosts], [*origins]
        if wrong := [host for host in hosts if not _HOST.fullmatch(host)]:
            raise DefinitionError(
                f"a host is a name or an address without scheme, port and path, or * for any; got {wrong[0]!r:.200}",
                hint="such as capset.example.com or [::1]; it stands for all ports",
            )
        if wrong := [origin for origin in origins if not _ORIGIN.fullmatch(origin)]:
            raise DefinitionError(
                f"an origin is a scheme and a host, and the port unless it is the default; got {wrong[0]!r:.200}",
                hint="such as https://console.example.com or http://localhost:3000",
            )
        loopback = ("localhost", "127.0.0.1", "[::1]") if is_loopback(bound) else ()
        bound_host = f"[{bound}]" if ":" in bound else bound
        named = (host.lower() for host in (bound_host, *loopback, *hosts))
        return cls(bound_host, frozenset(named), frozenset(origin.lower().rstrip("/") for origin in origins))

    def check(self, host: str, origin: str) -> None:
        """Raise ``HttpRefusal`` for a host that is not this server's, ``PermissionDenied`` for a foreign origin."""
        name, _, port = host.lower().rpartition(":")
        bare = name if name and port.isdigit() else host.lower()
        if "*" not in self.hosts and bare not in self.hosts:
            raise HttpRefusal(
                421, "wrong_host", "This server does not answer to that Host: start it with --allow-host NAME"
            )
        if origin and origin.lower() not in self.origins and origin.lower().partition("://")[2] != host.lower():
            raise PermissionDenied("Permission denied: this Origin is not allowed; --allow-origin ORIGIN allows it")


class BodyBounds(NamedTuple):
    """The maximum size of a body in bytes, and the maximum number of its values if it is JSON."""

    size: int
    values: int | None


def bounds_of_body(
    limits: RequestLimits, method: str, route: str | None, *, is_page: bool, is_known: bool
) -> BodyBounds:
    """Return the bounds of the body of a request; ``is_known`` is whether its caller has been identified."""
    if route in FORMS:
        return BodyBounds(FORMS[route], None)
    if not is_known:
        return BodyBounds(FORMS[APPROVAL_PAGE], None) if is_page else BodyBounds(0, limits.json_values)
    if is_upload(method, route):
        return BodyBounds(limits.file, None)
    if is_page:
        return BodyBounds(limits.large_body, None)
    return BodyBounds(limits.large_body if route in LARGE_BODIES else limits.body, limits.json_values)


def is_upload(method: str, route: str | None) -> bool:
    """Return whether a request uploads the content of a file."""
    return method == "PUT" and route in _UPLOADS


def needs_no_caller(path: str, route: str | None) -> bool:
    """Return whether a request needs no key: health checks, forms with their own tokens, and well-known paths.

    Clients look for metadata before they have a key (RFC 8615). Missing metadata is a 404, because clients would react
    to a 401 by looking for metadata.
    """
    is_well_known = path.startswith(_WELL_KNOWN) or (route is None and _WELL_KNOWN in path)
    return path in PUBLIC or route in FORMS or is_well_known


class HeadRules:
    """The rules for the heads of requests: their size, host, origin and path."""

    def __init__(self, limits: RequestLimits, names: AllowedHosts) -> None:
        self._head = limits.head
        self._names = names
        self._addressed: tuple[bytes | None, bytes | None] | None = None
        """The last accepted Host and Origin: most requests repeat them."""

    def check(self, scope: Scope, headers: Mapping[bytes, bytes], path: str, route: str | None) -> None:
        """Raise ``HttpRefusal`` for a head that is too large, a host that is not this server's, or an invalid path.

        Raises ``PermissionDenied`` for a foreign origin.
        """
        if size_of(scope["headers"]) + len(scope["raw_path"]) + len(scope["query_string"]) > self._head:
            raise HttpRefusal(431, "headers_too_large", f"A request's line and headers have at most {self._head} bytes")
        if len(path) > MAX_ID and route is not None:
            refuse_long_ids(path, route)
        addressed = headers.get(b"host"), headers.get(b"origin")
        if addressed != self._addressed:
            host, origin = ((value or b"").decode("latin-1") for value in addressed)
            self._names.check(host, origin)
            self._addressed = addressed
        if not _is_utf8(scope["raw_path"]):
            raise HttpRefusal(400, "invalid_path", "A path must be percent-encoded UTF-8")


def size_of(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """Return the size of headers on the wire, in bytes."""
    size = 0
    for name, value in headers:
        size += len(name) + len(value) + 4
    return size


def refuse_long_ids(path: str, route: str) -> None:
    """Raise ``HttpRefusal`` if an id in a path is too long to exist; the path of a file is not an id."""
    for name, segment in zip(route.split("/"), path.split("/"), strict=False):
        if len(segment) > MAX_ID and name.startswith("{") and name != "{path}":
            raise HttpRefusal(414, "id_too_long", f"An id has at most {MAX_ID} characters; this one has {len(segment)}")


def _is_utf8(raw_path: bytes) -> bool:
    """Return whether a percent-encoded path is UTF-8; two that are not could decode to the same name."""
    if b"%" not in raw_path:
        return raw_path.isascii()
    try:
        unquote_to_bytes(raw_path).decode()
    except UnicodeDecodeError:
        return False
    return True
