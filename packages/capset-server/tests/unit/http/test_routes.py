"""Which route a path is of."""

from __future__ import annotations

from typing import Any

import pytest

from capset_server.http.paths import MCP_PATHS
from capset_server.http.request_context import KEY, RequestContext
from capset_server.http.routes import DirectRoutes, Routes

ROUTES = Routes(
    [
        "/v1/agents",
        "/v1/agents/{id}",
        "/v1/agents/preview",
        "/v1/agents/{id}/preview",
        "/v1/sessions/{id}/files/{path}",
        "/v1/sessions/{id}/calls",
        "/openapi.json",
        *MCP_PATHS,
    ]
)


@pytest.mark.parametrize(
    ("path", "template"),
    [
        ("/v1/agents", "/v1/agents"),
        ("/v1/agents/a-1", "/v1/agents/{id}"),
        ("/v1/agents/preview", "/v1/agents/preview"),
        ("/v1/agents/preview/preview", "/v1/agents/{id}/preview"),
        ("/v1/sessions/s/files/a", "/v1/sessions/{id}/files/{path}"),
        ("/v1/sessions/s/files/a/b/c.txt", "/v1/sessions/{id}/files/{path}"),
        ("/v1/sessions/s/calls", "/v1/sessions/{id}/calls"),
        ("/openapi.json", "/openapi.json"),
        ("/mcp", "/mcp"),
        ("/mcp/agents/a", "/mcp/agents/{id}"),
        ("/mcp/sessions/s", "/mcp/sessions/{id}"),
        ("/v1/agents/", None),
        ("/v1/agents//preview", None),
        ("/v1/agents/a/b", None),
        ("/v1/sessions/s", None),
        ("/v1", None),
        ("/", None),
        ("", None),
        ("/{}", None),
        ("/" * 5_000, None),
        ("/v1/agents/{id}", "/v1/agents/{id}"),
    ],
)
def test_a_path_is_of_the_route_that_spells_out_most_of_it(path: str, template: str | None) -> None:
    assert ROUTES.of(path) == template


@pytest.mark.parametrize(
    ("method", "path", "answered"),
    [
        ("POST", "/v1/sessions/s-1/calls", "call of s-1"),
        ("GET", "/v1/sessions/s-1/calls", "app"),
        ("POST", "/v1/sessions/s-1/calls/x", "app"),
        ("POST", "/v1/agents", "app"),
        ("POST", "/mcp/agents/a", "mcp of a"),
        ("DELETE", "/mcp/agents/a", "mcp of a"),
        ("POST", "/mcp", "mcp of None"),
        ("POST", "/below/mcp", "app"),
    ],
)
async def test_direct_routes_come_first_and_leave_all_others_to_the_application(
    method: str, path: str, answered: str
) -> None:
    answers: list[str] = []

    async def receive() -> Any:
        raise AssertionError

    async def send(message: Any) -> None:
        raise AssertionError

    async def app(scope: Any, receive: Any, send: Any) -> None:
        answers.append("app")

    def answering(name: str) -> Any:
        async def answer(id: str | None, scope: Any, receive: Any, send: Any) -> None:
            answers.append(f"{name} of {id}")

        return answer

    direct = DirectRoutes(
        app,
        {
            ("POST", "/v1/sessions/{id}/calls"): answering("call"),
            (None, "/mcp"): answering("mcp"),
            (None, "/mcp/agents/{id}"): answering("mcp"),
        },
    )
    scope = {"type": "http", "method": method, "path": path, KEY: RequestContext("c", {}, route=ROUTES.of(path))}
    await direct(scope, receive, send)
    assert answers == [answered]
