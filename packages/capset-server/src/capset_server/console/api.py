"""The REST API, called in process: a page shows and does only what REST allows its caller."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import quote, urlencode

from starlette.types import ASGIApp, Message, Receive, Scope

from capset.errors import CapsetError, Field
from capset_server.http.bodies import RequestBody
from capset_server.http.request_context import KEY, RequestContext, request_context
from capset_server.http.request_rules import BodyBounds
from capset_server.http.routes import Routes

_JSON: Final = "application/json"
_PREFIX: Final = "/v1/"
_ANY: Final = BodyBounds(sys.maxsize, None)
"""No bounds for the bodies of a page's own requests: the form that they come from was bounded."""
_WAITING: Final = 2
"""Maximum number of buffered parts of a streamed response. After that, the sender waits."""


class RestRefusal(CapsetError):
    """REST's refusal of a request; ``approval`` is the id of an approval request, if there is one.

    ``lacks_scope`` says whether a key with another scope would be accepted.
    """

    def __init__(self, status: int, problem: Mapping[str, Any], *, lacks_scope: bool = False) -> None:  # JSON data
        fields = [
            Field(field["path"], field["expected"], field.get("did_you_mean")) for field in problem.get("fields") or ()
        ]
        super().__init__(str(problem.get("detail", "The request was refused")), fields=fields)
        self.status = status
        self.code = str(problem.get("code", "error"))
        self.retryable = bool(problem.get("retryable", False))
        self.retry_after = problem.get("retry_after")
        self.approval: str | None = problem.get("approval")
        self.lacks_scope = lacks_scope


