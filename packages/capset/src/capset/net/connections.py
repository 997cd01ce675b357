"""Connections to checked addresses only (spec 4, G29). Imports httpcore2, so it is loaded only when needed."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, cast

import anyio
import h11
import httpcore2

from capset.errors import DefinitionError, ToolError, TransientError
from capset.net.addresses import Allowed, NotSent, Resolver, is_address
from capset.net.proxies import Proxies, Proxy

_TRIED: Final = 4
"""How many addresses of one name are tried; all are checked."""
_SECONDS: Final = 3.0
"""How long a connection to one address may take, in seconds, if there are others."""
_MAX_INTERIM: Final = 8
"""How many interim responses (1xx) may come before a response: RFC 9110 sets no limit, and servers send one or two."""
_TOO_LONG: Final = 431
"""The status with which h11 rejects a line or headers without end; it reads 100 KiB of them."""
MAX_CONNECTIONS: Final = 20
"""How many requests of one pool may run at once, those whose responses are streams among them; others wait."""
_IDLE_SECONDS: Final = 4.0
"""How long an idle connection is used again: servers close it after five seconds and more, and not while it is used."""
BUSY: Final = "busy"
"""The code of the error of a request that waited too long for others of its pool."""
_CONNECT_TRANSIENT: Final = frozenset({502, 503, 504})
"""The statuses of a proxy that did not reach the host."""


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
        below: httpcore2.AsyncNetworkBackend | None = None,
        seconds: float | None = None,
    ) -> None:
        self._resolver = resolver
        self._allowed = allowed
        self._below = below or cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())
        self._seconds = seconds
        self.is_closed = False
        """Whether new connections are refused."""

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
        if self.is_closed:
            raise httpcore2.ConnectError
        addresses = await _addresses(host, self._resolver)
        if not addresses:
            raise _unknown(host)
        _check(host, port, addresses, self._allowed)
        *others, last = addresses[:_TRIED]
        each = _SECONDS if self._seconds is None else min(_SECONDS, self._seconds / (len(others) + 1))
        for address in others:
            try:
                return await self._below.connect_tcp(
                    address, port, min(each, timeout or each), socket_options=socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await self._below.connect_tcp(last, port, timeout, socket_options=socket_options)

    async def connect_proxy(
        self, proxy: Proxy, host: str, port: int, timeout: float | None
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to a proxy that leads to a host.

        The proxy is where its host declared it, and looks names up itself. So an address is checked here if the URL is
        written with one, and none otherwise. Raises ``ToolError`` (``address_refused``), and ``NotSent`` if the proxy
        cannot be reached.
        """
        if self.is_closed:
            raise httpcore2.ConnectError
        if is_address(host):
            _check(host, port, [host], self._allowed)
        try:
            return await self._below.connect_tcp(proxy.host, proxy.port, timeout)
        except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
            raise NotSent(f"The proxy {proxy.host!r} cannot be reached.", code="unreachable") from None

    def close(self) -> None:
        """Refuse new connections."""
        self.is_closed = True


