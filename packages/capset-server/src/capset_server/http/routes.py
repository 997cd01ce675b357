"""Route templates: which one a request's path matches, and the endpoints that need no router."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from capset_server.http.request_context import path_of, request_context

_ANY: Final = "{}"
_REST: Final = "{path}"
_ID: Final = "{id}"
_HERE: Final = ""
"""The key of a node's own template: path segments are never empty."""


class Routes:
    """Matches paths to templates such as ``/v1/agents/{id}`` in a microsecond; routers take far longer."""

    def __init__(self, templates: Iterable[str]) -> None:
        self._root: dict[str, Any] = {}
        for template in templates:
            node = self._root
            for segment in _segments(template):
                is_named = segment.startswith("{")
                node = node.setdefault(segment if not is_named or segment == _REST else _ANY, {})
            node[_HERE] = template

    def of(self, path: str) -> str | None:
        """Return the template of a path, or ``None``; literal segments take precedence over parameters."""
        return _match(self._root, _segments(path), 0) if path.startswith("/") else None


def _segments(path: str) -> list[str]:
    return [] if path == "/" else path.split("/")[1:]


def _match(node: dict[str, Any], segments: list[str], at: int) -> str | None:
    if at == len(segments):
        return node.get(_HERE)
    segment = segments[at]
    if segment:
        for key in (segment, _ANY):
            if (child := node.get(key)) is not None and (template := _match(child, segments, at + 1)) is not None:
                return template
    rest = node.get(_REST)
    return None if rest is None else rest[_HERE]


Endpoint = Callable[[str | None, Scope, Receive, Send], Awaitable[None]]
"""Answers a request; the first argument is the segment for ``{id}``, if the template has one."""


class DirectRoutes:
    """Routes that are served without a router; all other requests go to ``app``.

    ``routes`` maps methods and templates to endpoints; the method ``None`` means any. The middleware has matched the
    path.
    """

    def __init__(self, app: ASGIApp, routes: Mapping[tuple[str | None, str], Endpoint]) -> None:
        self._app = app
        self._routes = {
            (method, template): (endpoint, template.split("/").index(_ID) if _ID in template else None)
            for (method, template), endpoint in routes.items()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http" and (template := request_context(scope).route) is not None:
            route = self._routes.get((scope["method"], template)) or self._routes.get((None, template))
            if route is not None:
                endpoint, at = route
                return await endpoint(None if at is None else path_of(scope).split("/")[at], scope, receive, send)
        return await self._app(scope, receive, send)
