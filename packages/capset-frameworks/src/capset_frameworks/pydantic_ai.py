"""A session for agents of pydantic-ai: ``Agent(model, capabilities=[CapsetCapability(session)])`` (extra ``agent``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any, Self, Unpack, cast

from pydantic import JsonValue, ValidationError
from pydantic_core import to_json, to_jsonable_python

from capset.definitions.calls.messages import Message
from capset.definitions.tools.options import Effect
from capset.errors import DefinitionError, ToolError
from capset.kernel.call.prompt import Prompt
from capset.kernel.call.session import Session
from capset_connect.interop import ImportedTools, ImportOptions, import_tools
from capset_connect.tool_rules import ToolRules
from capset_frameworks.framework import Framework
from capset_frameworks.session_tools import SessionTools

PYDANTIC_AI = Framework("pydantic-ai-slim", "pydantic_ai", "2.68", extra="agent")
"""The framework of this adapter."""

with PYDANTIC_AI.importing():
    from pydantic_ai import (
        AbstractToolset,
        CapabilityEvent,
        CustomEvent,
        FunctionToolset,
        InstructionPart,
        ModelRetry,
        RunContext,
        Tool,
        ToolFailed,
        ToolReturn,
        ToolsetTool,
    )
    from pydantic_ai.exceptions import ApprovalRequired as ApprovalNeeded
    from pydantic_ai.exceptions import CallDeferred, UserError
    from pydantic_ai.messages import BinaryContent, ToolCallPart
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.usage import RunUsage

    from capset_agents.content import context_messages
    from capset_agents.toolset import AbsentCalls, OfferedTools


@dataclass(kw_only=True)
class SessionCallEvent(CustomEvent, name="capset_call", ui=False):
    """An event of a running call, such as its progress, from a ``CapsetToolset`` in an agent's own toolsets."""

    type: str
    content: JsonValue


@dataclass(kw_only=True)
class CapabilityCallEvent(CapabilityEvent, namespace="capset"):
    """The same event from a toolset that a capability provides, such as ``CapsetCapability``."""

    type: str
    content: JsonValue


