"""A session for Google's Agent Development Kit: ``LlmAgent(…, tools=[SessionToolset(session)])``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable
from dataclasses import asdict
from typing import Any, Final, Unpack
from uuid import uuid4

from opentelemetry.trace import get_current_span
from pydantic import JsonValue
from pydantic_core import to_jsonable_python

from capset.definitions.calls.messages import Message
from capset.definitions.tools.options import Effect
from capset.errors import DefinitionError, ToolError
from capset.kernel.call.session import Session
from capset.wire.calls import progress_of
from capset_connect.interop.imports import ImportedTools, ImportOptions, import_tools
from capset_frameworks.framework import Framework
from capset_frameworks.session_tools import CallAnswer, OfferedTool, SessionTools

GOOGLE_ADK = Framework("google-adk", "google.adk", "2.13")
"""The framework of this adapter."""

with GOOGLE_ADK.importing():
    from google.adk.agents.invocation_context import InvocationContext
    from google.adk.agents.readonly_context import ReadonlyContext
    from google.adk.agents.run_config import RunConfig, ToolThreadPoolConfig
    from google.adk.events.event import Event
    from google.adk.models.llm_request import LlmRequest
    from google.adk.sessions.in_memory_session_service import InMemorySessionService
    from google.adk.tools.base_tool import BaseTool
    from google.adk.tools.base_toolset import BaseToolset
    from google.adk.tools.tool_context import ToolContext
    from google.genai.types import FunctionDeclaration

PROGRESS: Final = "capset.progress"
"""The metadata key of an event with the progress of a call: its tool, its id, a fraction and a message."""
_log = logging.getLogger("capset.adapters")
_APP: Final = "capset"
"""The app and the user of the ADK's sessions in which imported tools run."""


class SessionToolset(BaseToolset):
    """The tools of a session, and its system text, for an agent of the ADK.

    Both are resolved before every model step. Calls go through the session: the kernel alone validates, decides and
    records them. The correlation of their records is the id of the invocation, and their causation the model's call id;
    the ADK's span of the call has the record's id as ``capset.record``. The model reads a result as ``result``, and a
    refused or failed call as ``error``, which does not end the run.

    A call that needs an approval fails, and its text has the request's id. With ``defers``, it requests a confirmation
    from the ADK, whose payload has the request's id as ``approval``. Once confirmed, the call is made again; it goes
    through if capset's own request was approved.
    """

    def __init__(self, session: Session, *, include_instructions: bool = True, defers: bool = False) -> None:
        """``include_instructions`` is whether the session's system text follows the agent's own instruction."""
        super().__init__()
        GOOGLE_ADK.warn_if_untested()
        self._use_invocation_cache = False  # the tools in play may change with every call
        self._session_tools = SessionTools(session)
        self._include_instructions = include_instructions
        self._defers = defers

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        """Return the tools in play in the session."""
        return [
            _AdkTool(self._session_tools, tool, defers=self._defers) for tool in await self._session_tools.list_tools()
        ]

    async def process_llm_request(self, *, tool_context: ToolContext, llm_request: LlmRequest) -> None:
        """Add the session's system text to a request."""
        if self._include_instructions and (text := await self._session_tools.system_text()):
            llm_request.append_instructions([text])


