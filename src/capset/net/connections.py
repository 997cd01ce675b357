"""Connections to checked addresses only (spec 4, G29). Imports httpcore2, so it is loaded only when needed."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Final, TypeVar

import h11
import httpcore2

from capset.errors import ToolError, TransientError
from capset.net.addresses import Allowed, Resolver

T = TypeVar("T")

_TRIED: Final = 4
"""How many addresses of one name are tried; all are checked."""
_SECONDS: Final = 3.0
"""How long a connection to one address may take, in seconds, if there are others."""
MAX_INTERIM: Final = 8
"""How many interim responses (1xx) may come before a response: RFC 9110 sets no limit, and servers send one or two."""
_TOO_LONG: Final = 431
"""The status with which h11 rejects a line or headers without end; it reads 100 KiB of them."""


class CheckedNetwork(httpcore2.AsyncNetworkBackend):
    """Resolves a name, checks every address, and connects to one of those: the name is not looked up again.

    The check is made where the connection is, so nothing can change between check and use. TLS still uses the name,
    since httpcore requests it with the host of the URL. With a total limit of ``seconds``, every address gets an equal
    share at most.
    """

    def __init__(
        self,
        resolver: Resolver,
        allowed: Allowed,
        below: httpcore2.AsyncNetworkBackend,
        seconds: float | None = None,
    ) -> None:
        self._resolver = resolver
        self._allowed = allowed
        self._below = below
        self._seconds = seconds
        self._streams: list[httpcore2.AsyncNetworkStream] = []

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to the first address that answers.

        Raises ``ToolError`` (``address_refused``) if any address of the host is refused.
        """

        async def connect(address: str, seconds: float | None) -> httpcore2.AsyncNetworkStream:
            stream = await self._below.connect_tcp(address, port, seconds, socket_options=socket_options)
            self._streams.append(stream)
            return stream

        addresses = await checked_addresses(host, port, self._resolver, self._allowed)
        each = _SECONDS if self._seconds is None else min(_SECONDS, self._seconds / len(addresses))
        return await first_connected(addresses, connect, timeout, each)

    async def aclose(self) -> None:
        """Close every open stream: a cancelled handshake leaves one."""
        while self._streams:
            await self._streams.pop().aclose()


class CheckedConnection(httpcore2.AsyncHTTPConnection):
    """A connection over HTTP/1.1 that ends if more than ``MAX_INTERIM`` interim responses come before a response.

    httpcore itself reads them without end, and without a pause where many arrive at once.
    """

    async def handle_async_request(self, request: httpcore2.Request) -> httpcore2.Response:
        """Send a request, and return its response. Raises ``ToolError`` (``too_many_interim``) as well."""
        async with self._request_lock:
            if self._connection is None:
                try:
                    stream = await self._connect(request)
                except BaseException:
                    self._connect_failed = True
                    raise
                self._connection = _Exchanges(self._origin, stream, self._keepalive_expiry)
        return await super().handle_async_request(request)


class CheckedPool(httpcore2.AsyncConnectionPool):
    """A pool of such connections."""

    def create_connection(self, origin: httpcore2.Origin) -> httpcore2.AsyncConnectionInterface:
        """Return a connection that is not connected yet."""
        return CheckedConnection(origin, ssl_context=self._ssl_context, network_backend=self._network_backend)


class _Exchanges(httpcore2.AsyncHTTP11Connection):
    """Requests and responses on one stream."""

    _interim = 0

    async def _receive_event(self, timeout: float | None = None) -> h11.Event | type[h11.PAUSED]:
        event = await super()._receive_event(timeout)
        if isinstance(event, h11.InformationalResponse):
            self._interim += 1
            if self._interim > MAX_INTERIM:
                raise too_many_interim(self._origin.host.decode("ascii"))
        elif isinstance(event, h11.Response):
            self._interim = 0
        return event


async def first_connected(
    addresses: Sequence[str],
    connect: Callable[[str, float | None], Awaitable[T]],
    timeout: float | None,
    each: float = _SECONDS,
) -> T:
    """Return what ``connect`` makes of the first address that answers.

    It is given an address, and the seconds that it may take: all of ``timeout`` for the last one.
    """
    *others, last = addresses
    for address in others:
        try:
            return await connect(address, min(each, timeout or each))
        except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
            continue
    return await connect(last, timeout)


async def checked_addresses(host: str, port: int, resolver: Resolver, allowed: Allowed) -> Sequence[str]:
    """Return the addresses of a host to try, one at least.

    Raises ``ToolError``: ``address_refused`` if any address of the host is refused, ``unknown_host`` if it has none.
    """
    addresses = await _addresses(host, resolver)
    if not addresses:
        raise _unknown(host)
    if not all(allowed.takes(host, port, address) for address in addresses):
        raise ToolError(
            f"The host {host!r} leads to an address that is not public, and is no internal host that is allowed.",
            code="address_refused",
            status=403,
        )
    return addresses[:_TRIED]


async def _addresses(host: str, resolver: Resolver) -> Sequence[str]:
    if ":" in host or host.replace(".", "").isdigit():
        return [host]  # already in canonical form
    try:
        return await resolver(host)
    except OSError as error:
        if isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN:
            raise TransientError(f"The host {host!r} cannot be looked up just now.") from None
        return ()


@cache
def usual_tls() -> ssl.SSLContext:
    """Return the machine's own trust store, loaded once and without the environment."""
    import httpx2

    return httpx2.create_ssl_context(trust_env=False)


def _unknown(host: str) -> ToolError:
    return ToolError(f"The host {host!r} is unknown: no address belongs to it.", code="unknown_host", status=502)


def headers_too_long(host: str) -> ToolError:
    """Return the error of a response whose headers, or lines between parts of its body, are too long."""
    long = f"The host {host!r} sent headers, or a line between them, of more than 100 KiB."
    return ToolError(long, code="headers_too_long", status=502)


def too_many_interim(host: str) -> ToolError:
    """Return the error of a server that sends interim responses without coming to its response."""
    message = f"The host {host!r} sent more than {MAX_INTERIM} interim answers (1xx), and no answer."
    return ToolError(message, code="too_many_interim", status=502)


def _broken(host: str) -> TransientError:
    broken = f"The connection to {host!r} broke off, or what came over it is no HTTP."
    return TransientError(broken, code="unreachable")


@contextmanager
def convert_failures(host: str) -> Generator[None]:
    """Convert failures into a ``ToolError`` or a ``TransientError`` with a message that is safe to show."""
    try:
        yield
    except ssl.SSLError:  # after the handshake, httpcore raises nothing else for it
        raise _broken(host) from None
    except (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError) as error:
        cause = error.__cause__
        if isinstance(cause, ssl.SSLCertVerificationError):
            why = f"its certificate is not to be trusted: {cause.verify_message}"
        elif isinstance(cause, ssl.SSLError):
            why = "it does not speak TLS as is needed"
        elif getattr(cause, "error_status_hint", None) == _TOO_LONG:
            raise headers_too_long(host) from None
        elif isinstance(error, httpcore2.ConnectError | httpcore2.ConnectTimeout):
            raise TransientError(f"The host {host!r} cannot be reached.", code="unreachable") from None
        else:
            raise _broken(host) from None
        raise ToolError(f"The host {host!r} cannot be asked safely: {why}.", code="tls_failed", status=502) from None
