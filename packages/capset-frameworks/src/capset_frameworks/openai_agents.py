"""A session for the OpenAI Agents SDK: ``CapsetAgent(name="…", session=session)`` (extra ``openai-agents``)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Unpack
from uuid import uuid4

from pydantic_core import to_jsonable_python
from typing_extensions import TypeVar

from capset.definitions.tools.options import Effect
from capset.errors import DefinitionError, ToolError
from capset.kernel.call.media import Medium
from capset.kernel.call.session import Session
from capset_agents.model_calls import parse_arguments
from capset_connect.interop import ImportedTools, ImportOptions, import_tools
from capset_connect.tool_rules import ToolRules
from capset_frameworks.framework import Framework
from capset_frameworks.session_tools import CallAnswer, OfferedTool, SessionTools

OPENAI_AGENTS = Framework("openai-agents", "agents", "0.24", extra="openai-agents")
"""The framework of this adapter."""

with OPENAI_AGENTS.importing():
    from agents import (
        Agent,
        FunctionTool,
        ModelBehaviorError,
        RunContextWrapper,
        Tool,
        ToolGuardrailFunctionOutput,
        ToolOutputGuardrailData,
        ToolOutputImage,
        ToolOutputText,
        custom_span,
        default_tool_error_function,
        get_current_trace,
        tool_output_guardrail,
    )
    from agents.tool_context import ToolContext

T = TypeVar("T", default=Any)


@dataclass
class CapsetAgent(Agent[T], Generic[T]):
    """An agent of the SDK that has the tools and the system text of a session, besides its own.

    Both are resolved before every model step. Calls go through the session: the kernel alone validates, decides and
    records them. The correlation of their records is the id of the SDK's trace, and their causation the model's call
    id; a span of the trace has the record's id. A refused or failed call is a result that the model reads, and appears
    in the run's ``tool_output_guardrail_results`` as rejected content, with its code and record.

    A call that needs an approval fails, and its text has the request's id. With ``defers``, it interrupts the run
    instead, as ``needs_approval`` does: ``result.interruptions`` has the call, and ``approval_of`` returns the id of
    the request. After ``state.approve(item)`` the call is made again; it goes through if capset's own request was
    approved.
    """

    session: Session | None = None
    include_instructions: bool = True
    """Whether the session's system text follows the agent's own instructions."""
    defers: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.session is None:
            raise DefinitionError("CapsetAgent takes a session", hint="CapsetAgent(name=…, session=session)")
        OPENAI_AGENTS.warn_if_untested()
        self._session_tools = SessionTools(self.session)
        self._refusals: dict[str, tuple[str, dict[str, Any], CallAnswer]] = {}
        """The newest refusals of checked calls, with their tools and arguments, by the model's call id."""

    async def get_system_prompt(self, run_context: RunContextWrapper[T]) -> str | None:
        """Return the agent's own instructions, then the session's system text."""
        instructions = await super().get_system_prompt(run_context)
        text = await self._session_tools.system_text() if self.include_instructions else ""
        return "\n\n".join(part for part in (instructions, text) if part) or None

    async def get_all_tools(self, run_context: RunContextWrapper[T]) -> list[Tool]:
        """Return the agent's own tools, then the tools in play in the session."""
        return [
            *await super().get_all_tools(run_context),
            *map(self._function_tool, await self._session_tools.list_tools()),
        ]

    def approval_of(self, call_id: str) -> str | None:
        """Return the id of the request that an interrupted call waits for, by the model's call id.

        It is ``None`` if there is nothing to decide: the SDK also interrupts for arguments that are not a JSON object.
        If such a call is approved, the kernel refuses it.
        """
        _, _, answer = self._refusals.get(call_id, (None, None, None))
        return None if answer is None else answer.approval

    def _function_tool(self, tool: OfferedTool) -> FunctionTool:
        return FunctionTool(
            name=tool.name,
            description=tool.description,
            params_json_schema=tool.parameters,
            on_invoke_tool=partial(self._call, tool.name),
            strict_json_schema=False,  # the kernel validates, and the schema may have optional arguments
            tool_output_guardrails=[_refusal_guardrail],
            needs_approval=partial(self._must_wait, tool.name) if self.defers else False,
        )

    async def _must_wait(
        self, name: str, context: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str
    ) -> bool:
        """Return whether a call has to wait for an approval, and request the approval."""
        answer = await self._session_tools.check(name, arguments, id=call_id, run=_trace_id())
        self._refusals.pop(call_id, None)
        if answer is None:
            return False
        self._refusals[call_id] = name, arguments, answer
        while len(self._refusals) > 1_000:  # of calls that were never made
            del self._refusals[next(iter(self._refusals))]
        return answer.approval is not None

    async def _call(self, name: str, context: ToolContext[Any], arguments: str) -> CallAnswer | _ImageAnswer:
        checked = self._refusals.pop(context.tool_call_id, None)
        if checked is not None and checked[2].approval is None and checked[:2] == (name, parse_arguments(arguments)):
            return checked[2]  # on record already
        with custom_span("capset.call", {"tool": name}) as span:
            answer = await self._session_tools.call(name, arguments, id=context.tool_call_id, run=_trace_id())
            span.span_data.data |= answer.metadata
        has_images = any(isinstance(part, Medium) and part.is_image for part in answer.parts)
        return _ImageAnswer(answer) if has_images else answer


