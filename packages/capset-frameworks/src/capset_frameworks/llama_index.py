"""A session for LlamaIndex: ``CapsetFunctionAgent(llm=…, session=session)`` (extra ``llama-index``)."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Any, Final, Unpack, cast

from pydantic import BaseModel, Field, JsonValue, PrivateAttr
from pydantic_core import PydanticSerializationError, to_jsonable_python

from capset.definitions.calls.messages import Message
from capset.definitions.tools.options import Effect
from capset.errors import DefinitionError, ToolError
from capset.kernel.call.media import Medium
from capset.kernel.call.session import Session
from capset.schemas.validation_errors import UNKNOWN_FIELD
from capset.wire.calls import progress_of
from capset_agents.model_calls import parse_arguments
from capset_connect.interop.imports import ImportedTools, ImportOptions, import_tools
from capset_frameworks.framework import Framework
from capset_frameworks.session_tools import CallAnswer, OfferedTool, SessionTools

LLAMA_INDEX = Framework("llama-index-core", "llama_index.core", "0.14", extra="llama-index")
"""The framework of this adapter."""

with LLAMA_INDEX.importing():
    from llama_index.core.agent.workflow import AgentOutput, FunctionAgent, ToolCall
    from llama_index.core.agent.workflow.agent_context import AgentContext
    from llama_index.core.base.llms.types import AudioBlock, ChatMessage, ImageBlock, TextBlock, ToolCallBlock
    from llama_index.core.memory import BaseMemory
    from llama_index.core.objects import ObjectRetriever
    from llama_index.core.tools import AsyncBaseTool, BaseTool, FunctionTool, ToolMetadata, ToolOutput
    from llama_index.core.tools.types import adapt_to_async_tool
    from llama_index_instrumentation.dispatcher import active_instrument_tags
    from workflows import Context
    from workflows.events import Event, HumanResponseEvent, InputRequiredEvent
    from workflows.runtime.types.results import StepWorkerContext, StepWorkerStateContextVar, StepWorkerWaiter

_WAITER_PREFIX: Final = "capset approval "
"""The prefix of the ids of this adapter's waiters, before the request's id and the work item's id."""


class ToolCallProgress(Event):
    """The progress of a call, in the stream of its run."""

    tool_name: str
    tool_id: str
    fraction: float
    message: str | None = None


class ToolCallSuspended(InputRequiredEvent):
    """A call that waits for an approval. Send its ``answered()`` to the run to make the call again."""

    tool_name: str
    tool_id: str
    tool_kwargs: dict[str, Any]  # as the model gave them
    approval: str
    """The id of capset's request, whose decision counts."""

    def answered(self) -> ToolCallAnswered:
        """Return the event that says that the request was decided."""
        return ToolCallAnswered(approval=self.approval, tool_id=self.tool_id)


class ToolCallAnswered(HumanResponseEvent):
    """Tells a run that the request of a waiting call was decided. Send it once."""

    approval: str
    tool_id: str


class CapsetFunctionAgent(FunctionAgent):
    """A ``FunctionAgent`` that has the tools and the system text of a session, besides its own; alone or in a workflow.

    Both are resolved before every model step. Calls go through the session: the kernel alone validates, decides and
    records them. The correlation of their records is the id of the run, and their causation the model's call id. A
    refused or failed call is a result that the model reads, with ``is_error``; ``raw_output`` of a result has the
    record's id and the data. Progress of a call is a ``ToolCallProgress`` in the stream of the run.

    A call that needs an approval fails, and its text has the request's id. With ``defers``, it waits instead, with
    LlamaIndex's own mechanism: the stream has a ``ToolCallSuspended``. After a ``ToolCallAnswered`` the call is made
    again; it goes through if capset's own request was approved.
    """

    session: Session = Field(exclude=True, repr=False)
    include_instructions: bool = True
    """Whether the session's system text follows the agent's own system prompt."""
    defers: bool = False
    _session_tools: SessionTools = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:  # as pydantic has it
        """Retrieve the session's tools after those of the agent's own retriever."""
        super().model_post_init(context)
        LLAMA_INDEX.warn_if_untested()
        self._session_tools = SessionTools(self.session)
        retriever = cast("ObjectRetriever[BaseTool] | None", self.tool_retriever)  # pyright: ignore[reportUnknownMemberType]
        self.tool_retriever = _SessionRetriever(self._session_tools, retriever, defers=self.defers)

    async def take_step(
        self, ctx: AgentContext, llm_input: list[ChatMessage], tools: Sequence[AsyncBaseTool], memory: BaseMemory
    ) -> AgentOutput:
        """Call the model with the session's system text, and keep the arguments of its calls as it wrote them."""
        text = await self._session_tools.system_text() if self.include_instructions else ""
        output = await super().take_step(ctx, _with_system_text(llm_input, text) if text else llm_input, tools, memory)
        _restore_arguments(output, {tool.metadata.name for tool in tools if isinstance(tool, SessionTool)})
        return output