class CheckedConnection(httpcore2.AsyncHTTPConnection):
    """A connection over HTTP/1.1 to a checked address, or through a proxy.

    It ends if more than ``_MAX_INTERIM`` interim responses come before a response: httpcore itself reads them without
    end, and without a pause where many arrive at once.
    """

    def __init__(
        self,
        origin: httpcore2.Origin,
        network: CheckedNetwork,
        tls: Callable[[], ssl.SSLContext],
        proxy: Proxy | None = None,
        keepalive_expiry: float | None = None,
    ) -> None:
        super().__init__(origin, network_backend=network, keepalive_expiry=keepalive_expiry)
        self._network = network
        self._tls = tls
        self._proxy = proxy

    async def handle_async_request(self, request: httpcore2.Request) -> httpcore2.Response:
        """Send a request, and return its response.

        Raises ``ToolError`` (``too_many_interim``, ``proxy_refused``) and ``TransientError`` as well.
        """
        async with self._request_lock:
            if self._connection is None:
                try:
                    stream = await self._connected(request)
                except BaseException:
                    self._connect_failed = True
                    raise
                self._connection = _Exchanges(self._origin, stream, self._keepalive_expiry)
        if self._proxy is not None and self._origin.scheme == b"http":
            request = _for_proxy(request, self._origin, self._proxy)
        return await super().handle_async_request(request)

    async def _connected(self, request: httpcore2.Request) -> httpcore2.AsyncNetworkStream:
        """Return a stream on which the host is spoken to; a plain one to the proxy, if there is one, without TLS."""
        timeout = _timeouts(request).get("connect")
        host, port, proxy = self._origin.host.decode("ascii"), self._origin.port, self._proxy
        if proxy is None:
            stream = await self._network.connect_tcp(host, port, timeout)
        else:
            stream = await self._network.connect_proxy(proxy, host, port, timeout)
        try:
            if proxy is not None and proxy.scheme == "https":
                stream = await self._secured(stream, proxy.host, timeout)
            if self._origin.scheme == b"https":
                if proxy is not None:
                    stream = await self._tunnel(stream, proxy, request)
                stream = await self._secured(stream, host, timeout)
            if self._network.is_closed:  # in the meantime; the pool does not know this connection any more
                raise httpcore2.ConnectError
        except BaseException:  # a cancelled handshake leaves the stream open
            with anyio.CancelScope(shield=True):
                await stream.aclose()
            raise
        return stream

    async def _secured(
        self, stream: httpcore2.AsyncNetworkStream, host: str, timeout: float | None
    ) -> httpcore2.AsyncNetworkStream:
        context = self._tls()
        context.set_alpn_protocols(["http/1.1"])
        return await stream.start_tls(context, host, timeout)

    async def _tunnel(
        self, stream: httpcore2.AsyncNetworkStream, proxy: Proxy, request: httpcore2.Request
    ) -> httpcore2.AsyncNetworkStream:
        """Have a proxy lead a stream on to the host. Raises ``ToolError`` or ``NotSent`` if it does not."""
        target = _authority(self._origin, with_port=True)
        where = httpcore2.URL(scheme=proxy.scheme, host=proxy.host, port=proxy.port, target=target)
        connect = httpcore2.Request(
            b"CONNECT",
            where,
            headers=[(b"Host", target), *proxy.headers],
            extensions={"timeout": _timeouts(request)},
        )
        response = await _Exchanges(where.origin, stream).handle_async_request(connect)
        if 200 <= response.status < 300:
            return cast("httpcore2.AsyncNetworkStream", _extensions(response)["network_stream"])
        message = (
            f"The proxy {proxy.host!r} does not lead to {target.decode('ascii')!r}: it answered {response.status}."
        )
        if response.status in _CONNECT_TRANSIENT:
            raise NotSent(message, code="unreachable")
        raise ToolError(message, code="proxy_refused", status=502)


def _for_proxy(request: httpcore2.Request, origin: httpcore2.Origin, proxy: Proxy) -> httpcore2.Request:
    """Return a request of plain HTTP as a proxy takes it: with its whole URL, and with what is for the proxy."""
    url = request.url
    target = b"http://%b%b" % (_authority(origin, with_port=origin.port != 80), url.target)
    return httpcore2.Request(
        request.method,
        httpcore2.URL(scheme=url.scheme, host=url.host, port=url.port, target=target),
        headers=[*proxy.headers, *request.headers],
        content=request.stream,
        extensions=_extensions(request),
    )


def _timeouts(request: httpcore2.Request) -> dict[str, float | None]:
    return _extensions(request).get("timeout") or {}


def _extensions(message: httpcore2.Request | httpcore2.Response) -> dict[str, Any]:  # httpcore's, of any types
    return cast("dict[str, Any]", message.extensions)  # pyright: ignore[reportUnknownMemberType]


def _authority(origin: httpcore2.Origin, *, with_port: bool) -> bytes:
    host = b"[%b]" % origin.host if b":" in origin.host else origin.host
    return b"%b:%d" % (host, origin.port) if with_port else host


class CheckedPool(httpcore2.AsyncConnectionPool):
    """A pool of such connections, which are kept between requests for a few seconds.

    ``tls`` is called for each connection, and returns the trusted servers.
    """

    def __init__(
        self, network: CheckedNetwork, tls: Callable[[], ssl.SSLContext], proxies: Proxies | None = None
    ) -> None:
        super().__init__(network_backend=network, max_connections=MAX_CONNECTIONS, keepalive_expiry=_IDLE_SECONDS)
        self._network = network
        self._tls = tls
        self._proxies = proxies

    def create_connection(self, origin: httpcore2.Origin) -> httpcore2.AsyncConnectionInterface:
        """Return a connection that is not connected yet."""
        proxy = None
        if self._proxies is not None:
            proxy = self._proxies(origin.scheme.decode("ascii"), origin.host.decode("ascii"), origin.port)
        return CheckedConnection(origin, self._network, self._tls, proxy, self._keepalive_expiry)

    async def aclose(self) -> None:
        """Close all connections; what runs on them fails, and so does what waits for one."""
        self._network.close()
        await super().aclose()