class RestAnswer:
    """A complete response: its status, its headers by lower-case name, and its body."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    def json(self) -> Any:  # any JSON
        """Return the body as JSON data, ``None`` for an empty one. Raises ``RestRefusal`` for an error status."""
        parsed = json.loads(self.body) if self.body and _is_json(self.headers.get("content-type", "")) else None
        if self.status >= 400:
            problem = cast("dict[str, Any]", parsed) if isinstance(parsed, dict) else {}
            lacks_scope = "insufficient_scope" in self.headers.get("www-authenticate", "")
            raise RestRefusal(self.status, problem, lacks_scope=lacks_scope)
        return parsed


@dataclass(frozen=True, slots=True)
class OpenAnswer:
    """A streamed response: its status, its headers by lower-case name, and the parts of its body."""

    status: int
    headers: Mapping[str, str]
    parts: AsyncGenerator[bytes]

    async def read(self, most: int | None = None) -> bytes:
        """Return the body; with ``most``, stop reading once it has that many bytes."""
        content = bytearray()
        async for part in self.parts:
            content += part
            if most is not None and len(content) >= most:
                break
        return bytes(content)


class Api:
    """The REST API of a server for the sender of one request; ``authorization`` is the header with its token."""

    def __init__(self, app: ASGIApp, routes: Routes, scope: Scope, authorization: str = "") -> None:
        self._app = app
        self._routes = routes
        self._scope = scope
        self._authorization = authorization

    async def get(self, *segments: str, **query: object) -> Any:  # any JSON
        """Return the data of ``GET /v1/…``. Omits query values that are ``None`` or empty. Raises ``RestRefusal``."""
        return (await self.ask("GET", *segments, query=query)).json()

    async def find(self, *segments: str, **query: object) -> Any:  # any JSON
        """Return what ``get`` returns, ``None`` if it does not exist or the caller may not see it."""
        with suppress_refusals(403, 404):
            return await self.get(*segments, **query)

    async def send(
        self,
        method: str,
        *segments: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:  # any JSON
        """Send JSON data by ``POST``, ``PATCH`` or the like; return the response's data. Raises ``RestRefusal``."""
        content = None if body is None else json.dumps(body).encode()
        return (await self.ask(method, *segments, content=content, headers=headers)).json()

    async def ask(
        self,
        method: str,
        *segments: str,
        query: Mapping[str, object] | None = None,
        content: bytes | RequestBody | None = None,
        media_type: str = _JSON,
        headers: Mapping[str, str] | None = None,
    ) -> RestAnswer:
        """Return the complete response to a request, even if it was refused."""
        scope, receive = self._request(method, segments, query, content, media_type, headers)
        started: dict[str, Any] = {}
        parts: list[bytes] = []

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                started.update(message)
            else:
                parts.append(message.get("body", b""))

        await self._app(scope, receive, send)
        return RestAnswer(started["status"], _named(started), b"".join(parts))

    async def stream(
        self,
        *segments: str,
        query: Mapping[str, object] | None = None,
        method: str = "GET",
        content: bytes | None = None,
    ) -> AsyncGenerator[bytes]:
        """Yield the parts of a response as they arrive, such as those of an event stream. Raises ``RestRefusal``.

        The request is cancelled when the reader stops.
        """
        accept = {"accept": "text/event-stream"}
        async with self.open(*segments, query=query, method=method, content=content, headers=accept) as answer:
            async for part in answer.parts:
                yield part

    @asynccontextmanager
    async def open(
        self,
        *segments: str,
        query: Mapping[str, object] | None = None,
        method: str = "GET",
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[OpenAnswer]:
        """Yield a streamed response; on exit, its request is cancelled.

        Raises ``RestRefusal``.
        """
        scope, receive = self._request(method, segments, query, content, _JSON, headers)
        messages: asyncio.Queue[Message | None] = asyncio.Queue(_WAITING)

        async def run() -> None:
            try:
                await self._app(scope, receive, messages.put)
            except Exception:
                await messages.put(None)
                raise
            await messages.put(None)

        async def parts() -> AsyncGenerator[bytes]:
            while (message := await messages.get()) is not None:
                if message.get("body"):
                    yield message["body"]
            await task

        task = asyncio.create_task(run())
        try:
            start = await messages.get()
            if start is None:
                await task
                raise RuntimeError("the application ended without a response")
            answer = OpenAnswer(start["status"], _named(start), parts())
            if answer.status >= 400:
                RestAnswer(answer.status, answer.headers, await answer.read()).json()
            yield answer
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def _request(
        self,
        method: str,
        segments: tuple[str, ...],
        query: Mapping[str, object] | None,
        content: bytes | RequestBody | None,
        media_type: str,
        headers: Mapping[str, str] | None,
    ) -> tuple[Scope, Receive]:
        """Return a new request, with the caller and the correlation of the page."""
        outer = request_context(self._scope)
        raw = _PREFIX + "/".join(quote(segment, safe="/" if at else "") for at, segment in enumerate(segments))
        path = _PREFIX + "/".join(segments)
        parameters = {name: _text(value) for name, value in (query or {}).items() if value is not None and value != ""}
        fields = {"host": outer.header(b"host"), **{name.lower(): value for name, value in (headers or {}).items()}}
        if self._authorization:
            fields["authorization"] = self._authorization
        if content is not None:
            fields = {"content-type": media_type, **fields}
        if not isinstance(content, RequestBody):
            content = RequestBody(_whole(content or b""), len(content or b""), _ANY, 0, arrived=True)
        pairs = [
            (name.encode("latin-1"), value.encode("latin-1", "backslashreplace")) for name, value in fields.items()
        ]
        inner = RequestContext(outer.correlation, dict(pairs), outer.caller, guard=outer.guard)
        inner.body = content
        inner.route = self._routes.of(path)
        root = self._scope.get("root_path", "")
        scope = {
            **self._scope,
            "method": method,
            "path": root + path,
            "raw_path": (root + raw).encode(),
            "query_string": urlencode(parameters).encode(),
            "headers": pairs,
            KEY: inner,
        }
        return scope, content.receive


def _named(start: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers in a response's first message, by lower-case name."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in start["headers"]}


def _whole(content: bytes) -> Any:  # an ASGI receive
    """Return the receiving side of a request with a complete body, whose client never disconnects."""
    waiting = [{"type": "http.request", "body": content, "more_body": False}]

    async def receive() -> Message:
        if waiting:
            return waiting.pop()
        return await asyncio.Future[Message]()

    return receive


class suppress_refusals:
    """Suppress refusals with one of these statuses."""

    def __init__(self, *statuses: int) -> None:
        self._statuses = statuses

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        """Suppress such a refusal."""
        return isinstance(error, RestRefusal) and error.status in self._statuses


def _is_json(content_type: str) -> bool:
    media_type = content_type.partition(";")[0].strip().lower()
    return media_type == _JSON or media_type.endswith("+json")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
