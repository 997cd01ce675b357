"""The HTTP layer of the client: the server's address, the key, requests without retries, and pagination."""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import quote

import httpx2
from pydantic_core import to_json

from capset.errors import CapsetError, DefinitionError, ForeignAnswer, InvalidArguments
from capset.net.addresses import is_loopback
from capset.wire.calls import CallShape
from capset_server.client.answers import JSON, Answers, S, media_type_of

_KEY: Final = re.compile(r"[\x21-\x7e]{1,200}")

Query = Mapping[str, str | int | bool | None]
EVENTS: Final = "text/event-stream"
REPEATABLE: Final = "Idempotency-Key"
"""The header that makes a request safe to repeat: it is executed once."""
SILENCE: Final = 60.0
"""Seconds of silence after which a stream counts as broken; a server sends something every 15."""

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")
LARGEST_PAGE: Final = 200
"""The maximum number of items on a page."""


def server_url(address: str) -> httpx2.URL:
    """Parse the address of a server, without a trailing slash; a path before ``/v1`` is kept.

    Raises ``DefinitionError`` for an invalid address, and for one with a user or a password: keys are sent in the
    header only.
    """
    try:
        url = httpx2.URL(address.rstrip("/"))
    except httpx2.InvalidURL:
        url = httpx2.URL()
    if url.userinfo or url.query or url.fragment:
        raise DefinitionError("a server's address has no user, password, query or fragment in it")
    if url.scheme not in ("http", "https") or not url.host:
        raise DefinitionError(f"a server's address is like https://capset.example.com; got {address!r}")
    return url


def check_key(key: str, url: httpx2.URL, *, plain_http: bool) -> str:
    """Return the key if it may be sent to ``url``.

    Raises ``DefinitionError`` for an invalid key, and for an address that would expose it in transit.
    """
    if not _KEY.fullmatch(key):
        raise DefinitionError("invalid API key: expected 1 to 200 ASCII characters without spaces")
    if url.scheme == "http" and not plain_http and not is_loopback(url.host):
        raise DefinitionError(
            f"{url} is not encrypted: anyone on the network could read the API key",
            hint="use https://, or allow it: plain_http=True, or CAPSET_PLAIN_HTTP=1 for the command",
        )
    return key


def path_of(*parts: str) -> str:
    """Join the parts to a path of the API.

    Raises ``DefinitionError`` for a part that is empty or contains a slash, so that it cannot name another resource,
    and for text that is not valid Unicode.
    """
    return "/v1/" + "/".join(map(segment, parts))


def segment(part: str) -> str:
    """Return one part of a path, quoted for a URL. Raises as ``path_of`` does."""
    if not part or "/" in part:
        raise DefinitionError(f"an id or a name must not be empty or contain a slash; got {part[:100]!r}")
    try:
        quoted = quote(part, safe="")
    except UnicodeEncodeError:
        raise DefinitionError(f"{part[:100]!r} is not valid Unicode text") from None
    return quoted.replace(".", "%2E") if part in (".", "..") else quoted  # otherwise they would be resolved


