"""A session for the Claude Agent SDK: ``CapsetClient(session, options)`` (extra ``claude-agent-sdk``)."""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, Self, Unpack, cast

from pydantic import JsonValue

from capset.definitions.tools.options import Effect
from capset.errors import CapsetError, DefinitionError, ToolError
from capset.kernel.call.media import Medium
from capset.kernel.call.session import Session
from capset_connect.interop import ImportedTools, ImportOptions, import_tools
from capset_frameworks.framework import Framework
from capset_frameworks.session_tools import CallAnswer, OfferedTool, SessionTools

CLAUDE_AGENT_SDK = Framework("claude-agent-sdk", "claude_agent_sdk", "0.2.189", extra="claude-agent-sdk")
"""The framework of this adapter."""

with CLAUDE_AGENT_SDK.importing():
    from claude_agent_sdk import (
        ClaudeAgentOptions,
        ClaudeSDKClient,
        HookContext,
        HookInput,
        HookMatcher,
        McpSdkServerConfig,
        Message,
        ResultMessage,
        SdkMcpTool,
        Transport,
        create_sdk_mcp_server,
    )
    from claude_agent_sdk.types import HookEvent, HookJSONOutput
    from mcp import Client
    from mcp.server import Server, ServerRequestContext
    from mcp.types import (
        AudioContent,
        CallToolRequestParams,
        CallToolResult,
        ImageContent,
        ListToolsResult,
        PaginatedRequestParams,
        TextContent,
        Tool,
        ToolAnnotations,
    )

_SERVER_NAME: Final = re.compile(r"[A-Za-z0-9-]{1,32}(?:_[A-Za-z0-9-]{1,32})?")
"""Names of servers. Claude Code would end a server's name at two underscores in the name of a tool."""
_MAX_REFUSALS: Final = 1_000
"""The maximum number of stored refusals, since Claude Code may never make the refused calls."""


