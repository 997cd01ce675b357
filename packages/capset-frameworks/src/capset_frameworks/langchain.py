"""A session for LangChain: ``create_agent(model, middleware=[CapsetMiddleware(session)])`` (extra ``langchain``)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Annotated, Any, NotRequired, Unpack, cast
from uuid import uuid4

from pydantic import BaseModel, Field, ValidationError
from pydantic_core import to_jsonable_python

from capset.definitions.calls.messages import Message
from capset.definitions.tools.options import Effect
from capset.errors import DefinitionError, ToolError, ToolNameConflict
from capset.kernel.call.media import Medium
from capset.kernel.call.session import Session
from capset.schemas.validation_errors import UNKNOWN_FIELD, validation_fields
from capset_connect.interop import ImportedTools, ImportOptions, import_tools
from capset_frameworks.framework import Framework
from capset_frameworks.session_tools import CallAnswer, SessionTools

LANGCHAIN = Framework("langchain", "langchain", "1.5", extra="langchain")
"""The framework of this adapter."""
_log = logging.getLogger("capset.adapters")

with LANGCHAIN.importing():
    from langchain.agents.middleware.human_in_the_loop import ApproveDecision, RejectDecision, ToolApprovalRequest
    from langchain.agents.middleware.types import (
        AgentMiddleware,
        AgentState,
        ExtendedModelResponse,
        ModelRequest,
        ModelResponse,
        PrivateStateAttr,
        ToolCallRequest,
        hook_config,
    )
    from langchain.agents.structured_output import AutoStrategy, ToolStrategy
    from langchain_core.callbacks import AsyncCallbackManagerForToolRun, adispatch_custom_event
    from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
    from langchain_core.tools import BaseTool, Tool, ToolException
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from langgraph.runtime import Runtime, get_runtime
    from langgraph.types import Command, interrupt
    from langsmith import get_current_run_tree

_REJECTION = "A reviewer refused this call, and it was not made"


class CapsetTool(BaseTool):
    """A tool of a session, for ``bind_tools``, ``ToolNode`` and custom graphs.

    Called with a model's tool call, it returns a ``ToolMessage``: ``status`` is ``error`` for a refusal or a failure,
    and ``artifact`` has the ``record``, and the ``code`` and ``approval`` of a refusal. Called with bare arguments, it
    returns the reply's data, or the text of the refusal. Events of the call are written to the custom stream of the
    graph, and dispatched to callbacks. It is async: ``invoke`` raises ``NotImplementedError``.
    """

    _tools: SessionTools
    _correlation: str | None = None

    def __init__(
        self,
        tools: SessionTools,
        name: str,
        description: str = "",
        parameters: Mapping[str, Any] | None = None,  # a JSON Schema
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        """Create a tool for the session's tool of this name. ``load_tools`` creates those in play."""
        schema = dict(parameters or {"type": "object", "properties": {}})
        super().__init__(name=name, description=description, args_schema=schema, metadata={**(metadata or {})})
        self._tools = tools

    def of_run(self, run: str | None) -> CapsetTool:
        """Return a copy of this tool for a run, whose id is the correlation of its records."""
        tool = self.model_copy()
        tool._correlation = run
        return tool

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{self.name!r} is async, as all tools of capset: use await tool.ainvoke(…)")

    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (), {"arguments": tool_input, "call_id": tool_call_id}  # nested, so that argument names cannot clash

    async def _arun(
        self,
        arguments: str | dict[str, Any],
        call_id: str | None,
        run_manager: AsyncCallbackManagerForToolRun | None = None,
    ) -> Any:  # a ToolMessage, or JSON data
        runtime = _graph_runtime()
        parent = run_manager and (run_manager.parent_run_id or run_manager.run_id)
        run = self._correlation or _run_id() or (None if parent is None else str(parent))
        sent: list[asyncio.Task[None]] = []

        def send(event: Message) -> None:
            data = {"tool": self.name, "tool_call_id": call_id, "data": event.data}
            name = f"capset.{event.type}"
            if runtime is not None:
                runtime.stream_writer({"type": name, **data})
            sent.append(asyncio.create_task(adispatch_custom_event(name, data)))

        try:
            answer = await self._tools.call(self.name, arguments, id=call_id, run=run, on_event=send)
        finally:
            for error in await asyncio.gather(*sent, return_exceptions=True):
                if isinstance(error, Exception):
                    _log.warning("progress of %r cannot be forwarded here", self.name, exc_info=error)
        if call_id is not None:
            return _tool_message(self.name, call_id, answer)
        return answer.data if answer.has_full_data else answer.text