class _Exchanges(httpcore2.AsyncHTTP11Connection):
    """Requests and responses on one stream."""

    _interim = 0

    async def _receive_event(self, timeout: float | None = None) -> h11.Event | type[h11.PAUSED]:
        event = await super()._receive_event(timeout)
        if isinstance(event, h11.InformationalResponse):
            self._interim += 1
            if self._interim > _MAX_INTERIM:
                raise _too_many_interim(self._origin.host.decode("ascii"))
        elif isinstance(event, h11.Response):
            self._interim = 0
        return event

    async def _response_closed(self) -> None:
        if self._h11_state.trailing_data[0]:  # no request is left that this answers, and the next one must not get it
            await self.aclose()
        else:
            await super()._response_closed()


def _check(host: str, port: int, addresses: Iterable[str], allowed: Allowed) -> None:
    """Raise ``ToolError`` (``address_refused``) if any of the addresses of a host is refused."""
    if not all(allowed.takes(host, port, address) for address in addresses):
        raise ToolError(
            f"The host {host!r} leads to an address that is not public, and is no internal host that is allowed.",
            code="address_refused",
            status=403,
        )


async def _addresses(host: str, resolver: Resolver) -> Sequence[str]:
    if is_address(host):
        return [host]  # already in canonical form
    try:
        return await resolver(host)
    except OSError as error:
        if isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN:
            raise NotSent(f"The host {host!r} cannot be looked up just now.") from None
        return ()


def trusted_tls(ca_file: str | None = None) -> ssl.SSLContext:
    """Return whose certificates are trusted: the machine's authorities, and those in a file of PEM beside them.

    ``SSL_CERT_FILE`` and ``SSL_CERT_DIR`` of the environment take the place of the machine's. A file that has changed
    is read again. Raises ``DefinitionError`` for one that cannot be read.
    """
    machine = (os.environ.get("SSL_CERT_FILE", ""), *os.environ.get("SSL_CERT_DIR", "").split(os.pathsep))
    return _tls(tuple(map(_version, machine)), _version(ca_file or ""))


_Version = tuple[str, int, int]
"""A file as it is now: its path, when it was changed, and its size."""


def _version(path: str) -> _Version:
    if not path:
        return "", 0, 0
    try:
        stat = Path(path).stat()
    except OSError as error:
        raise _unreadable(path, error) from None
    return path, stat.st_mtime_ns, stat.st_size


@lru_cache(maxsize=32)
def _tls(_machine: tuple[_Version, ...], certificate_file: _Version) -> ssl.SSLContext:
    import httpx2

    path = "SSL_CERT_FILE or SSL_CERT_DIR"
    try:
        context = httpx2.create_ssl_context()
        if certificate_file[0]:
            path = certificate_file[0]
            context.load_verify_locations(path)
    except OSError as error:  # as errors of TLS are
        raise _unreadable(path, error) from None
    return context


def _unreadable(path: str, error: OSError) -> DefinitionError:
    return DefinitionError(f"the certificates in {path} cannot be read: {error.strerror or error}")


def _unknown(host: str) -> ToolError:
    return ToolError(f"The host {host!r} is unknown: no address belongs to it.", code="unknown_host", status=502)


def _headers_too_long(host: str) -> ToolError:
    """Return the error of a response whose headers, or lines between parts of its body, are too long."""
    long = f"The host {host!r} sent headers, or a line between them, of more than 100 KiB."
    return ToolError(long, code="headers_too_long", status=502)


def _too_many_interim(host: str) -> ToolError:
    """Return the error of a server that sends interim responses without coming to its response."""
    message = f"The host {host!r} sent more than {_MAX_INTERIM} interim answers (1xx), and no answer."
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
    except httpcore2.PoolTimeout:
        raise NotSent(f"Too many requests to {host!r} are under way.", code=BUSY) from None
    except (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError) as error:
        cause = error.__context__  # the pool raises errors of its connections again, without their cause
        if isinstance(cause, ssl.SSLCertVerificationError):
            why = f"its certificate is not to be trusted: {cause.verify_message}"
        elif isinstance(cause, ssl.SSLError):
            why = "it does not speak TLS as is needed"
        elif getattr(cause, "error_status_hint", None) == _TOO_LONG:
            raise _headers_too_long(host) from None
        elif isinstance(error, httpcore2.ConnectError | httpcore2.ConnectTimeout):
            raise NotSent(f"The host {host!r} cannot be reached.", code="unreachable") from None
        else:
            raise _broken(host) from None
        raise ToolError(f"The host {host!r} cannot be asked safely: {why}.", code="tls_failed", status=502) from None