class Connection:
    """Connections to one server. The key is sent in a header of each request, and nowhere else."""

    def __init__(
        self, url: str, key: str | None, *, timeout: float | None, connect_timeout: float | None, plain_http: bool
    ) -> None:
        self.url: Final = server_url(url)
        self.answers: Final = Answers(self.url)
        self._headers = httpx2.Headers({"User-Agent": "capset"})  # its repr shows no key
        if key is not None:
            self._headers["Authorization"] = f"Bearer {check_key(key, self.url, plain_http=plain_http)}"
        self._usual = httpx2.Timeout(timeout, connect=connect_timeout, pool=None)
        self._patient = httpx2.Timeout(timeout, connect=connect_timeout, read=None, pool=None)
        self._streaming = httpx2.Timeout(timeout, connect=connect_timeout, read=SILENCE, pool=None)
        self._http: httpx2.AsyncClient | None = None

    async def open(self) -> None:
        """Open the client; the first request connects. Raises ``CapsetError`` if it is already open."""
        if self._http is not None:
            raise CapsetError("the client is already open")
        encrypted = self.url.scheme == "https"
        self._http = httpx2.AsyncClient(
            headers=self._headers,
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
            follow_redirects=False,  # the key must not go elsewhere
            trust_env=encrypted,  # a proxy for plain HTTP would see the key, even on its way to this machine
            verify=encrypted or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),  # trusts nothing, and loads nothing
        )

    async def close(self) -> None:
        """Close every connection."""
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()

    async def get(self, shape: type[S], path: str, query: Query | None = None) -> S:
        """Get the resource at ``path``."""
        return self.answers.parsed(shape, (await self.request("GET", path, query=query)).content)

    async def send(
        self, shape: type[S], method: str, path: str, body: bytes, headers: Mapping[str, str] | None = None
    ) -> S:
        """Send a body, JSON unless ``headers`` declare another type, and return the parsed response."""
        headers = {"Content-Type": JSON, **(headers or {})}
        return self.answers.parsed(shape, (await self.request(method, path, body=body, headers=headers)).content)

    async def delete(self, path: str, *, query: Query | None = None, headers: Mapping[str, str] | None = None) -> None:
        """Delete the resource at ``path``. Raises ``ForeignAnswer`` for a success status other than 204."""
        await self.act("DELETE", path, query=query, headers=headers)

    async def act(
        self, method: str, path: str, *, query: Query | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a request whose response is empty. Raises ``ForeignAnswer`` for a success status other than 204."""
        response = await self.request(method, path, query=query, headers=headers)
        if response.status_code != 204:
            raise self.answers.foreign(f"answered {response.status_code}, but capset answers 204")

    async def call(self, path: str, body: bytes, headers: Mapping[str, str]) -> CallShape:
        """Return the result of a call, without a read timeout; refused calls have a result, too."""
        headers = {"Content-Type": JSON, **headers}
        async with self._sent("POST", path, self._patient, body=body, headers=headers) as response:
            with self.answers.named(safe=REPEATABLE in headers):
                await response.aread()
        return self.answers.call(response)

    @asynccontextmanager
    async def stream(self, path: str, body: bytes, headers: Mapping[str, str]) -> AsyncGenerator[httpx2.Response]:
        """Yield the response to a call, an event stream whose body is not read yet."""
        headers = {"Content-Type": JSON, "Accept": EVENTS, **headers}
        async with self._sent("POST", path, self._streaming, body=body, headers=headers) as response:
            await self._refuse(response, safe=REPEATABLE in headers)
            if media_type_of(response) != EVENTS:
                raise self.answers.foreign("did not answer a call with an event stream")
            yield response

    @asynccontextmanager
    async def follow(self, path: str, query: Query) -> AsyncGenerator[httpx2.Response]:
        """Yield the response for ``path``, an event stream whose body is not read yet."""
        async with self._sent("GET", path, self._streaming, query=query, headers={"Accept": EVENTS}) as response:
            await self._refuse(response, safe=True)
            if media_type_of(response) != EVENTS:
                raise self.answers.foreign("did not answer with an event stream")
            yield response

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        """Return the complete response. Raises the error it carries, ``Unreachable``, and ``ForeignAnswer``."""
        safe = method == "GET" or REPEATABLE in (headers or {})
        async with self._sent(method, path, self._usual, query=query, body=body, headers=headers) as response:
            await self._refuse(response, safe=safe)
            with self.answers.named(safe=safe):
                await response.aread()
            return response

    @asynccontextmanager
    async def head(self, path: str, query: Query) -> AsyncGenerator[httpx2.Response]:
        """Yield the response for ``path``, whose body is not read yet. Raises as ``request`` does."""
        async with self._sent("GET", path, self._usual, query=query) as response:
            await self._refuse(response, safe=True)
            yield response

    @asynccontextmanager
    async def _sent(
        self,
        method: str,
        path: str,
        timeout: httpx2.Timeout,
        *,
        query: Query | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[httpx2.Response]:
        if self._http is None:
            raise CapsetError("the client is not open", hint="use it as: async with Client(…) as client")
        params = {name: value for name, value in (query or {}).items() if value is not None}
        with self.answers.named(safe=method == "GET" or REPEATABLE in (headers or {})):
            request = self._http.build_request(
                method, f"{self.url}{path}", params=params or None, content=body, headers=headers, timeout=timeout
            )
            response = await self._http.send(request, stream=True)
        try:
            yield response
        finally:
            await response.aclose()

    async def _refuse(self, response: httpx2.Response, *, safe: bool) -> None:
        """Raise the error of an error response."""
        if not response.is_success:
            with self.answers.named(safe=safe):
                await response.aread()
            raise self.answers.failure(response)


def json_bytes(data: Any) -> bytes:  # any JSON
    """Encode data as JSON. Raises ``InvalidArguments`` if that is impossible."""
    try:
        return to_json(data)
    except ValueError as error:
        raise InvalidArguments(f"this is not JSON: {error}") from None


def if_match(version: int | None) -> dict[str, str]:
    """Return the header that makes a change depend on a version; none for ``None``."""
    return {} if version is None else {"If-Match": f'"{version}"'}


class ListPage(Protocol[T_co]):
    """A page of items, and the cursor of the next page, if there is one."""

    @property
    def items(self) -> Sequence[T_co]:
        """The items."""
        ...

    @property
    def next(self) -> str | None:
        """The cursor."""
        ...


async def every(page: Callable[[str | None], Awaitable[ListPage[T]]]) -> AsyncGenerator[T]:
    """Yield the items of all pages. ``page`` requests the page at a cursor, only when it is needed."""
    cursor: str | None = None
    while True:
        current_page = await page(cursor)
        for item in current_page.items:
            yield item
        if current_page.next is None:
            return
        if current_page.next == cursor:
            raise ForeignAnswer("the server returned one page of a list twice")
        cursor = current_page.next
