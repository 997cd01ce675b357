"""Connections to checked addresses only (spec 4, G29). Imports httpcore2, so import it lazily."""

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
from capset.net.addresses import HostAllowlist, NotSent, Resolver, is_address
from capset.net.proxies import Proxy, ProxySelector

_MAX_INTERIM: Final = 8
"""The maximum number of interim responses (1xx). RFC 9110 sets no limit; servers send one or two."""
MAX_CONNECTIONS: Final = 20
"""The maximum number of concurrent requests of a pool, including those with streaming responses; others wait."""
BUSY: Final = "busy"
"""The error code of a request that waited too long for a free connection of its pool."""
_CONNECT_TRANSIENT: Final = frozenset({502, 503, 504})
"""The statuses with which a proxy reports that it could not reach the host."""


class CheckedNetwork(httpcore2.AsyncNetworkBackend):
    """Resolves a name, checks all its addresses, and connects to one of these without a second lookup.

    So the address cannot change between check and use. TLS still verifies the name, since httpcore starts it with the
    host of the URL. If ``seconds`` limits the total time, each address gets at most an equal share.
    """

    def __init__(
        self,
        resolver: Resolver,
        allowed: HostAllowlist,
        backend: httpcore2.AsyncNetworkBackend | None = None,
        seconds: float | None = None,
    ) -> None:
        self._resolver = resolver
        self._allowed = allowed
        self._backend = backend or cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())
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
        addresses = await _resolve(host, self._resolver)
        if not addresses:
            raise ToolError(f"The host {host!r} is unknown: no address belongs to it.", code="unknown_host", status=502)
        _check_addresses(host, port, addresses, self._allowed)
        *others, last = addresses[:4]  # all of them are checked, but at most four are tried
        attempt_seconds = 3.0  # the timeout for an address, if there are others to try
        if self._seconds is not None:
            attempt_seconds = min(attempt_seconds, self._seconds / (len(others) + 1))
        for address in others:
            try:
                return await self._backend.connect_tcp(
                    address, port, min(attempt_seconds, timeout or attempt_seconds), socket_options=socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await self._backend.connect_tcp(last, port, timeout, socket_options=socket_options)

    async def connect_proxy(
        self, proxy: Proxy, host: str, port: int, timeout: float | None
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to the proxy for a host.

        The address of the proxy is trusted, since the application configures it. The proxy resolves names itself, so
        the target is checked only if ``host`` is an address. Raises ``ToolError`` (``address_refused``), or
        ``NotSent`` if the proxy cannot be reached.
        """
        if self.is_closed:
            raise httpcore2.ConnectError
        if is_address(host):
            _check_addresses(host, port, [host], self._allowed)
        try:
            return await self._backend.connect_tcp(proxy.host, proxy.port, timeout)
        except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
            raise NotSent(f"The proxy {proxy.host!r} cannot be reached.", code="unreachable") from None

    def close(self) -> None:
        """Refuse new connections."""
        self.is_closed = True


class CheckedConnection(httpcore2.AsyncHTTPConnection):
    """An HTTP/1.1 connection to a checked address, or through a proxy.

    It fails after more than ``_MAX_INTERIM`` interim responses before a response: httpcore itself would read them
    endlessly, and without yielding to other tasks if many arrive at once.
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

        In addition to httpcore's errors, raises ``ToolError`` (``too_many_interim``, ``proxy_refused``) and
        ``TransientError``.
        """
        async with self._request_lock:
            if self._connection is None:
                try:
                    stream = await self._open_stream(request)
                except BaseException:
                    self._connect_failed = True
                    raise
                self._connection = _Http11Connection(self._origin, stream, self._keepalive_expiry)
        if self._proxy is not None and self._origin.scheme == b"http":
            request = _for_proxy(request, self._origin, self._proxy)
        return await super().handle_async_request(request)

    async def _open_stream(self, request: httpcore2.Request) -> httpcore2.AsyncNetworkStream:
        """Return a stream to the host, or to the proxy if there is one and the URL is plain HTTP."""
        timeout = _timeouts(request).get("connect")
        host, port, proxy = self._origin.host.decode("ascii"), self._origin.port, self._proxy
        if proxy is None:
            stream = await self._network.connect_tcp(host, port, timeout)
        else:
            stream = await self._network.connect_proxy(proxy, host, port, timeout)
        try:
            if proxy is not None and proxy.scheme == "https":
                stream = await self._start_tls(stream, proxy.host, timeout)
            if self._origin.scheme == b"https":
                if proxy is not None:
                    stream = await self._tunnel(stream, proxy, request)
                stream = await self._start_tls(stream, host, timeout)
            if self._network.is_closed:  # closed during the handshake: the pool no longer tracks this connection
                raise httpcore2.ConnectError
        except BaseException:  # a cancelled handshake leaves the stream open
            with anyio.CancelScope(shield=True):
                await stream.aclose()
            raise
        return stream

    async def _start_tls(
        self, stream: httpcore2.AsyncNetworkStream, host: str, timeout: float | None
    ) -> httpcore2.AsyncNetworkStream:
        context = self._tls()
        context.set_alpn_protocols(["http/1.1"])
        return await stream.start_tls(context, host, timeout)

    async def _tunnel(
        self, stream: httpcore2.AsyncNetworkStream, proxy: Proxy, request: httpcore2.Request
    ) -> httpcore2.AsyncNetworkStream:
        """Open a tunnel to the host through a proxy. Raises ``ToolError`` or ``NotSent`` if the proxy refuses."""
        target = _authority(self._origin, with_port=True)
        proxy_url = httpcore2.URL(scheme=proxy.scheme, host=proxy.host, port=proxy.port, target=target)
        connect = httpcore2.Request(
            b"CONNECT",
            proxy_url,
            headers=[(b"Host", target), *proxy.headers],
            extensions={"timeout": _timeouts(request)},
        )
        response = await _Http11Connection(proxy_url.origin, stream).handle_async_request(connect)
        if 200 <= response.status < 300:
            return cast("httpcore2.AsyncNetworkStream", _extensions(response)["network_stream"])
        message = (
            f"The proxy {proxy.host!r} does not lead to {target.decode('ascii')!r}: it answered {response.status}."
        )
        if response.status in _CONNECT_TRANSIENT:
            raise NotSent(message, code="unreachable")
        raise ToolError(message, code="proxy_refused", status=502)


def _for_proxy(request: httpcore2.Request, origin: httpcore2.Origin, proxy: Proxy) -> httpcore2.Request:
    """Return a plain HTTP request in the form for a proxy: with the absolute URL and the headers for the proxy."""
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
    """A pool of ``CheckedConnection``, which are kept open between requests for a few seconds.

    ``tls`` is called for each connection, and returns its TLS context.
    """

    def __init__(
        self, network: CheckedNetwork, tls: Callable[[], ssl.SSLContext], proxies: ProxySelector | None = None
    ) -> None:
        # Servers close idle connections after five seconds or more.
        super().__init__(network_backend=network, max_connections=MAX_CONNECTIONS, keepalive_expiry=4.0)
        self._network = network
        self._tls = tls
        self._select_proxy = proxies

    def create_connection(self, origin: httpcore2.Origin) -> httpcore2.AsyncConnectionInterface:
        """Return a new connection, which is not connected yet."""
        proxy = None
        if self._select_proxy is not None:
            proxy = self._select_proxy(origin.scheme.decode("ascii"), origin.host.decode("ascii"), origin.port)
        return CheckedConnection(origin, self._network, self._tls, proxy, self._keepalive_expiry)

    async def aclose(self) -> None:
        """Close all connections. Requests that are running or waiting for a connection fail."""
        self._network.close()
        await super().aclose()


class _Http11Connection(httpcore2.AsyncHTTP11Connection):
    """Requests and responses on one stream."""

    _interim = 0

    async def _receive_event(self, timeout: float | None = None) -> h11.Event | type[h11.PAUSED]:
        event = await super()._receive_event(timeout)
        if isinstance(event, h11.InformationalResponse):
            self._interim += 1
            if self._interim > _MAX_INTERIM:
                host = self._origin.host.decode("ascii")
                message = f"The host {host!r} sent more than {_MAX_INTERIM} interim responses (1xx), but no final one."
                raise ToolError(message, code="too_many_interim", status=502)
        elif isinstance(event, h11.Response):
            self._interim = 0
        return event

    async def _response_closed(self) -> None:
        if self._h11_state.trailing_data[0]:  # unsolicited data, which the next request must not get as its response
            await self.aclose()
        else:
            await super()._response_closed()


def _check_addresses(host: str, port: int, addresses: Iterable[str], allowed: HostAllowlist) -> None:
    """Raise ``ToolError`` (``address_refused``) if any address of a host is refused."""
    if not all(allowed.permits(host, port, address) for address in addresses):
        raise ToolError(
            f"The host {host!r} leads to an address that is not public, and is not an allowed internal host.",
            code="address_refused",
            status=403,
        )


async def _resolve(host: str, resolver: Resolver) -> Sequence[str]:
    if is_address(host):
        return [host]  # already in canonical form
    try:
        return await resolver(host)
    except OSError as error:
        if isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN:
            raise NotSent(f"The host {host!r} cannot be looked up at the moment.") from None
        return ()


def tls_context(ca_file: str | None = None) -> ssl.SSLContext:
    """Return a TLS context that trusts the machine's certificate authorities and those in ``ca_file`` (PEM).

    The environment variables ``SSL_CERT_FILE`` and ``SSL_CERT_DIR`` replace the machine's authorities. Changed files
    are read again. Raises ``DefinitionError`` if a file cannot be read.
    """
    machine = (os.environ.get("SSL_CERT_FILE", ""), *os.environ.get("SSL_CERT_DIR", "").split(os.pathsep))
    return _tls(tuple(map(_version, machine)), _version(ca_file or ""))


_Version = tuple[str, int, int]
"""The version of a file: its path, modification time in nanoseconds, and size in bytes."""


def _version(path: str) -> _Version:
    if not path:
        return "", 0, 0
    try:
        stat = Path(path).stat()
    except OSError as error:
        raise _unreadable_error(path, error) from None
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
    except OSError as error:  # includes ``ssl.SSLError``
        raise _unreadable_error(path, error) from None
    return context


def _unreadable_error(path: str, error: OSError) -> DefinitionError:
    return DefinitionError(f"the certificates in {path} cannot be read: {error.strerror or error}")


def _broken_connection_error(host: str) -> TransientError:
    broken = f"The connection to {host!r} broke off, or did not carry valid HTTP."
    return TransientError(broken, code="unreachable")


@contextmanager
def convert_failures(host: str) -> Generator[None]:
    """Convert failures into a ``ToolError`` or a ``TransientError`` with a message that is safe to show."""
    try:
        yield
    except ssl.SSLError:  # httpcore does not convert TLS errors after the handshake
        raise _broken_connection_error(host) from None
    except httpcore2.PoolTimeout:
        raise NotSent(f"Too many requests to {host!r} are under way.", code=BUSY) from None
    except (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError) as error:
        cause = error.__context__  # the pool re-raises its connections' errors without their cause
        if isinstance(cause, ssl.SSLCertVerificationError):
            reason = f"its certificate is not trusted: {cause.verify_message}"
        elif isinstance(cause, ssl.SSLError):
            reason = "it does not speak TLS as required"
        elif getattr(cause, "error_status_hint", None) == 431:  # a line or headers exceed h11's limit of 100 KiB
            message = f"The host {host!r} sent headers, or a single line, of more than 100 KiB."
            raise ToolError(message, code="headers_too_long", status=502) from None
        elif isinstance(error, httpcore2.ConnectError | httpcore2.ConnectTimeout):
            raise NotSent(f"The host {host!r} cannot be reached.", code="unreachable") from None
        else:
            raise _broken_connection_error(host) from None
        raise ToolError(
            f"The host {host!r} cannot be reached safely: {reason}.", code="tls_failed", status=502
        ) from None
