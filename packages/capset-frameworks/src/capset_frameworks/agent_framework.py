"""A session for Microsoft's Agent Framework: ``CapsetProvider(session)`` (extra ``agent-framework``)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from inspect import isroutine, signature
from typing import Any, Final, Unpack, cast, get_type_hints
from uuid import uuid4

from opentelemetry.trace import get_current_span
from pydantic import RootModel, ValidationError
from pydantic_core import to_jsonable_python

from capset.definitions.tools.options import Effect
from capset.errors import DefinitionError, ToolError
from capset.kernel.call.session import Session
from capset.kernel.telemetry.tracing import traceparent_of
from capset.schemas.validation_errors import validation_fields
from capset_connect.interop import ImportedTools, ImportOptions, import_tools
from capset_connect.tool_rules import ToolRules
from capset_frameworks.framework import Framework
from capset_frameworks.session_tools import CallAnswer, OfferedTool, SessionTools

AGENT_FRAMEWORK = Framework("agent-framework-core", "agent_framework", "1.23", extra="agent-framework")
"""The framework of this adapter."""

with AGENT_FRAMEWORK.importing():
    from agent_framework import (
        AgentSession,
        ChatContext,
        ChatMiddleware,
        Content,
        ContextProvider,
        FunctionInvocationContext,
        FunctionMiddleware,
        FunctionTool,
        SessionContext,
        SupportsAgentRun,
        merge_chat_options,
        normalize_tools,
    )
    from agent_framework.exceptions import ToolException

_RUN: Final = "capset_run"
_ANSWER: Final = "capset_answer"
"""Keys of a call's ``metadata``, which the framework keeps for middleware."""


class CapsetProvider(ContextProvider):
    """A context provider that gives an agent the tools and the system text of a session, besides its own.

    Both are resolved before every request to the model. Calls go through the session: the kernel alone validates,
    decides and records them. The correlation of their records is the id of the current trace, or else the id of the
    run, ``agent_session.state[source_id]["run"]``; their causation is the model's call id. A refused or failed call is
    a result that the model reads; its content has ``code`` and ``record`` in ``additional_properties``.

    A call that needs an approval fails, and its text has the request's id. With ``defers``, it becomes an approval
    request of the framework instead, with the id of capset's request as ``additional_properties["approval"]``: the run
    ends with it among ``response.user_input_requests``. Once that is answered, in a run with the same ``AgentSession``,
    the call is made again: it goes through if capset's own request was approved, and waits again while that is
    undecided.
    """

    def __init__(
        self, session: Session, *, include_instructions: bool = True, defers: bool = False, source_id: str = "capset"
    ) -> None:
        """``include_instructions`` is whether the session's system text follows the agent's own instructions."""
        super().__init__(source_id)
        AGENT_FRAMEWORK.warn_if_untested()
        self.include_instructions = include_instructions
        self.defers = defers
        self._session_tools = SessionTools(session)
        self._tools: dict[str, _SessionTool] = {}

    async def before_run(
        self,
        *,
        agent: SupportsAgentRun,
        session: AgentSession,
        context: SessionContext,
        state: dict[str, Any],  # as the framework declares it
    ) -> None:
        """Give a run the tools in play, and update them before each request to the model."""
        is_continued = any(
            content.type == "function_approval_response"
            for message in context.input_messages
            for content in message.contents
        )
        if not is_continued or not isinstance(state.get("run"), str):
            state["run"] = str(uuid4())
        context.extend_tools(self.source_id, await self.tools())
        context.extend_middleware(self.source_id, [_RequestMiddleware(self), _CallMiddleware(self, state["run"])])

    async def tools(self) -> Sequence[FunctionTool]:
        """Return the tools in play now, as tools of the framework."""
        offered = await self._session_tools.list_tools()
        previous = {offer.name: self._tools.get(offer.name) for offer in offered}
        self._tools = {
            offer.name: tool
            if (tool := previous[offer.name]) and tool.hash == offer.hash
            else _SessionTool(offer, self._session_tools)
            for offer in offered
        }
        return list(self._tools.values())

    async def instructions(self) -> str:
        """Return the session's current system text, or an empty text if it is left out."""
        return await self._session_tools.system_text() if self.include_instructions else ""

    def owns(self, tool: object) -> bool:
        """Return whether a tool belongs to this session."""
        return isinstance(tool, _SessionTool) and tool.session_tools is self._session_tools


