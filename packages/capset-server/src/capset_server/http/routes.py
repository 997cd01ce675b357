"""Request paths: the root path of the server, and the templates that paths match (spec 5, P92)."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from capset.errors import DefinitionError
from capset_server.auth.resources import WELL_KNOWN
from capset_server.http.request_context import path_of, request_context

_ROOT: Final = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~-]+)*")
_MCP: Final = "/mcp/"
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


def root_path_of(root_path: str | None, public_url: str | None) -> str | None:
    """Return the root path of a server, without a trailing slash; the default is the path of the public URL.

    Without either, return ``None``: the root path is that of the application in which the server is mounted. Raises
    ``DefinitionError`` for a path that needs escaping, and for one that differs from that of the public URL.
    """
    public = None if public_url is None else urlsplit(public_url).path.rstrip("/")
    root = public if root_path is None else root_path.rstrip("/")
    if root is None:
        return None
    if not _ROOT.fullmatch(root):
        raise DefinitionError(
            f"a root path is a slash and letters, digits, '.', '_', '~' or '-', for each segment; got {root!r:.200}",
            hint="such as /capset or /tools/capset",
        )
    if public is not None and root != public:
        raise DefinitionError(
            f"the root path is {root or '/'!r}, and the public URL has the path {public or '/'!r}",
            hint="leave the root path out: the default is that of the public URL",
        )
    return root


def check_root_path(root: str | None, templates: Iterable[str]) -> None:
    """Raise ``DefinitionError`` for a root path that begins like a path of the server: a proxy may strip the root."""
    if root and (first := root.split("/")[1]) in {template.split("/")[1] for template in templates}:
        raise DefinitionError(
            f"the root path {root!r} begins with /{first}, which is a path of the server's own",
            hint="choose another one, such as /capset",
        )


def place_request(scope: Scope, root: str | None) -> Scope:
    """Return the scope of a request with its path below the root, as ASGI defines; ``None`` leaves the root unchanged.

    The path may come with or without the root. Metadata is also found where RFC 9728 has clients look for it, with its
    prefix before the root. ``/mcp/`` counts as ``/mcp``: many clients do not send the body again after a redirect.
    """
    root_before: str = scope.get("root_path", "")
    path_before = path = path_of(scope)
    if root:
        for head in (WELL_KNOWN, ""):
            if path == head + root or path.startswith(f"{head}{root}/"):
                path = head + path[len(head) + len(root) :]
                break
    path = path or "/"
    if path.startswith(_MCP):
        path = path.rstrip("/")
    if root is None:
        root = root_before
    if (path, root) == (path_before, root_before):
        return scope
    return {**scope, "path": root + path, "root_path": root}