class CapsetToolset(AbstractToolset[object]):
    """The tools in play in a session, for any pydantic-ai agent, with any dependencies.

    Calls go through ``session.invoke()`` as JSON; the kernel alone validates, decides and records them. The
    correlation of their records is the run's id, and their causation the tool call's id. A refused or failed call
    becomes a failed tool result that the model reads, and uses no retries; ``UsageLimits`` stop a model that keeps
    trying. Events of a call, such as its progress, are events of the run.

    A call that needs an approval fails, and the model reads the request's id: once it is approved, the same call goes
    through, in this run or another of the session. With ``defers``, such a call ends the run with pydantic-ai's
    ``DeferredToolRequests`` instead. A session's run budget applies to one run of the agent. An approval in
    pydantic-ai only lets a call reach capset; it never counts as capset's approval.
    """

    def __init__(
        self, session: Session, *, include_instructions: bool = True, defers: bool = False, id: str | None = None
    ) -> None:
        """Expose a session to an agent at each model step.

        ``include_instructions`` gives the model the session's system text, including context, whose ``prompt_hash`` is
        in every record. ``id`` distinguishes the toolset from the agent's others. ``session.options(timeout=…)``
        applies here.

        ``defers`` is for agents with ``DeferredToolRequests`` among their output types: the metadata of a deferred call
        has the request's id as ``approval``. A run that continues with pydantic-ai's approval makes the call again; it
        goes through if capset's request was approved, and is deferred again while that is undecided.
        """
        PYDANTIC_AI.warn_if_untested()
        self._defers = defers
        self._session = session
        self._tools = SessionTools(session)
        self._id = id
        self._include_instructions = include_instructions
        self._offered_tools = OfferedTools()

    @property
    def id(self) -> str | None:
        """The id that distinguishes this toolset from others of the same agent."""
        return self._id

    async def get_instructions(self, ctx: RunContext[object]) -> InstructionPart | None:
        """Return the session's current system text, which pydantic-ai requests before every model step.

        Raises ``ContextError``, naming the context that failed.
        """
        return self._instruction(await self._session.system_text(ctx.prompt)) if self._include_instructions else None

    async def get_tools(self, ctx: RunContext[object]) -> dict[str, ToolsetTool[object]]:
        """Return exactly the tools that are in play in this step."""
        return self._offered_tools.build(await self._session.current(), self, ctx.max_retries)

    async def call_tool(
        self,
        name: str,
        tool_args: dict[str, Any],  # any JSON: the kernel validates it
        ctx: RunContext[object],
        tool: ToolsetTool[object],
    ) -> ToolReturn[JsonValue]:
        """Return the reply's data, or ``None`` if the tool ended without a reply. Raises ``ToolFailed`` if it failed.

        A result that is too long for a model becomes text: its beginning, and where the complete result is. A result
        with images or recordings becomes a list of its texts and media. The metadata, which is not sent to the model,
        marks the result as ``untrusted`` and names the ``record`` and, if it was cut, the ``file``. Cancelling this
        cancels the call, on record.
        """

        async def emit_event(event: Message) -> None:
            fields: dict[str, Any] = {"type": event.type, "content": to_jsonable_python(event.data)}
            try:
                await ctx.emit(SessionCallEvent(**fields))
            except UserError:  # pydantic-ai accepts one type from agents' toolsets, the other from capabilities'
                await ctx.emit(CapabilityCallEvent(**fields))

        answer = await self._tools.call(
            name,
            tool_args,
            id=ctx.tool_call_id,
            run=ctx.run_id,
            deadline=ctx.deadline.timestamp() if ctx.deadline else None,
            on_event=emit_event if ctx.tool_manager is not None else None,  # within a run
        )
        if self._defers and answer.approval is not None:
            raise ApprovalNeeded({"approval": answer.approval, "record": answer.record})
        if answer.error is not None:
            raise ToolFailed(answer.text)
        if answer.parts:
            content = [
                part if isinstance(part, str) else BinaryContent(part.data, media_type=part.media_type)
                for part in answer.parts
            ]
            return ToolReturn(content, metadata=answer.metadata)
        return ToolReturn(answer.data if answer.has_full_data else answer.text, metadata=answer.metadata)

    def _instruction(self, text: str) -> InstructionPart | None:
        composition = self._session.snapshot.composition
        return InstructionPart(text, dynamic=bool(composition.context or composition.dynamic)) if text else None