class _RawArguments(RootModel[dict[str, Any]]):
    """Arguments as a model made them: the kernel validates."""


class _SessionTool(FunctionTool):
    """A tool of a session. It shows the offered JSON Schema unchanged, and validates nothing."""

    def __init__(self, tool: OfferedTool, session_tools: SessionTools) -> None:
        self.session_tools = session_tools
        self.hash = tool.hash
        self._schema = tool.parameters
        super().__init__(
            name=tool.name,
            description=tool.description,
            func=self._call,
            input_model=_RawArguments,
            result_parser=_contents,
            additional_properties={**tool.metadata},
        )

    def parameters(self) -> dict[str, Any]:
        """Return the JSON Schema of the arguments."""
        return self._schema

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:  # the framework's signature
        """Call the tool, even with an argument named ``self``."""
        self.invocation_count += 1
        return self._call(*args, **kwargs)

    async def _call(self, /, *, capset_context: FunctionInvocationContext, **_: Any) -> CallAnswer:
        """Call the tool with the arguments in its context: the framework drops an argument with the context's name."""
        metadata = capset_context.metadata
        span = get_current_span().get_span_context()
        answer = await self.session_tools.call(
            self.name,
            _raw_arguments(cast("dict[str, Any]", capset_context.arguments), self._schema),
            id=metadata.get("call_id"),
            run=f"{span.trace_id:032x}" if span.is_valid else metadata.get(_RUN),
            trace=traceparent_of(span) if span.is_valid else None,
        )
        metadata[_ANSWER] = answer
        return answer


class _RequestMiddleware(ChatMiddleware):
    """Updates tools and system text before each request to the model."""

    def __init__(self, provider: CapsetProvider) -> None:
        self._provider = provider

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        options = cast("dict[str, Any]", context.options)
        tools = await self._provider.tools()
        if tools or "tools" in options:
            # The surrounding loop looks up the tools of calls in this list, so it is changed in place.
            live: list[object] = options.setdefault("tools", [])
            live[:] = [*(tool for tool in live if not self._provider.owns(tool)), *tools]
        if text := await self._provider.instructions():
            agent_options = {"instructions": options["instructions"]} if "instructions" in options else None
            context.options = {**options, **merge_chat_options(agent_options, {"instructions": text})}
        await call_next()


class _CallMiddleware(FunctionMiddleware):
    """Links calls to their run, and turns those that need an approval into requests if they are deferred."""

    def __init__(self, provider: CapsetProvider, run: str) -> None:
        self._provider = provider
        self._run = run

    async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
        is_ours = self._provider.owns(context.function)
        if is_ours:
            context.metadata[_RUN] = self._run
        await call_next()
        answer = context.metadata.get(_ANSWER)
        if is_ours and self._provider.defers and isinstance(answer, CallAnswer) and answer.approval is not None:
            call_id: str = context.metadata["call_id"]
            occurrence: str = context.metadata.get("function_call_occurrence_id", call_id)
            arguments = cast("Mapping[str, Any]", context.arguments)
            call = Content.from_function_call(call_id, context.function.name, arguments=arguments, id=occurrence)
            properties = {**answer.metadata, "reason": answer.text}
            context.result = Content.from_function_approval_request(occurrence, call, additional_properties=properties)


def _contents(answer: CallAnswer) -> list[Content]:
    """Return the result of a call for the model, with metadata that it does not read."""
    return [
        Content.from_text(part, additional_properties={**answer.metadata})
        if isinstance(part, str)
        else Content.from_data(part.data, part.media_type, additional_properties={**answer.metadata})
        for part in answer.parts or [answer.text]
    ]


