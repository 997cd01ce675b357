"""Matching of request paths to route templates, a set as small as the set of routes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from capset_server.auth.resources import WELL_KNOWN
from capset_server.http.request_context import path_of, request_context

_ANY: Final = "{}"
_REST: Final = "{path}"
_ID: Final = "{id}"
_HERE: Final = ""
"""The key of a node's own template: path segments are never empty."""
CALLS_PATH: Final = "/v1/sessions/{id}/calls"
MCP_PATHS: Final = ("/mcp", "/mcp/agents/{id}", "/mcp/sessions/{id}")
FRONT_END_PATHS: Final = (
    *("/v1/agents/{id}/ag-ui", "/v1/agents/{id}/ai-sdk"),
    *("/v1/agents/{id}/ai-sdk/{thread}", "/v1/agents/{id}/ai-sdk/{thread}/stream"),
)
OPENAI_PATHS: Final = (
    *("/v1/models", "/v1/models/{id}"),
    *("/v1/responses", "/v1/responses/{id}", "/v1/responses/{id}/cancel"),
    *("/v1/chat/completions", "/v1/chat/completions/{id}"),
)
"""The paths whose answers have OpenAI's shapes, also those of errors."""
METADATA_PATHS: Final = tuple(f"{WELL_KNOWN}{path}" for path in ("", "/v1", *MCP_PATHS))
"""The paths of the metadata of the server as a resource of OAuth."""
APPROVAL_PAGE: Final = "/approve/{id}"
"""The page of a request for an approval, for people; it is not in the OpenAPI document either."""
SLACK_INTERACTIONS: Final = "/slack/interactions"
"""The path of decisions from Slack, which signs them; it is not in the OpenAPI document either."""
PROTOCOL_PATHS: Final = (*MCP_PATHS, *FRONT_END_PATHS, *OPENAI_PATHS)
"""The paths that speak the protocols of others, and are not in the OpenAPI document."""


class Routes:
    """Matcher of paths to templates, such as ``/v1/agents/{id}``, in a microsecond; routers take far longer."""

    def __init__(self, templates: Iterable[str]) -> None:
        self._root: dict[str, Any] = {}
        for template in templates:
            node = self._root
            for segment in _segments(template):
                is_named = segment.startswith("{")
                node = node.setdefault(segment if not is_named or segment == _REST else _ANY, {})
            node[_HERE] = template

    def of(self, path: str) -> str | None:
        """Return the template of a path, ``None`` for none; literal segments precede parameters."""
        return _match(self._root, _segments(path), 0) if path.startswith("/") else None


def _segments(path: str) -> list[str]:
    return [] if path == "/" else path.split("/")[1:]


def _match(node: dict[str, Any], segments: list[str], at: int) -> str | None:
    if at == len(segments):
        return node.get(_HERE)
    segment = segments[at]
    if segment:
        for key in (segment, _ANY):
            if (child := node.get(key)) is not None and (found := _match(child, segments, at + 1)) is not None:
                return found
    rest = node.get(_REST)
    return None if rest is None else rest[_HERE]


Endpoint = Callable[[str | None, Scope, Receive, Send], Awaitable[None]]
"""Answers a request; the first argument is the segment that ``{id}`` of its template stands for."""


class DirectRoutes:
    """The first routes of the table, answered without a router; all other requests go on to ``app``.

    ``routes`` has their endpoints by method and template; ``None`` is any method. The middleware has matched the path.
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
            found = self._routes.get((scope["method"], template)) or self._routes.get((None, template))
            if found is not None:
                endpoint, at = found
                return await endpoint(None if at is None else path_of(scope).split("/")[at], scope, receive, send)
        return await self._app(scope, receive, send)