class CapsetClient(ClaudeSDKClient):
    """A client of the SDK whose agent has the tools and the system text of a session, besides its own.

    The tools belong to an MCP server in this process; the model sees them as ``mcp__capset__NAME``. Tools and system
    text are resolved again before each prompt and after each step with calls; a changed system text is added as
    additional context. Calls go through the session: the kernel alone validates, decides and records them. The
    correlation of their records is the SDK's session id, and their causation the model's call id. A refused or failed
    call is a tool result that is marked as an error.

    A call that needs an approval fails, and its text has the request's id. With ``defers``, it ends the run instead:
    ``deferred_tool_use`` of the ``ResultMessage`` has the call, and ``approval_of`` returns the id of the request. When
    a client with the option ``resume`` connects, even in another process, the call is made again; it goes through if
    capset's own request was approved.
    """

    def __init__(
        self,
        session: Session,
        options: ClaudeAgentOptions | None = None,
        *,
        name: str = "capset",
        include_instructions: bool = True,
        defers: bool = False,
        transport: Transport | None = None,
    ) -> None:
        """Give the agent of a client the tools of a session.

        Args:
            session: the session that provides the tools.
            options: the SDK's options, to which capset's server, hooks and system text are added. Without them, the
                agent has none of Claude Code's own tools, and reads no settings from files.
            name: the name of the server, which is part of the tools' names for the model.
            include_instructions: whether the session's system text follows the agent's own.
            defers: whether a call that needs an approval suspends the run.
            transport: as for ``ClaudeSDKClient``.
        """
        CLAUDE_AGENT_SDK.warn_if_untested()
        if _SERVER_NAME.fullmatch(name) is None:
            raise DefinitionError(
                "a server's name is one or two parts of up to 32 letters, digits and hyphens, joined by _; "
                f"got {name!r:.80}"
            )
        self._base_options = ClaudeAgentOptions(tools=[], setting_sources=[]) if options is None else options
        super().__init__(_validated(self._base_options, name, include_instructions=include_instructions), transport)
        self._tools = SessionTools(session)
        self._name = name
        self._include_instructions = include_instructions
        self._defers = defers
        self._server = Server(name, on_list_tools=self._list_tools, on_call_tool=self._call_tool)
        self._listed_tools: list[tuple[str, str]] = []  # the names and hashes of the tools that Claude Code knows
        self._sent_system_text = ""
        self._prompt: str | None = None
        self._unanswered = 0
        self._run: str | None = None
        self._deferred: str | None = None
        self._refusals: dict[str, CallAnswer] = {}

    def approval_of(self, tool_use_id: str) -> str | None:
        """Return the id of the request that a deferred call waits for, by the model's call id."""
        answer = self._refusals.get(tool_use_id)
        return None if answer is None else answer.approval

    @property
    def server(self) -> McpSdkServerConfig:
        """The MCP server of the session's tools, for the SDK."""
        return McpSdkServerConfig(type="sdk", name=self._name, instance=self._server)

    async def connect(self, prompt: str | AsyncIterable[dict[str, Any]] | None = None) -> None:
        """Start Claude Code with the session's tools and its current system text.

        Raises ``ContextError``, naming the context that failed.
        """
        self._prompt = prompt if isinstance(prompt, str) else None
        self._unanswered = 0 if prompt is None else 1
        self._deferred = None
        self._sent_system_text = await self._tools.system_text(self._prompt) if self._include_instructions else ""
        self.options = self._with_session(self._base_options)
        await super().connect(prompt)

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def query(self, prompt: str | AsyncIterable[dict[str, Any]], session_id: str = "default") -> None:
        """Send a prompt. Between two runs, the tools are updated first."""
        if not self._unanswered:
            await self._refresh()
        self._unanswered += 1
        self._deferred = None
        await super().query(prompt, session_id)

    async def receive_messages(self) -> AsyncIterator[Message]:
        """Yield the SDK's messages unchanged."""
        async for message in super().receive_messages():
            if isinstance(message, ResultMessage):
                self._unanswered = max(0, self._unanswered - 1)
            yield message

    def _with_session(self, options: ClaudeAgentOptions) -> ClaudeAgentOptions:
        servers = cast("dict[str, Any]", options.mcp_servers)  # checked by the constructor
        hooks = {event: [*matchers] for event, matchers in (options.hooks or {}).items()}
        hooks.setdefault("PreToolUse", []).append(
            HookMatcher(matcher=f"mcp__{self._name}__.*", hooks=[self._before_call])
        )
        hooks.setdefault("UserPromptSubmit", []).append(HookMatcher(hooks=[self._before_run]))
        # Claude Code has this event, and the SDK the type of its output, but not yet its name.
        hooks.setdefault(cast("HookEvent", "PostToolBatch"), []).append(HookMatcher(hooks=[self._before_step]))
        return replace(
            options,
            mcp_servers={**servers, self._name: self.server},
            allowed_tools=[*options.allowed_tools, f"mcp__{self._name}"],  # the session decides
            system_prompt=_with_system_text(options.system_prompt, self._sent_system_text),
            hooks=hooks,
        )

    async def _before_call(
        self, hook_input: HookInput, tool_use_id: str | None, context: HookContext
    ) -> HookJSONOutput:
        """Store the SDK's session id, which MCP requests lack, and suspend a call that needs an approval."""
        self._run = hook_input["session_id"]
        # Claude Code suspends one call of the main agent; for any other, the model reads that it needs an approval.
        if hook_input["hook_event_name"] != "PreToolUse" or not self._defers or "agent_id" in hook_input:
            return {}
        use, name = hook_input["tool_use_id"], hook_input["tool_name"].removeprefix(f"mcp__{self._name}__")
        answer = await self._tools.check(name, hook_input["tool_input"], id=use, run=self._run)
        if answer is None:
            self._refusals.pop(use, None)
            return {}
        self._refusals[use] = answer
        if len(self._refusals) > _MAX_REFUSALS:
            del self._refusals[next(iter(self._refusals))]  # the oldest
        if answer.approval is None or self._deferred not in (None, use):
            return {}
        self._deferred = use
        return {
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": "defer",
                "permissionDecisionReason": answer.text,
            }
        }

    async def _before_run(self, hook_input: HookInput, id: str | None, context: HookContext) -> HookJSONOutput:
        if hook_input["hook_event_name"] == "UserPromptSubmit":
            self._prompt = hook_input["prompt"]
        return await self._system_text_update("UserPromptSubmit")

    async def _before_step(self, hook_input: HookInput, id: str | None, context: HookContext) -> HookJSONOutput:
        if "agent_id" in hook_input:  # the text is for the main agent, and a subagent would consume its change
            return {}
        await self._refresh()
        return await self._system_text_update("PostToolBatch")

    async def _system_text_update(self, event: str) -> HookJSONOutput:
        """Return the system text for the model if it has changed. If its context fails, the run ends."""
        try:
            text = await self._tools.system_text(self._prompt) if self._include_instructions else ""
        except CapsetError as error:
            return {"continue_": False, "stopReason": str(error)}
        if text == self._sent_system_text:
            return {}
        self._sent_system_text = text
        notice = f"These instructions replace the earlier ones:\n\n{text}"
        return cast("HookJSONOutput", {"hookSpecificOutput": {"hookEventName": event, "additionalContext": notice}})

    async def _refresh(self) -> None:
        """Make Claude Code list the tools again if they have changed; it ignores notifications of this server."""
        if [(tool.name, tool.hash) for tool in await self._tools.list_tools()] != self._listed_tools:
            await self.toggle_mcp_server(self._name, enabled=False)
            await self.toggle_mcp_server(self._name, enabled=True)

    async def _list_tools(
        self, context: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        tools = await self._tools.list_tools()
        self._listed_tools = [(tool.name, tool.hash) for tool in tools]
        return ListToolsResult(tools=[*map(_mcp_tool, tools)])

    async def _call_tool(self, context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        tool_use_id = (context.meta or {}).get("claudecode/toolUseId")
        use = tool_use_id if isinstance(tool_use_id, str) else None
        answer = self._refusals.pop(use, None) if use is not None else None  # on record already
        if answer is None:
            answer = await self._tools.call(params.name, params.arguments or {}, id=use, run=self._run)
        return CallToolResult(
            content=[_content_block(part) for part in answer.parts or [answer.text]],
            is_error=answer.error is not None,
            _meta=answer.metadata,
        )


async def import_claude_tools(
    tools: Iterable[SdkMcpTool[Any]], *, name: str, effect: Effect, **options: Unpack[ImportOptions]
) -> ImportedTools:
    """Make a capability from tools that were written for the SDK, with the SDK's schemas.

    ``effect`` applies to each tool unless a rule sets another; annotations only strengthen it. See
    ``capset_connect.interop.import_tools`` for the rest. A result with ``is_error`` is a failure whose text the model
    reads; it reads nothing of an exception.
    """
    sdk_tools = list(tools)
    by_name = {sdk_tool.name: sdk_tool for sdk_tool in sdk_tools}

    async def run(tool: str, arguments: dict[str, Any]) -> JsonValue:
        return _result(await by_name[tool].handler(arguments))

    config = create_sdk_mcp_server(name, tools=sdk_tools)  # it lists both of two tools with the same name
    async with Client(config["instance"]) as client:
        mcp_tools = (await client.list_tools()).tools
    definitions = [mcp_tool.model_dump(mode="json", by_alias=True, exclude_none=True) for mcp_tool in mcp_tools]
    return import_tools(definitions, name=name, handler=run, effect=effect, **options)


def _result(output: Mapping[str, Any]) -> JsonValue:
    """Return the text of a result, or its content if that is more than text. Raises ``ToolError`` for an error."""
    content: list[dict[str, Any]] = output.get("content", [])
    texts = [str(block["text"]) for block in content if block.get("type") == "text"]
    if output.get("is_error"):
        raise ToolError("\n".join(texts) or "the tool failed, and said nothing")
    return "\n".join(texts) if len(texts) == len(content) else [*content]


def _content_block(part: str | Medium) -> TextContent | ImageContent | AudioContent:
    if isinstance(part, str):
        return TextContent(type="text", text=part)
    if part.is_image:
        return ImageContent(type="image", data=part.base64, mime_type=part.media_type)
    return AudioContent(type="audio", data=part.base64, mime_type=part.media_type)


def _mcp_tool(tool: OfferedTool) -> Tool:
    return Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.parameters,
        # Claude Code runs calls of such tools concurrently.
        annotations=ToolAnnotations(read_only_hint=True) if tool.effect == "read" else None,
        # The largest result that Claude Code lets a tool request: capset already cuts results.
        _meta={"anthropic/maxResultSizeChars": 500_000, "anthropic/alwaysLoad": True},
    )


def _validated(options: ClaudeAgentOptions, name: str, *, include_instructions: bool) -> ClaudeAgentOptions:
    """Return the options if capset can add to them. Raises ``DefinitionError`` if not."""
    if not isinstance(options.mcp_servers, dict):
        raise DefinitionError(
            "mcp_servers is the text or the path of a configuration, to which no server can be added",
            hint="give ClaudeAgentOptions(mcp_servers={…}), with each server by its name",
        )
    if name in options.mcp_servers:
        raise DefinitionError(
            f"mcp_servers already has a server {name!r}", hint="give CapsetClient(…, name=…) another name"
        )
    if include_instructions and isinstance(options.system_prompt, dict) and options.system_prompt["type"] == "file":
        raise DefinitionError(
            "system_prompt is a file, to which the session's system text cannot be added",
            hint="give the file's text, or CapsetClient(…, include_instructions=False)",
        )
    return options


def _with_system_text(system_prompt: Any, text: str) -> Any:  # any form that the SDK accepts
    """Return the agent's own system prompt with the session's system text at its end."""
    if not text:
        return system_prompt
    if system_prompt is None or isinstance(system_prompt, str):
        system_prompt = {"type": "custom", "prompt": system_prompt or ""}
    member = "append" if system_prompt["type"] == "preset" else "prompt"
    joined = "\n\n".join(part for part in (system_prompt.get(member), text) if part)
    # With a snapshot, a resumed session would keep the text of its first run.
    return {"snapshot": False, **system_prompt, member: joined}