def _raw_arguments(arguments: dict[str, Any], schema: Mapping[str, Any]) -> str | dict[str, Any]:
    """Return arguments as the model wrote them: the framework puts all but JSON objects under ``raw``."""
    if arguments.keys() != {"raw"} or "raw" in schema.get("properties", {}):
        return arguments
    raw = arguments["raw"]
    if isinstance(raw, str):
        try:
            json.loads(raw)
        except ValueError:
            return raw
        return arguments  # a real argument: JSON text would have been parsed
    return arguments if isinstance(raw, dict) else json.dumps(raw)


def import_agent_framework_tools(
    tools: FunctionTool | Callable[..., Any] | Sequence[FunctionTool | Callable[..., Any]],
    *,
    name: str,
    effect: Effect,
    **options: Unpack[ImportOptions],
) -> ImportedTools:
    """Make a capability from the framework's function tools, or from functions that ``Agent(tools=…)`` accepts.

    Names, descriptions and schemas are kept; ``options`` are those of ``import_tools``. A tool whose ``approval_mode``
    is ``always_require`` needs capset's approval, unless its own rule says otherwise. The model reads the text of a
    ``ToolException``; for other exceptions, it learns only that the tool failed.

    Raises ``DefinitionError`` for tools that cannot be run here: those without a function, those of MCP servers, and
    those that take the context of a run.
    """
    checked: list[FunctionTool] = []
    for tool in normalize_tools(tools):
        if not isinstance(tool, FunctionTool) or tool.func is None:
            raise DefinitionError(
                f"capability {name!r:.80}: function tools of Agent Framework were expected; got {tool!s:.80}",
                hint="use capset_connect.mcp.McpServer for tools of MCP servers",
            )
        if any("FunctionInvocationContext" in str(hint) for hint in _hints(tool.func)):
            raise DefinitionError(
                f"capability {name!r:.80}: {tool.name!r} takes a FunctionInvocationContext, which exists only in a run",
                hint="leave it out, or make it a tool of capset with capset.Context",
            )
        checked.append(tool)
    by_name = {function_tool.name: function_tool for function_tool in checked}
    rules: dict[str, ToolRules] = {
        key: {"approval": "ask"}
        for key, function_tool in by_name.items()
        if function_tool.approval_mode == "always_require"
    }
    rules |= {key: {**rules.get(key, {}), **override} for key, override in (options.get("rules") or {}).items()}

    async def call(key: str, arguments: dict[str, Any]) -> Any:  # JSON data
        function_tool = by_name[key]
        try:
            if function_tool.input_model is not None:  # it may be stricter than its schema
                function_tool.input_model.model_validate(arguments)
        except ValidationError as error:
            fields = validation_fields(error, list(arguments), arguments)
            raise ToolError(f"Invalid arguments for {key!r}", code="invalid_arguments", fields=fields) from error
        try:
            result = await function_tool.invoke(arguments=arguments, skip_parsing=True)
            parsed = function_tool.result_parser(result) if callable(function_tool.result_parser) else result
        except ToolException as error:
            raise ToolError(str(error)) from error
        return _data(parsed)

    options["rules"] = rules
    return import_tools(
        [
            function_tool.to_json_schema_spec() for function_tool in checked
        ],  # a list, so that duplicate names are refused
        name=name,
        handler=call,
        effect=effect,
        **options,
    )


def _hints(function: Callable[..., Any]) -> Iterable[object]:
    """Return the types of a function's parameters, as far as they can be resolved here."""
    called = function if isroutine(function) else type(function).__call__
    try:
        return get_type_hints(getattr(function, "func", called)).values()
    except NameError:  # a type that is imported for type checkers only
        return [parameter.annotation for parameter in signature(function).parameters.values()]


def _data(result: object) -> object:
    """Return a tool's result as JSON data, or as text if it consists of the framework's texts."""
    contents = cast("list[object]", result) if isinstance(result, list) else [result]
    if not any(isinstance(content, Content) for content in contents):
        return to_jsonable_python(result, fallback=str)
    parsed = FunctionTool.parse_result(result)
    if all(content.type == "text" for content in parsed):
        return "\n".join(content.text or "" for content in parsed)
    return [content.to_dict() for content in parsed]