async def load_tools(session: Session) -> list[CapsetTool]:
    """Return the tools in play in a session now, for ``bind_tools`` and ``ToolNode``."""
    return await _load_tools(SessionTools(session))


class _RunState(AgentState[Any]):
    """The state of an agent, with the middleware's own fields, which are stored with the checkpoints."""

    capset_run: NotRequired[Annotated[str, PrivateStateAttr]]
    capset_own: NotRequired[Annotated[list[str], PrivateStateAttr]]
    """The names of the agent's own tools in this step, whose calls capset does not handle."""
    capset_held: NotRequired[Annotated[dict[str, dict[str, Any]], PrivateStateAttr]]
    """The calls of this step that have to wait for an approval: the metadata of their refusals, by call id."""


class CapsetMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """The tools and the system text of a session, for an agent of ``create_agent``, besides its own.

    Both are resolved before every model step. Calls go through the session: the kernel alone validates, decides and
    records them. The correlation of their records is the run's id (``run_id`` of the run's config, or the id of
    LangSmith's trace, or a new id that all calls of the run share), and their causation the model's call id. A refused
    or failed call is a ``ToolMessage`` with the status ``error``. Calls of tools that the agent does not have, and
    calls whose arguments are not a JSON object, also go to the session, which refuses them on record.

    A call that needs an approval fails, and its text has the request's id. With ``defers``, it interrupts the run
    instead: the interrupt's value is a ``ToolApprovalRequest``, like that of ``HumanInTheLoopMiddleware`` with
    ``per_call``, and has the request's id as ``approval``. Resumed with ``{"type": "approve"}``, the call is made
    again; it goes through if capset's own request was approved. Call agents with this middleware by ``ainvoke`` and
    ``astream``.
    """

    state_schema = cast("type[AgentState[Any]]", _RunState)  # typed as LangChain's own, so that both fit in one list

    def __init__(self, session: Session, *, include_instructions: bool = True, defers: bool = False) -> None:
        """Give an agent the tools of a session.

        ``include_instructions`` appends the session's system text to the agent's own. ``defers`` is for agents with a
        checkpointer.
        """
        super().__init__()
        LANGCHAIN.warn_if_untested()
        self._tools = SessionTools(session)
        self._capset_tools: dict[str, CapsetTool] = {}
        self._include_instructions = include_instructions
        self._defers = defers

    def before_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Refuse a run that is not async."""
        raise NotImplementedError(
            "capset's tools are async: call await agent.ainvoke(…) instead of agent.invoke(…), "
            "and agent.astream(…) instead of agent.stream(…)"
        )

    async def abefore_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Begin a run, whose calls share an id even if it is interrupted."""
        info = runtime.execution_info
        if self._defers and (info is None or info.thread_id is None):
            raise DefinitionError(
                "with defers=True, runs can be interrupted, but nothing stores this one",
                hint='give create_agent a checkpointer, and the run {"configurable": {"thread_id": "…"}}',
            )
        return {"capset_run": str(uuid4())}

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ExtendedModelResponse[Any]:
        """Add the tools in play and the system text to a request, after the agent's own."""
        await self._load_tools()
        for tool in request.tools:
            if isinstance(tool, BaseTool) and tool.name in self._capset_tools:
                raise ToolNameConflict(
                    f"the agent and its session both have a tool {tool.name!r}",
                    hint="give one of them another name, or leave it out of tools=[…] of create_agent",
                )
        message = request.system_message
        if self._include_instructions and (text := await self._tools.system_text(_last_user_text(request.messages))):
            message = _with_system_text(message, text)
        tools = [*request.tools, *self._capset_tools.values()]
        response = await handler(request.override(system_message=message, tools=tools))
        return ExtendedModelResponse(response, Command(update={"capset_own": _own_names(request)}))

    @hook_config(can_jump_to=["model"])
    async def aafter_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Answer calls that LangChain does not make; with ``defers``, find those that have to wait."""
        last = next((message for message in reversed(state["messages"]) if isinstance(message, AIMessage)), None)
        calls = [] if last is None else [*last.invalid_tool_calls, *(last.tool_calls if self._defers else ())]
        if last is None or not calls:
            return None
        answered = {message.tool_call_id for message in state["messages"] if isinstance(message, ToolMessage)}
        names = {tool.name for tool in await self._tools.list_tools()}
        run_state = cast("_RunState", state)
        own_names, run = run_state.get("capset_own", []), _run_id() or run_state.get("capset_run")
        messages: list[ToolMessage] = []
        waiting: dict[str, dict[str, Any]] = {}
        for call in calls:
            key, name, arguments = call["id"], call["name"], call["args"]
            if key is None or key in answered or name is None or name in own_names:
                continue
            if not isinstance(arguments, dict):  # LangChain found that it is not a JSON object
                answer = await self._tools.call(name, arguments or "", id=key, run=run)
                messages.append(_tool_message(name, key, answer))
            elif name in names and (answer := await self._tools.check(name, arguments, id=key, run=run)) is not None:
                if answer.approval is None:
                    messages.append(_tool_message(name, key, answer))
                else:
                    waiting[key] = answer.metadata
        update: dict[str, Any] = {"messages": messages, "capset_held": waiting}
        return update if last.tool_calls or not messages else {**update, "jump_to": "model"}

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        """Call a tool of the session. A call that waits for an approval is made once it is resumed."""
        call, state = request.tool_call, cast("_RunState", request.state)
        if not self._capset_tools:  # resumed, in another process
            await self._load_tools()
        if request.tool is not None and call["name"] not in self._capset_tools:
            return await handler(request)  # the agent's own
        tool = self._capset_tools.get(call["name"]) or CapsetTool(self._tools, call["name"])
        metadata = state.get("capset_held", {}).get(call["id"] or "")
        if metadata is not None:
            key, args, description = str(call["id"]), call["args"], tool.description
            value = ToolApprovalRequest(
                type="tool_approval", tool_call_id=key, name=call["name"], args=args, description=description
            )
            decision = interrupt({**value, **metadata}, response_schema=_Decision)
            if decision["type"] == "reject":
                reason = decision.get("message")
                text = f"{_REJECTION}: {reason}" if reason else f"{_REJECTION}."
                return ToolMessage(text, name=call["name"], tool_call_id=key, status="error", artifact=metadata)
        run = _run_id() or state.get("capset_run")
        return await handler(request.override(tool=tool.of_run(run)))

    async def _load_tools(self) -> None:
        self._capset_tools = {tool.name: tool for tool in await _load_tools(self._tools)}


_Decision = cast(
    "type[ApproveDecision | RejectDecision]", Annotated[ApproveDecision | RejectDecision, Field(discriminator="type")]
)


def import_langchain_tools(
    tools: Iterable[BaseTool], *, name: str, effect: Effect, **options: Unpack[ImportOptions]
) -> ImportedTools:
    """Make a capability from LangChain tools, with their names, descriptions and schemas as its models see them.

    ``effect`` applies to each tool unless a rule sets another; the other options are those of
    ``capset_connect.interop.import_tools``. A result becomes JSON data. A ``ToolException`` is an error that the model
    reads, as formatted by the tool's ``handle_tool_error``; other exceptions are internal errors. Sync tools run in a
    thread.

    Raises ``DefinitionError`` for anything but a tool, and for a tool that needs values that only a LangGraph graph
    provides.
    """
    checked = [_validated_tool(tool) for tool in tools]
    by_name = {tool.name: tool for tool in checked}
    raising = {"handle_tool_error": False, "handle_validation_error": False}
    bare = {key: tool.model_copy(update=raising) for key, tool in by_name.items()}
    hidden = {key: _hidden_parameters(tool) for key, tool in by_name.items()}

    async def call(tool: str, arguments: dict[str, Any]) -> Any:  # JSON data
        schema, keys = by_name[tool].args_schema, {*arguments}
        if isinstance(schema, type) and issubclass(schema, BaseModel):
            try:  # before the tool runs: such an error within it is internal
                keys |= schema.model_validate(arguments).model_fields_set  # also those given by alias
            except ValidationError as error:
                fields = validation_fields(error, [*schema.model_fields], arguments)
                problems = "; ".join(map(str, fields))
                raise ToolError(
                    f"Invalid arguments for {tool!r}: {problems}", code="invalid_arguments", status=422, fields=fields
                ) from None
        if problems := "; ".join(f"{key}: {UNKNOWN_FIELD}" for key in sorted(keys & hidden[tool])):
            raise ToolError(f"Invalid arguments for {tool!r}: {problems}", code="invalid_arguments", status=422)
        try:
            # Bare arguments could themselves look like a tool call, whose "args" LangChain would then run instead.
            result = await bare[tool].ainvoke({"type": "tool_call", "name": tool, "args": arguments, "id": None})
        except ToolException as error:
            raise ToolError(_tool_error_text(by_name[tool], error)) from error
        if isinstance(result, Command):
            raise ToolError(f"{tool!r} returned a Command, which only a graph of LangGraph can follow")
        return to_jsonable_python(result)

    return import_tools(
        [convert_to_openai_tool(tool) for tool in checked], name=name, handler=call, effect=effect, **options
    )


def _validated_tool(tool: object) -> BaseTool:
    if not isinstance(tool, BaseTool):
        raise DefinitionError(f"a tool of LangChain was expected; got {tool!r:.80}", hint="put @tool on a function")
    schema = tool.get_input_schema()
    if issubclass(schema, BaseModel) and not isinstance(tool.args_schema, dict) and not isinstance(tool, Tool):
        properties = convert_to_openai_tool(tool)["function"]["parameters"]["properties"]
        for key, field in schema.model_fields.items():
            if field.is_required() and key not in properties and field.alias not in properties:
                raise DefinitionError(
                    f"the tool {tool.name!r} needs {key!r} from a graph of LangGraph, which capset does not have",
                    hint="leave the tool out, or give the parameter a default",
                )
    return tool


def _hidden_parameters(tool: BaseTool) -> set[str]:
    """Return the arguments that LangChain does not show to models, so that no model may set them."""
    properties = convert_to_openai_tool(tool)["function"]["parameters"].get("properties", {})
    injected: Iterable[str] = getattr(tool, "_injected_args_keys", ())  # of its function, not of its schema
    fields = {} if isinstance(tool.args_schema, dict) else getattr(tool.get_input_schema(), "model_fields", {})
    return {*injected, *(key for key, field in fields.items() if field.alias not in properties)} - {*properties}


def _tool_error_text(tool: BaseTool, error: ToolException) -> str:
    """Return the text of an error, as formatted by the tool's ``handle_tool_error``."""
    handle = tool.handle_tool_error
    if callable(handle):
        return str(handle(error))
    return handle if isinstance(handle, str) else str(error) or f"The tool {tool.name!r} failed."


