"""An HTTP client for tools, protected against server-side request forgery (spec 4, G29)."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Literal

from capset.errors import ToolError, TransientError
from capset.extras import install_command
from capset.net.addresses import HostAllowlist, Resolver, system_resolver
from capset.net.proxies import ProxySelector
from capset.net.response import HttpResponse, accepted_codings
from capset.net.urls import Url, parse_url

if TYPE_CHECKING:
    import httpcore2


Method = Literal["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"]
_REDIRECT_METHODS: Final = frozenset({"GET", "HEAD"})
"""The methods whose redirects are followed. For any other, that would be a second request with effects."""
_BODY_METHODS: Final = frozenset({"POST", "PUT", "PATCH"})
"""The methods whose requests have a ``Content-Length`` even if it is 0, as RFC 9110 recommends."""
REDIRECT_STATUSES: Final = frozenset({301, 302, 303, 307, 308})

_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_VALUE: Final = re.compile(r"(?:[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?)?")
_FRAMING: Final = (
    *("host", "content-length", "content-encoding", "transfer-encoding", "te", "trailer", "connection", "keep-alive"),
    *("upgrade", "expect", "http2-settings", "accept-encoding"),
)
# Servers behind a proxy trust these.
_FORWARDING: Final = ("forwarded", "via", "x-real-ip", "true-client-ip", "cf-connecting-ip", "x-client-ip", "client-ip")
_OTHER_METHODS: Final = ("x-http-method", "x-http-method-override", "x-method-override")
_CLOUD_SECRETS: Final = ("metadata", "metadata-flavor", "x-google-metadata-request")
"""Headers that unlock the metadata services where clouds serve the secrets of their machines."""
_DENIED: Final = frozenset((*_FRAMING, *_FORWARDING, *_OTHER_METHODS, *_CLOUD_SECRETS))
_DENIED_PREFIXES: Final = ("proxy-", "x-forwarded-", "x-aws-ec2-metadata-", "x-original-", "x-rewrite-")
_CREDENTIAL_FREE: Final = frozenset(
    (
        *("accept", "accept-charset", "accept-language", "cache-control", "pragma", "range", "user-agent"),
        *("if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since"),
    )
)


class HttpClient:
    """An HTTP client that opens a new connection for every hop, to an address that it has checked.

    It keeps no connections and no cookies, and does not read ``.netrc``.

    Args:
        allow: the internal hosts that may be requested, ``host`` or ``host:port``; see ``HostAllowlist``.
        resolver: resolves names to addresses.
        network: the backend that connects to checked addresses; defaults to httpcore's own.
        tls: the TLS context; by default, the certificate authorities of the machine and of ``ca_file`` are trusted.
        ca_file: a PEM file of certificate authorities that are trusted in addition to the machine's.
        proxies: returns the proxy for a URL, such as ``environment_proxy``. By default there is none, even if the
            environment names one. Behind a proxy, addresses are checked only if the URL contains the address itself,
            so use no proxy for URLs that a model chooses.

    Raises ``DefinitionError`` if an entry of ``allow`` is not a host.
    """

    def __init__(
        self,
        *,
        allow: Iterable[str] = (),
        resolver: Resolver = system_resolver,
        network: httpcore2.AsyncNetworkBackend | None = None,
        tls: ssl.SSLContext | None = None,
        ca_file: str | None = None,
        proxies: ProxySelector | None = None,
    ) -> None:
        self._allowed = HostAllowlist.parse(allow)
        self._resolver = resolver
        self._network = network
        self._tls = tls
        self._ca_file = ca_file
        self._select_proxy = proxies

    @asynccontextmanager
    async def open(
        self,
        method: Method,
        url: str,
        *,
        timeout: float | None,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        hop_timeout: float | None = None,
        redirects: int | None = 10,
    ) -> AsyncGenerator[HttpResponse]:
        """Send a request, follow redirects, and yield the response, whose body is read inside the block.

        Args:
            method: redirects of ``GET`` and ``HEAD`` are followed with the same method; those of others are yielded.
            url: an absolute http or https URL.
            timeout: seconds for everything, including the block; ``None`` if the hops and the body have limits instead.
            headers: sent in addition to the client's own; see ``checked_headers``.
            content: the body of the request.
            hop_timeout: seconds until the response headers of each hop have arrived, including name resolution and TLS.
            redirects: the maximum number to follow; with ``None``, a redirect itself is yielded.

        Raises ``ToolError``: ``url_refused``, ``header_refused``, ``address_refused`` before anything is sent to the
        refused destination; ``unknown_host``, ``tls_failed``, ``too_many_redirects``, ``headers_too_long``,
        ``too_many_interim``, ``proxy_refused``, ``not_installed``. Raises ``TransientError`` for ``timeout`` and
        ``unreachable``.
        """
        current, sent = parse_url(url), checked_headers(headers or {})
        follows = redirects is not None and method in _REDIRECT_METHODS
        scope = asyncio.timeout(timeout)
        try:
            async with scope:
                for _ in range((redirects or 0) + 1):
                    async with self._exchange(method, current, sent, content, hop_timeout) as response:
                        is_redirect = follows and response.status in REDIRECT_STATUSES
                        location = response.location if is_redirect else None
                        if location is None:
                            yield response
                            return
                    target = current.join(location)
                    if target.origin != current.origin:
                        sent = cross_origin_headers(sent)
                    current = target
        except TimeoutError:
            if timeout is None or not scope.expired():
                raise
            raise _timeout_error(f"There was no response within {timeout:g} s.") from None
        raise ToolError(f"There were more than {redirects} redirects.", code="too_many_redirects", status=502)

    @asynccontextmanager
    async def _exchange(
        self, method: Method, url: Url, headers: Mapping[str, str], content: bytes | None, seconds: float | None
    ) -> AsyncGenerator[HttpResponse]:
        try:
            import httpcore2

            from capset.net.connections import CheckedConnection, CheckedNetwork, convert_failures, tls_context
        except ModuleNotFoundError as missing:
            if missing.name not in ("httpcore2", "httpx2"):
                raise
            raise not_installed_error() from None
        network = CheckedNetwork(self._resolver, self._allowed, self._network, seconds)
        proxy = None if self._select_proxy is None else self._select_proxy(*url.origin)
        request_url = httpcore2.URL(scheme=url.scheme, host=url.host, port=url.port, target=url.target)
        length = len(content or b"") if content is not None or method in _BODY_METHODS else None
        request = httpcore2.Request(method, request_url, headers=_headers(url, headers, length), content=content)
        connection = CheckedConnection(
            request_url.origin, network, lambda: self._tls or tls_context(self._ca_file), proxy
        )
        scope = asyncio.timeout(seconds)
        try:
            try:
                async with scope:
                    with convert_failures(url.host):
                        response = await connection.handle_async_request(request)
            except TimeoutError:
                if not scope.expired():
                    raise
                raise _timeout_error(f"The host {url.host!r} did not begin to answer within {seconds:g} s.") from None
            yield HttpResponse(url, response)
        finally:
            await connection.aclose()


def _headers(url: Url, headers: Mapping[str, str], length: int | None) -> list[tuple[bytes, bytes]]:
    defaults = {"user-agent": "capset", "accept": "*/*"}
    required = {"host": url.authority, "accept-encoding": accepted_codings(), "connection": "close"}
    if length is not None:
        required["content-length"] = str(length)
    return [(name.encode(), value.encode()) for name, value in {**required, **defaults, **headers}.items()]


def not_installed_error() -> ToolError:
    """Return the error for a request when the packages that HTTP needs are not installed."""
    return ToolError(
        "HTTP needs the extra 'web' of capset, which is not installed.",
        code="not_installed",
        status=501,
        hint=install_command("web"),
    )


def _timeout_error(message: str) -> TransientError:
    return TransientError(message, code="timeout", status=504)


def checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Check headers, and return them with lower-case names.

    ``Authorization`` and ``Cookie`` are allowed: the caller provides them, and nothing is stored. Raises ``ToolError``
    (``header_refused``), naming the header but never its value, if one is denied, duplicate or malformed.
    """
    if len(headers) > 64:
        raise _header_error(f"There are {len(headers)} headers; at most 64 can be sent.")
    checked: dict[str, str] = {}
    for name, value in headers.items():
        key = name.lower()
        if not _NAME.fullmatch(name):
            raise _header_error(f"{name[:128]!r} is not a valid header name; expected letters, digits and hyphens.")
        if key in _DENIED or key.startswith(_DENIED_PREFIXES):
            raise _header_error(f"The header {name!r} cannot be set; leave it out.")
        if key in checked:
            raise _header_error(f"The header {name!r} is set twice; header names are case-insensitive.")
        if len(value) > 8_192 or not _VALUE.fullmatch(value):
            raise _header_error(
                f"The value of the header {name!r} cannot be sent; expected at most 8192 printable ASCII "
                "characters, in one line and with no spaces around them."
            )
        checked[key] = value
    return checked


def cross_origin_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers to send to another origin: only those known to carry no credentials."""
    return {name: value for name, value in headers.items() if name in _CREDENTIAL_FREE}


def _header_error(message: str) -> ToolError:
    return ToolError(message, code="header_refused")