class _ImageAnswer(list[ToolOutputText | ToolOutputImage]):
    """An answer with images, in the SDK's form."""

    def __init__(self, answer: CallAnswer) -> None:
        super().__init__(
            ToolOutputImage(image_url=f"data:{part.media_type};base64,{part.base64}")
            if isinstance(part, Medium) and part.is_image
            else ToolOutputText(text=str(part))
            for part in answer.parts
        )
        self.metadata = answer.metadata


@tool_output_guardrail(name="capset")
def _refusal_guardrail(data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
    """Show a refusal or failure as rejected content, which is the text that the model reads."""
    answer = data.output
    if isinstance(answer, CallAnswer) and answer.error is not None:
        return ToolGuardrailFunctionOutput.reject_content(answer.text, answer.metadata)
    return ToolGuardrailFunctionOutput.allow(answer.metadata if isinstance(answer, CallAnswer | _ImageAnswer) else None)


def _trace_id() -> str | None:
    """Return the id of the SDK's current trace, unless tracing is off."""
    trace = get_current_trace()
    return None if trace is None or trace.trace_id == "no-op" else trace.trace_id


def import_agents_tools(
    tools: Iterable[Tool], *, name: str, effect: Effect, context: object = None, **options: Unpack[ImportOptions]
) -> ImportedTools:
    """Make a capability from the SDK's function tools.

    Names, descriptions and schemas are kept. ``context`` is the context of the ``RunContextWrapper`` that some tools
    take; the other arguments are those of ``import_tools``. A tool with ``needs_approval`` needs capset's approval, and
    ``timeout_seconds`` applies, unless the tool's own rule says otherwise. If a tool raises, the model learns only that
    it failed. A text from the tool's own ``failure_error_function`` is a result like any other.

    Raises ``DefinitionError`` for tools that the SDK does not run itself, and for tools with guardrails or a condition
    in ``is_enabled``, which only a run of the SDK evaluates.
    """
    checked = [_importable(name, tool) for tool in tools]
    by_name = {tool.name: tool for tool in checked}
    rules: dict[str, ToolRules] = {}
    for function_tool in checked:
        rule: ToolRules = {"approval": "ask"} if function_tool.needs_approval is not False else {}
        if (seconds := function_tool.timeout_seconds) is not None:
            rule["timeout"] = seconds
        rules[function_tool.name] = rule
    rules |= {key: {**rules.get(key, {}), **override} for key, override in (options.get("rules") or {}).items()}

    async def call(key: str, arguments: dict[str, Any]) -> Any:  # JSON data
        text = json.dumps(arguments)
        tool_context = ToolContext(context, tool_name=key, tool_call_id=str(uuid4()), tool_arguments=text)
        try:
            result = await by_name[key].on_invoke_tool(tool_context, text)
        except ModelBehaviorError as error:  # its checks of the arguments, which may be stricter than its schema
            raise ToolError(str(error), code="invalid_arguments") from error
        if result == default_tool_error_function(tool_context, ToolError("")):
            raise ToolError("The tool failed", code="internal_error", status=500)
        return result.text if isinstance(result, ToolOutputText) else to_jsonable_python(result, fallback=str)

    options["rules"] = rules
    return import_tools(
        [
            {"name": tool.name, "description": tool.description, "parameters": tool.params_json_schema}
            for tool in checked  # a list, so that duplicate names are refused
        ],
        name=name,
        handler=call,
        effect=effect,
        **options,
    )


def _importable(owner: str, tool: Tool) -> FunctionTool:
    """Return the tool if it can be called outside of a run. Raises ``DefinitionError`` if not."""
    if not isinstance(tool, FunctionTool):
        raise DefinitionError(
            f"capability {owner!r:.80}: function tools were expected; {tool.name!r} is a {type(tool).__name__}",
            hint="leave it out: such tools are run by the provider, or in a run of the SDK",
        )
    for field in ("tool_input_guardrails", "tool_output_guardrails"):
        if getattr(tool, field):
            raise DefinitionError(
                f"capability {owner!r:.80}: {tool.name!r} has {field}, which only a run of the SDK evaluates",
                hint="remove them, and use policies and rules instead",
            )
    if tool.is_enabled is not True:
        raise DefinitionError(
            f"capability {owner!r:.80}: {tool.name!r} is not always enabled, which only a run of the SDK evaluates",
            hint="leave it out, or replace is_enabled with a policy or permissions",
        )
    return tool