async def _load_tools(tools: SessionTools) -> list[CapsetTool]:
    return [
        CapsetTool(tools, tool.name, tool.description, tool.parameters, tool.metadata)
        for tool in await tools.list_tools()
    ]


def _tool_message(name: str, call_id: str, answer: CallAnswer) -> ToolMessage:
    status = "success" if answer.error is None else "error"
    blocks: list[str | dict[Any, Any]] = [_content_block(part) for part in answer.parts]  # as LangChain types its own
    return ToolMessage(blocks or answer.text, name=name, tool_call_id=call_id, status=status, artifact=answer.metadata)


def _content_block(part: str | Medium) -> dict[str, Any]:  # a block of LangChain's
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "image" if part.is_image else "audio", "base64": part.base64, "mime_type": part.media_type}


def _with_system_text(message: SystemMessage | None, text: str) -> SystemMessage:
    """Return an agent's own system message with a text appended, or a message with the text alone."""
    if message is None or not message.content:
        return SystemMessage(text)
    original = message.content
    content = f"{original}\n\n{text}" if isinstance(original, str) else [*original, {"type": "text", "text": text}]
    return message.model_copy(update={"content": content})


def _own_names(request: ModelRequest[Any]) -> list[str]:
    """Return the names of an agent's own tools, including those for its structured output."""
    form = request.response_format
    specs = ToolStrategy(form.schema).schema_specs if isinstance(form, ToolStrategy | AutoStrategy) else ()
    return [*(tool.name for tool in request.tools if isinstance(tool, BaseTool)), *(spec.name for spec in specs)]


def _last_user_text(messages: Iterable[AnyMessage]) -> str | None:
    """Return the text of the last human message."""
    return next((message.text for message in reversed([*messages]) if isinstance(message, HumanMessage)), None)


def _graph_runtime() -> Runtime[Any] | None:
    """Return the runtime of the graph that runs a tool, or ``None`` outside of a graph."""
    try:
        return get_runtime()
    except (KeyError, RuntimeError):
        return None


def _run_id() -> str | None:
    """Return the id of the current run from its config, or else the id of its trace, if any."""
    runtime = _graph_runtime()
    info = None if runtime is None else runtime.execution_info
    if info is not None and info.run_id is not None:
        return str(info.run_id)
    tree = get_current_run_tree()
    return None if tree is None else str(tree.trace_id)