class CapsetCapability(AbsentCalls[object]):
    """A session for any pydantic-ai agent or run, with all that it gives a model: ``Agent(model, capabilities=[…])``.

    It provides the tools of ``CapsetToolset`` and, before each model step, the system text with its context, the
    context messages, and the model settings. Context messages come before the conversation and are not stored in it; a
    run's own ``model_settings`` take precedence. All parts of a step are resolved together, once. A call of a tool that
    is not in play is refused on record.
    """

    def __init__(self, session: Session, *, defers: bool = False, id: str | None = None) -> None:
        """Give an agent a session. ``defers`` is as for ``CapsetToolset``; ``id`` names the capability."""
        self.id = id
        self.description = None
        self.defer_loading = False
        self._toolset = _StepToolset(session, defers=defers, id=id)

    async def for_run(self, ctx: RunContext[object]) -> Self:
        """Return a copy of the capability for one run, with its own steps."""
        other = copy(self)
        other._toolset = copy(self._toolset)
        return other

    def get_toolset(self) -> AbstractToolset[object]:
        """Return the toolset, which also provides the instructions."""
        return self._toolset

    def get_model_settings(self) -> Callable[[RunContext[object]], ModelSettings]:
        """Return a function that returns the model settings of a step."""
        return lambda ctx: cast("ModelSettings", dict(self._toolset.prompt.model_settings))

    async def prepare_model_request(
        self, ctx: RunContext[object], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Insert the context messages before the conversation of one request."""
        if messages := context_messages(self._toolset.prompt.messages):
            request_context.messages = [*messages, *request_context.messages]
        return request_context

    async def refuse_absent(self, ctx: RunContext[object], part: ToolCallPart) -> None:
        """Have the kernel refuse a call of a tool that is not in play, unlike one that is only hidden."""
        await self._toolset.refuse_absent(ctx, part)


class _StepToolset(CapsetToolset):
    """The toolset of one run. All parts of a step come from one prompt."""

    prompt: Prompt

    async def for_run_step(self, ctx: RunContext[object]) -> Self:
        """Resolve the next step. Raises ``ContextError``, naming the context that failed."""
        self.prompt = await self._session.prompt(ctx.prompt)
        return self

    async def get_instructions(self, ctx: RunContext[object]) -> InstructionPart | None:
        return self._instruction(self.prompt.system_text)

    async def get_tools(self, ctx: RunContext[object]) -> dict[str, ToolsetTool[object]]:
        return self._offered_tools.build(self.prompt.snapshot, self, ctx.max_retries)

    async def refuse_absent(self, ctx: RunContext[object], part: ToolCallPart) -> None:
        if part.tool_name not in self.prompt.snapshot.tools:
            # Only a check: the tool may have come into play since, but it was not offered, so it must not run.
            await self._tools.check(part.tool_name, part.args_as_json_str(), id=part.tool_call_id, run=ctx.run_id)


def import_pydantic_ai_tools(
    tools: FunctionToolset[Any] | Iterable[Tool[Any] | Callable[..., Any]],  # of any dependencies and parameters
    *,
    name: str,
    effect: Effect,
    deps: object = None,
    **options: Unpack[ImportOptions],
) -> ImportedTools:
    """Make a capability from pydantic-ai tools, with their names, descriptions and schemas, and the given effect.

    ``tools`` are a ``FunctionToolset``, or functions and ``Tool`` objects. Options are those of ``import_tools``; a
    tool with ``requires_approval`` needs capset's approval unless its rules say otherwise. Functions that take a
    ``RunContext`` get one with ``deps``, no messages, and pydantic-ai's ``TestModel``. Sync functions run in a thread.
    ``ModelRetry`` and ``ToolFailed`` are errors that the model reads.

    Raises ``DefinitionError`` for a tool with ``prepare``, which needs the step of a run, and like ``import_tools``.
    """
    toolset = tools if isinstance(tools, FunctionToolset) else FunctionToolset[Any](list(tools))
    rules: dict[str, ToolRules] = dict(options.get("rules") or {})
    for function_tool in toolset.tools.values():
        if function_tool.prepare is not None:
            raise DefinitionError(
                f"the tool {function_tool.name!r} has a prepare function, which needs the step of a run of pydantic-ai",
                hint="give a Tool without prepare",
            )
        if function_tool.requires_approval:
            rules[function_tool.name] = {"approval": "ask", **rules.get(function_tool.name, {})}

    async def handle(tool: str, arguments: dict[str, Any]) -> Any:  # JSON data
        ctx = RunContext[Any](deps=deps, model=TestModel(), usage=RunUsage(), tool_name=tool)
        toolset_tool = (await toolset.get_tools(ctx))[tool]
        try:
            valid = toolset_tool.args_validator.validate_json(to_json(arguments), context=ctx.validation_context)
            if toolset_tool.args_validator_func is not None:
                checked = toolset_tool.args_validator_func(ctx, **valid)
                if isawaitable(checked):
                    await checked
            result = await toolset.call_tool(tool, valid, ctx, toolset_tool)
        except ValidationError as error:
            details = "; ".join(
                f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}" for detail in error.errors()[:10]
            )
            raise ToolError(details, code="invalid_arguments", status=422) from error
        except (ModelRetry, ToolFailed) as error:
            raise ToolError(error.message) from error
        except (ApprovalNeeded, CallDeferred) as error:
            raise ToolError("the tool defers its call, which only a run of pydantic-ai can") from error
        return to_jsonable_python(result.return_value if isinstance(result, ToolReturn) else result)

    definitions = [
        {
            "name": function_tool.name,
            "description": function_tool.description or "",
            "parameters": function_tool.tool_def.parameters_json_schema,
        }
        for function_tool in toolset.tools.values()
    ]
    options["rules"] = rules
    options["description"] = options.get("description") or "Tools of pydantic-ai."
    return import_tools(definitions, name=name, handler=handle, effect=effect, **options)