class _AdkTool(BaseTool):
    """A tool of a session, for the ADK."""

    def __init__(self, session_tools: SessionTools, tool: OfferedTool, *, defers: bool) -> None:
        metadata: dict[str, Any] = {**tool.metadata}
        super().__init__(name=tool.name, description=tool.description, custom_metadata=metadata)
        self._session_tools = session_tools
        self._tool = tool
        self._defers = defers

    def _get_declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(
            name=self._tool.name, description=self._tool.description, parameters_json_schema=self._tool.parameters
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> dict[str, JsonValue]:
        """Call the tool, and return the result that the model reads."""
        confirmation = tool_context.tool_confirmation
        if confirmation is not None and not confirmation.confirmed:
            return {"error": "This call was rejected, and not made."}
        answer = await self._call(args, tool_context)
        get_current_span().set_attribute("capset.record", answer.record)
        if self._defers and confirmation is None and answer.approval is not None:
            tool_context.request_confirmation(hint=answer.text, payload={"approval": answer.approval})
            tool_context.actions.skip_summarization = True  # the step ends here, as with the ADK's own tools
        return _response(answer)

    async def _call(self, args: dict[str, Any], context: ToolContext) -> CallAnswer:
        """Make a call. Once it reports progress, a node of the ADK forwards the reports until the call has ended."""
        reports: asyncio.Queue[Event | None] = asyncio.Queue()

        def on_event(message: Message) -> None:
            if (progress := progress_of(message)) is not None:
                report = {"tool": self.name, "call": context.function_call_id, **asdict(progress)}
                reports.put_nowait(Event(partial=True, custom_metadata={PROGRESS: report}))

        async def make() -> CallAnswer:
            try:
                return await self._session_tools.call(
                    self._tool.name, args, id=context.function_call_id, run=context.invocation_id, on_event=on_event
                )
            finally:
                reports.put_nowait(None)

        async with asyncio.TaskGroup() as group:
            call = group.create_task(make())
            if (first := await reports.get()) is not None:

                async def progress() -> AsyncGenerator[Event]:
                    event: Event | None = first
                    while event is not None:
                        yield event
                        event = await reports.get()

                try:
                    await context.run_node(progress)
                except Exception:
                    _log.warning("progress of %r cannot be forwarded here; the call goes on", self.name, exc_info=True)
        return call.result()

    def _detect_error_in_response(self, response: object) -> str | None:
        """Return the type of an error for the ADK's telemetry."""
        return "TOOL_ERROR" if isinstance(response, dict) and "error" in response else None


def import_adk_tools(
    tools: Iterable[BaseTool], *, name: str, effect: Effect, **options: Unpack[ImportOptions]
) -> ImportedTools:
    """Make a capability from the ADK's tools, with their names, descriptions and schemas.

    ``effect`` applies to each tool unless ``rules`` set another; the other options are those of ``import_tools``. Each
    call runs in its own invocation, with an empty session; sync functions run in a thread. A result with ``error`` is
    an error that the model reads, and so is a call that requests a confirmation or a credential from the ADK. The
    details of an exception are only logged.

    Raises ``DefinitionError`` for a tool without a declaration, or one that answers later.
    """
    by_name: dict[str, BaseTool] = {}
    definitions: list[dict[str, Any]] = []
    for tool in tools:
        declared = tool._get_declaration()  # pyright: ignore[reportPrivateUsage]  # the ADK has no other way to its schema
        if declared is None or tool.is_long_running:
            problem = "has no declaration, so it runs in the model" if declared is None else "answers at a later time"
            raise DefinitionError(f"capability {name!r:.80}: {tool.name!r} {problem}", hint="leave it out")
        by_name[tool.name] = tool
        definitions.append({"name": tool.name, "description": tool.description, "parameters": _schema(declared)})
    sessions = InMemorySessionService()

    async def run(called: str, arguments: dict[str, Any]) -> JsonValue:
        session = await sessions.create_session(app_name=_APP, user_id=_APP)
        try:
            invocation = InvocationContext(
                session_service=sessions,
                invocation_id=session.id,
                session=session,
                run_config=RunConfig(tool_thread_pool_config=ToolThreadPoolConfig()),
            )
            context = ToolContext(invocation, function_call_id=str(uuid4()))
            result: object = await by_name[called].run_async(args=arguments, tool_context=context)
        finally:
            await sessions.delete_session(app_name=_APP, user_id=_APP, session_id=session.id)
        return _data(result, context)

    return import_tools(definitions, name=name, handler=run, effect=effect, **options)


def _response(answer: CallAnswer) -> dict[str, JsonValue]:
    if answer.error is not None:
        return {"error": answer.text}
    return {"result": answer.data if answer.has_full_data else answer.text}


def _schema(declared: FunctionDeclaration) -> object:
    """Return the JSON Schema of a declaration's parameters."""
    if declared.parameters_json_schema is not None:
        return declared.parameters_json_schema
    if declared.parameters is not None:
        return declared.parameters.json_schema.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {"type": "object", "properties": {}}


def _data(result: object, context: ToolContext) -> JsonValue:
    """Return a result as JSON data. Raises ``ToolError`` if the ADK treats it as an error."""
    if context.actions.requested_tool_confirmations or context.actions.requested_auth_configs:
        raise ToolError("The tool asks for a confirmation or a credential that it cannot have here.")
    data: JsonValue = to_jsonable_python(result)
    if isinstance(data, dict) and data.get("error"):
        raise ToolError(str(data["error"]))
    return data
