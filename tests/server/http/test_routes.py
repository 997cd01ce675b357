"""Which route a path is of."""

from __future__ import annotations

import pytest

from capset.server.http.routes import MCP_PATHS, Routes

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
