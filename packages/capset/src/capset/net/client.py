"""HTTP for tools that make requests on a user's behalf, and must not be diverted (spec 4, G29)."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Literal

from capset.errors import ToolError, TransientError
from capset.extras import install_command
from capset.net.addresses import Allowed, Resolver, system_resolver
from capset.net.proxies import Proxies
from capset.net.response import HttpResponse, codings
from capset.net.urls import Url, read_url

if TYPE_CHECKING:
    import httpcore2


Method = Literal["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"]
_REDIRECTED: Final = frozenset({"GET", "HEAD"})
"""The methods whose redirects are followed: of any other, it would be a second request with effects."""
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
"""The methods whose requests say their length also if it is 0, as RFC 9110 asks."""
REDIRECT_STATUSES: Final = frozenset({301, 302, 303, 307, 308})
REDIRECTS: Final = 10
"""How many redirects are followed by default."""

MAX_HEADERS: Final = 64
MAX_LENGTH: Final = 8_192
"""The maximum length of a value, in characters."""
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_VALUE: Final = re.compile(r"(?:[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?)?")
_FRAMING: Final = (
    *("host", "content-length", "content-encoding", "transfer-encoding", "te", "trailer", "connection", "keep-alive"),
    *("upgrade", "expect", "http2-settings", "accept-encoding"),
)
# A server behind a proxy trusts them.
_WHO_ASKS: Final = ("forwarded", "via", "x-real-ip", "true-client-ip", "cf-connecting-ip", "x-client-ip", "client-ip")
_OTHER_METHODS: Final = ("x-http-method", "x-http-method-override", "x-method-override")
_CLOUD_SECRETS: Final = ("metadata", "metadata-flavor", "x-google-metadata-request")
"""Headers that unlock the services where clouds give machines their secrets."""
_DENIED: Final = frozenset((*_FRAMING, *_WHO_ASKS, *_OTHER_METHODS, *_CLOUD_SECRETS))
_DENIED_PREFIXES: Final = ("proxy-", "x-forwarded-", "x-aws-ec2-metadata-", "x-original-", "x-rewrite-")
_HARMLESS: Final = frozenset(
    (
        *("accept", "accept-charset", "accept-language", "cache-control", "pragma", "range", "user-agent"),
        *("if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since"),
    )
)


class HttpClient:
    """An HTTP client. Each hop has a connection of its own, to an address that was checked for it.

    It stores no connections and no cookies, and does not read ``.netrc``.

    Args:
        allow: the internal hosts that may be requested, ``host`` or ``host:port``; see ``Allowed``.
        resolver: resolves names to addresses.
        network: connects to addresses once they are checked; httpcore's own if left out.
        tls: the trusted servers; those that the machine trusts if left out.
        ca_file: a file of certificates in PEM, whose authorities are trusted beside the machine's.
        proxies: returns the proxy for a URL, such as ``environment_proxy``; none if left out, also where the
            environment names one. What is behind a proxy is checked only if the URL is written with an address, so
            leave it out for URLs that a model chooses.

    Raises ``DefinitionError`` for an entry of ``allow`` that is not a host.
    """

    def __init__(
        self,
        *,
        allow: Iterable[str] = (),
        resolver: Resolver = system_resolver,
        network: httpcore2.AsyncNetworkBackend | None = None,
        tls: ssl.SSLContext | None = None,
        ca_file: str | None = None,
        proxies: Proxies | None = None,
    ) -> None:
        self._allowed = Allowed.read(allow)
        self._resolver = resolver
        self._network = network
        self._tls = tls
        self._ca_file = ca_file
        self._proxies = proxies

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
        redirects: int | None = REDIRECTS,
    ) -> AsyncGenerator[HttpResponse]:
        """Send a request, follow redirects, and yield the response, whose body is read inside the block.

        Args:
            method: redirects of ``GET`` and ``HEAD`` are followed, and keep it; a redirect of any other is yielded.
            url: absolute, http or https.
            timeout: seconds for everything, including the block; ``None`` if the hops and the body have limits instead.
            headers: sent in addition to the client's own; see ``checked_headers``.
            content: the body of the request.
            hop_timeout: seconds until each hop's response has begun, that is, its headers have arrived; includes name
                resolution and TLS.
            redirects: how many are followed at most; ``None`` yields a redirect as it is.

        Raises ``ToolError``: ``url_refused``, ``header_refused``, ``address_refused`` before anything is sent to the
        refused destination; ``unknown_host``, ``tls_failed``, ``too_many_redirects``, ``headers_too_long``,
        ``too_many_interim``, ``proxy_refused``, ``not_installed``. Raises ``TransientError`` for ``timeout`` and
        ``unreachable``.
        """
        current, sent = read_url(url), checked_headers(headers or {})
        follows = redirects is not None and method in _REDIRECTED
        scope = asyncio.timeout(timeout)
        try:
            async with scope:
                for _ in range((redirects or 0) + 1):
                    async with self._asked(method, current, sent, content, hop_timeout) as response:
                        is_redirect = follows and response.status in REDIRECT_STATUSES
                        location = response.location if is_redirect else None
                        if location is None:
                            yield response
                            return
                    target = current.joined(location)
                    if target.origin != current.origin:
                        sent = for_another_origin(sent)
                    current = target
        except TimeoutError:
            if timeout is None or not scope.expired():
                raise
            raise _late(f"The answer was not there within {timeout:g} s.") from None
        raise ToolError(f"There were more than {redirects} redirects.", code="too_many_redirects", status=502)

    @asynccontextmanager
    async def _asked(
        self, method: Method, url: Url, headers: Mapping[str, str], content: bytes | None, seconds: float | None
    ) -> AsyncGenerator[HttpResponse]:
        try:
            import httpcore2

            from capset.net.connections import CheckedConnection, CheckedNetwork, convert_failures, trusted_tls
        except ModuleNotFoundError as missing:
            if missing.name not in ("httpcore2", "httpx2"):
                raise
            raise not_installed() from None
        network = CheckedNetwork(self._resolver, self._allowed, self._network, seconds)
        proxy = None if self._proxies is None else self._proxies(*url.origin)
        where = httpcore2.URL(scheme=url.scheme, host=url.host, port=url.port, target=url.target)
        length = len(content or b"") if content is not None or method in _WITH_BODY else None
        request = httpcore2.Request(method, where, headers=_headers(url, headers, length), content=content)
        connection = CheckedConnection(where.origin, network, lambda: self._tls or trusted_tls(self._ca_file), proxy)
        scope = asyncio.timeout(seconds)
        try:
            try:
                async with scope:
                    with convert_failures(url.host):
                        answer = await connection.handle_async_request(request)
            except TimeoutError:
                if not scope.expired():
                    raise
                raise _late(f"The host {url.host!r} did not begin to answer within {seconds:g} s.") from None
            yield HttpResponse(url, answer)
        finally:
            await connection.aclose()


def _headers(url: Url, headers: Mapping[str, str], length: int | None) -> list[tuple[bytes, bytes]]:
    usual = {"user-agent": "capset", "accept": "*/*"}
    required = {"host": url.authority, "accept-encoding": codings(), "connection": "close"}
    if length is not None:
        required["content-length"] = str(length)
    return [(name.encode(), value.encode()) for name, value in {**required, **usual, **headers}.items()]


def not_installed() -> ToolError:
    """Return the error for a request without the packages that HTTP needs."""
    return ToolError(
        "HTTP needs the extra 'web' of capset, which is not installed.",
        code="not_installed",
        status=501,
        hint=install_command("web"),
    )


def _late(message: str) -> TransientError:
    return TransientError(message, code="timeout", status=504)


def checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with their names in lower case.

    ``Authorization`` and ``Cookie`` may be sent: the caller provides them, and nothing is stored. Raises ``ToolError``
    (``header_refused``), naming the header and never its value, if one is denied, duplicate or malformed.
    """
    if len(headers) > MAX_HEADERS:
        raise _refused(f"There are {len(headers)} headers; at most {MAX_HEADERS} can be sent.")
    checked: dict[str, str] = {}
    for name, value in headers.items():
        key = name.lower()
        if not _NAME.fullmatch(name):
            raise _refused(f"{name[:128]!r} is no header's name; expected letters, digits and hyphens.")
        if key in _DENIED or key.startswith(_DENIED_PREFIXES):
            raise _refused(f"The header {name!r} cannot be set; leave it out.")
        if key in checked:
            raise _refused(f"The header {name!r} is given twice; names are the same in any case.")
        if len(value) > MAX_LENGTH or not _VALUE.fullmatch(value):
            raise _refused(
                f"The value of the header {name!r} cannot be sent; expected at most {MAX_LENGTH} printable ASCII "
                "characters, in one line and with no spaces around them."
            )
        checked[key] = value
    return checked


def for_another_origin(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers to send to another origin: only those known to carry no credentials."""
    return {name: value for name, value in headers.items() if name in _HARMLESS}


def _refused(message: str) -> ToolError:
    return ToolError(message, code="header_refused")