class SessionTool(AsyncBaseTool):
    """A tool of a session, for LlamaIndex."""

    def __init__(self, session_tools: SessionTools, tool: OfferedTool, *, defers: bool = False) -> None:
        self._session_tools = session_tools
        self._metadata = _Metadata(tool)
        self._defers = defers

    @property
    def metadata(self) -> ToolMetadata:
        """The tool's name, description and schema."""
        return self._metadata

    def call(self, *args: Any, **kwargs: Any) -> ToolOutput:  # as the base class has it
        """Raise ``TypeError``: the calls of a session are async."""
        raise TypeError(f"The tool {self._metadata.name!r} of a session is async: await tool.acall(…)")

    async def acall(self, /, *args: Any, **arguments: Any) -> ToolOutput:  # as the model gave them
        """Call the tool with keyword arguments, inside or outside of a workflow's step."""
        if args:
            raise TypeError(f"The tool {self._metadata.name!r} takes keyword arguments only")
        step = StepWorkerStateContextVar.get(None)
        waiter = _waiter_of(step) if step is not None and self._defers else None
        if waiter is not None:
            await self._await_approval(waiter, arguments)  # returns if it was answered; otherwise the step ends here
        answer = await self._session_tools.call(
            self._metadata.get_name(),
            arguments,
            id=_call_id(step),
            run=active_instrument_tags.get().get("llamaindex.run_id"),
            on_event=None if step is None else self._forward_event,
        )
        if self._defers and step is not None and waiter is None and answer.approval is not None:
            await self._await_approval(f"{_WAITER_PREFIX}{answer.approval} {step.state.work_item_id}", arguments)
        return self._output(answer, arguments)

    async def _await_approval(self, waiter: str, arguments: dict[str, Any]) -> None:
        """End this step until the waiter is answered; LlamaIndex then runs it again from the beginning."""
        approval = waiter.removeprefix(_WAITER_PREFIX).split(" ")[0]
        call = _call_id(StepWorkerStateContextVar.get()) or ""
        event = ToolCallSuspended(
            tool_name=self._metadata.get_name(), tool_id=call, tool_kwargs=arguments, approval=approval
        )
        await Context.get_step_context().wait_for_event(
            ToolCallAnswered, event, waiter, requirements={"approval": approval, "tool_id": call}, timeout=None
        )

    def _forward_event(self, message: Message) -> None:
        if (progress := progress_of(message)) is not None:
            event = ToolCallProgress(
                tool_name=self._metadata.get_name(),
                tool_id=_call_id(StepWorkerStateContextVar.get()) or "",
                fraction=progress.fraction,
                message=progress.message,
            )
            Context.get_step_context().write_event_to_stream(event)

    def _output(self, answer: CallAnswer, arguments: dict[str, Any]) -> ToolOutput:
        raw = {**answer.metadata, **({"data": answer.data} if answer.has_full_data else {})}
        return ToolOutput(
            self._metadata.get_name(),
            None if answer.parts else answer.text,
            blocks=[*map(_content_block, answer.parts)] or None,
            raw_input=arguments,
            raw_output=raw,
            is_error=answer.error is not None,
        )


def _content_block(part: str | Medium) -> TextBlock | ImageBlock | AudioBlock:
    if isinstance(part, str):
        return TextBlock(text=part)
    if part.is_image:
        return ImageBlock(image=part.data, image_mimetype=part.media_type)
    return AudioBlock(audio=part.data, format="mp3" if part.media_type == "audio/mpeg" else "wav")


def import_llama_index_tools(
    tools: Iterable[BaseTool], *, name: str, effect: Effect, **options: Unpack[ImportOptions]
) -> ImportedTools:
    """Make a capability from LlamaIndex's tools, with their names, descriptions and schemas.

    ``effect`` applies to each tool unless ``rules`` set another; the other options are those of ``import_tools``. A
    result is the JSON data that a function returned, or else LlamaIndex's text of it. A result with ``is_error`` is an
    error that the model reads; the details of an exception are only logged.

    Raises ``DefinitionError`` for a tool that takes the context of a workflow, or that cannot be a tool here.
    """
    by_name: dict[str, AsyncBaseTool] = {}
    hidden: dict[str, set[str]] = {}
    definitions: list[dict[str, Any]] = []
    for tool in tools:
        metadata = tool.metadata
        if isinstance(tool, FunctionTool) and tool.requires_context:
            raise DefinitionError(
                f"capability {name!r:.80}: {metadata.get_name()!r} takes the Context of a workflow, and there is "
                "none here",
                hint="leave it out, or wrap it in a function without that parameter",
            )
        by_name[metadata.get_name()] = adapt_to_async_tool(tool)
        parameters = cast("dict[str, Any]", metadata.get_parameters_dict())  # pyright: ignore[reportUnknownMemberType]
        hidden[metadata.get_name()] = _hidden_parameters(tool, {*parameters.get("properties", ())})
        definitions.append({"name": metadata.get_name(), "description": metadata.description, "parameters": parameters})

    async def run(called: str, arguments: dict[str, Any]) -> JsonValue:
        if problems := "; ".join(f"{key}: {UNKNOWN_FIELD}" for key in arguments if key in hidden[called]):
            raise ToolError(f"Invalid arguments for {called!r}: {problems}", code="invalid_arguments", status=422)
        output = await by_name[called].acall(**arguments)
        if output.is_error:
            raise ToolError(output.content)
        return _data(output, is_function=isinstance(by_name[called], FunctionTool))

    return import_tools(definitions, name=name, handler=run, effect=effect, **options)


