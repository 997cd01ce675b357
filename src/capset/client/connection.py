"""The HTTP layer of the client: requests to one server, each sent once, and lists, page after page."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol, TypeVar

import httpx2
from pydantic_core import to_json

from capset.client.address import check_key, server_url
from capset.client.answers import JSON, Answers, S, media_type_of
from capset.errors import CapsetError, ForeignAnswer, InvalidArguments
from capset.wire.calls import CallShape

Query = Mapping[str, str | int | bool | None]
EVENTS: Final = "text/event-stream"
REPEATABLE: Final = "Idempotency-Key"
"""The header with which a request may be sent again, and is executed once."""
SILENCE: Final = 60.0
"""Seconds of silence after which a stream counts as broken; a server sends something every 15."""

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")
LARGEST_PAGE: Final = 200
"""Limit on the items of a page."""


class Connection:
    """Connections to one server. The key is in a header of each request, and nowhere else."""

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
        """Open; the first request connects. Raises ``CapsetError`` if it is open already."""
        if self._http is not None:
            raise CapsetError("the client is open already")
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
        """Delete the resource at ``path``. Raises ``ForeignAnswer`` for any other success than 204."""
        response = await self.request("DELETE", path, query=query, headers=headers)
        if response.status_code != 204:
            raise self.answers.foreign(f"answered {response.status_code}, where capset answers 204")

    async def call(self, path: str, body: bytes, headers: Mapping[str, str]) -> CallShape:
        """Return the result of a call, without a time limit; a refused call has its shape too."""
        headers = {"Content-Type": JSON, **headers}
        async with self._sent("POST", path, self._patient, body=body, headers=headers) as response:
            with self.answers.named(safe=REPEATABLE in headers):
                await response.aread()
        return self.answers.call(response)

    @asynccontextmanager
    async def stream(self, path: str, body: bytes, headers: Mapping[str, str]) -> AsyncGenerator[httpx2.Response]:
        """Yield the response to a call as a stream of events, of which only the head has come."""
        headers = {"Content-Type": JSON, "Accept": EVENTS, **headers}
        async with self._sent("POST", path, self._streaming, body=body, headers=headers) as response:
            await self._refuse(response, safe=REPEATABLE in headers)
            if media_type_of(response) != EVENTS:
                raise self.answers.foreign("answered a call with what is no stream of events")
            yield response

    @asynccontextmanager
    async def follow(self, path: str, query: Query) -> AsyncGenerator[httpx2.Response]:
        """Yield the resource at ``path`` as a stream of events, of which only the head has come."""
        async with self._sent("GET", path, self._streaming, query=query, headers={"Accept": EVENTS}) as response:
            await self._refuse(response, safe=True)
            if media_type_of(response) != EVENTS:
                raise self.answers.foreign("answered with what is no stream of events")
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
        """Request ``path``, and yield a response of which only the head has come. Raises as ``request`` does."""
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
        given = {name: value for name, value in (query or {}).items() if value is not None}
        with self.answers.named(safe=method == "GET" or REPEATABLE in (headers or {})):
            request = self._http.build_request(
                method, f"{self.url}{path}", params=given or None, content=body, headers=headers, timeout=timeout
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
    """Return data as JSON. Raises ``InvalidArguments`` for data that is not JSON."""
    try:
        return to_json(data)
    except ValueError as error:
        raise InvalidArguments(f"this is not JSON: {error}") from None


def if_match(version: int | None) -> dict[str, str]:
    """Return the header that makes a change depend on a version; ``None`` for any."""
    return {} if version is None else {"If-Match": f'"{version}"'}


class Page(Protocol[T_co]):
    """Some items, and the cursor of the next page, if there is one."""

    @property
    def items(self) -> Sequence[T_co]:
        """The items."""
        ...

    @property
    def next(self) -> str | None:
        """The cursor."""
        ...


async def every(page: Callable[[str | None], Awaitable[Page[T]]]) -> AsyncGenerator[T]:
    """Yield the items of all pages; ``page`` requests the one at a cursor, each only when it is needed."""
    cursor: str | None = None
    while True:
        found = await page(cursor)
        for item in found.items:
            yield item
        if found.next is None:
            return
        if found.next == cursor:
            raise ForeignAnswer("the server answered one page of a list twice")
        cursor = found.next
