"""Attribute names of spans: OpenTelemetry's, and capset's own.

The conventions for generative AI and MCP are still in development
(github.com/open-telemetry/semantic-conventions-genai). Those for HTTP servers are stable.
"""

from __future__ import annotations

from typing import Final

ERROR_TYPE: Final = "error.type"

OPERATION: Final = "gen_ai.operation.name"
EXECUTE_TOOL: Final = "execute_tool"
INVOKE_AGENT: Final = "invoke_agent"
CHAT: Final = "chat"
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_DESCRIPTION: Final = "gen_ai.tool.description"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_CALL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_CALL_RESULT: Final = "gen_ai.tool.call.result"
AGENT_ID: Final = "gen_ai.agent.id"
AGENT_NAME: Final = "gen_ai.agent.name"
CONVERSATION_ID: Final = "gen_ai.conversation.id"

CAPABILITY: Final = "capset.capability"
EFFECT: Final = "capset.effect"
DECISION: Final = "capset.decision"
OUTCOME: Final = "capset.outcome"
ATTEMPTS: Final = "capset.attempts"
RUNTIME_HASH: Final = "capset.runtime_hash"
CORRELATION: Final = "capset.correlation"

HTTP_METHOD: Final = "http.request.method"
HTTP_ROUTE: Final = "http.route"
HTTP_STATUS: Final = "http.response.status_code"
URL_PATH: Final = "url.path"
URL_SCHEME: Final = "url.scheme"

MCP_METHOD: Final = "mcp.method.name"
MCP_VERSION: Final = "mcp.protocol.version"
JSONRPC_ID: Final = "jsonrpc.request.id"
RPC_STATUS: Final = "rpc.response.status_code"

UNKNOWN_TOOL: Final = "unknown_tool"
"""Stands for the name of a tool that does not exist, since the caller may have sent any text."""
CONTENT_VARIABLE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The environment variable that makes OpenTelemetry's own instrumentations capture content."""