def _hidden_parameters(tool: BaseTool, visible_names: set[str]) -> set[str]:
    """Return the parameters of a function that its schema leaves out, so that no model may set them."""
    if not isinstance(tool, FunctionTool):
        return set()
    parameters = inspect.signature(tool.real_fn).parameters.values()
    names = {
        parameter.name
        for parameter in parameters
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }
    return {*names, *tool.partial_params} - visible_names


def _data(output: ToolOutput, *, is_function: bool) -> JsonValue:
    """Return a result as JSON data. Raises ``ToolError`` for images and the like."""
    if others := sorted({block.block_type for block in output.blocks if not isinstance(block, TextBlock)}):
        raise ToolError(f"The result has content that is neither text nor JSON data: {', '.join(others)}.")
    raw: object = output.raw_output
    if is_function and output.content == str(raw):  # otherwise the tool chose the text of the result itself
        try:
            return to_jsonable_python(raw)
        except PydanticSerializationError:
            pass  # only the text is left
    return output.content


class _Metadata(ToolMetadata):
    """The metadata of a session's tool, with its offered schema."""

    def __init__(self, tool: OfferedTool) -> None:
        class Arguments(BaseModel):
            """The arguments, for those models of LlamaIndex that take a class for a schema."""

            @classmethod
            def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:  # as pydantic has it
                return deepcopy(tool.parameters)

        super().__init__(tool.description, tool.name, Arguments)
        self._tool = tool

    def get_parameters_dict(self) -> dict[str, Any]:  # a JSON Schema
        """Return the complete schema; the base class omits members."""
        return deepcopy(self._tool.parameters)


class _SessionRetriever(ObjectRetriever[BaseTool]):
    """Retrieves the tools in play in a session, after those of an agent's own retriever."""

    def __init__(
        self, session_tools: SessionTools, retriever: ObjectRetriever[BaseTool] | None, *, defers: bool
    ) -> None:
        # The base class searches an index by the query; here there is none, and both of its methods are replaced.
        self._session_tools = session_tools
        self._agent_retriever = retriever
        self._defers = defers
        self._tools: dict[tuple[str, str], SessionTool] = {}  # by their names and hashes

    def retrieve(self, str_or_query_bundle: Any) -> list[BaseTool]:
        """Raise ``TypeError``: the tools of a session are retrieved by async calls."""
        raise TypeError("The tools of a session are retrieved by await retriever.aretrieve(…)")

    async def aretrieve(self, str_or_query_bundle: Any) -> list[BaseTool]:
        """Return the tools; the query is ignored."""
        retrieved: list[BaseTool] = (
            [] if self._agent_retriever is None else await self._agent_retriever.aretrieve(str_or_query_bundle)
        )
        # Unchanged tools are reused: creating the class of a schema takes longer than all the rest.
        self._tools = {
            (tool.name, tool.hash): self._tools.get((tool.name, tool.hash))
            or SessionTool(self._session_tools, tool, defers=self._defers)
            for tool in await self._session_tools.list_tools()
        }
        return [*retrieved, *self._tools.values()]


def _with_system_text(messages: Sequence[ChatMessage], text: str) -> list[ChatMessage]:
    """Return the messages with ``text`` appended to the agent's own system prompt, if it has one."""
    if messages and messages[0].role == "system":
        prompt = messages[0].content or ""
        return [ChatMessage(role="system", content=f"{prompt}\n\n{text}"), *messages[1:]]
    return [ChatMessage(role="system", content=text), *messages]


def _restore_arguments(output: AgentOutput, names: set[str | None]) -> None:
    """Parse the arguments of calls of a session's tools from the model's text.

    LlamaIndex completes truncated text, and treats text that is not a JSON object as no arguments. Empty text stays
    no arguments, since some models write them that way.
    """
    raw_arguments = {
        block.tool_call_id or "": block.tool_kwargs
        for block in output.response.blocks
        if isinstance(block, ToolCallBlock) and isinstance(block.tool_kwargs, str)
    }
    for call in output.tool_calls:
        if call.tool_name in names and (text := raw_arguments.get(call.tool_id)):
            call.tool_kwargs = parse_arguments(text)


def _call_id(step: StepWorkerContext | None) -> str | None:
    """Return the model's id of the call that a step makes, if any."""
    return step.event.tool_id if step is not None and isinstance(step.event, ToolCall) else None


def _waiter_of(step: StepWorkerContext) -> str | None:
    """Return the id of the waiter for which this step ended before, if any."""
    waiters = cast("list[StepWorkerWaiter[Event]]", step.state.collected_waiters)  # pyright: ignore[reportUnknownMemberType]
    for waiter in waiters:
        if waiter.work_item_id == step.state.work_item_id and waiter.waiter_id.startswith(_WAITER_PREFIX):
            return waiter.waiter_id
    return None
