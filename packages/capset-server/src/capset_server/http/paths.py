"""The paths that the server has rules for, as templates."""

from __future__ import annotations

from typing import Final

from capset_server.auth.resources import WELL_KNOWN

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
"""The paths whose responses, including errors, have OpenAI's formats."""
METADATA_PATHS: Final = tuple(f"{WELL_KNOWN}{path}" for path in ("", "/v1", *MCP_PATHS))
"""The paths of the server's metadata as an OAuth resource."""
APPROVAL_PAGE: Final = "/approve/{id}"
"""The page where people decide an approval request; it is not in the OpenAPI document."""
SLACK_INTERACTIONS: Final = "/slack/interactions"
"""The path for decisions from Slack, which signs them; it is not in the OpenAPI document."""
PROTOCOL_PATHS: Final = (*MCP_PATHS, *FRONT_END_PATHS, *OPENAI_PATHS)
"""The paths of third-party protocols; they are not in the OpenAPI document."""
