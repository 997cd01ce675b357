"""A session for the OpenAI Agents SDK: ``CapsetAgent(name="…", session=session)`` (extra ``openai-agents``)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Generic

from typing_extensions import TypeVar

from capset.adapters.frameworks.framework import Framework
from capset.adapters.frameworks.session_tools import CallAnswer, OfferedTool, SessionTools
from capset.errors import DefinitionError
from capset.kernel.call.session import Session

OPENAI_AGENTS = Framework("openai-agents", "agents", "0.24", extra="openai-agents")
"""The framework of this adapter."""

with OPENAI_AGENTS.importing():
    from agents import (
        Agent,
        FunctionTool,
        RunContextWrapper,
        Tool,
        ToolGuardrailFunctionOutput,
        ToolOutputGuardrailData,
        custom_span,
        get_current_trace,
        tool_output_guardrail,
    )
    from agents.tool_context import ToolContext

T = TypeVar("T", default=Any)


@dataclass
class CapsetAgent(Agent[T], Generic[T]):
    """An agent of the SDK that has the tools and the system text of a session, besides its own.

    Both are asked for before every step of the model. Calls go through the session: the kernel alone validates, decides
    and records them. Their records have the id of the SDK's trace as their correlation, and the model's id of the call
    as their causation; a span of the trace has the record's id. A refused or failed call is a result that the model
    reads, and stands among the run's ``tool_output_guardrail_results`` as rejected content, with its code and record.

    A call that needs an approval fails, and its text has the request's id. With ``defers``, it interrupts the run
    instead, as ``needs_approval`` does: ``result.interruptions`` has it, and ``approval_of`` the id of the request.
    After ``state.approve(item)`` the call is made again, and let through if capset's own request was approved.
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
        self._offers = SessionTools(self.session)
        self._refused: dict[str, CallAnswer] = {}

    async def get_system_prompt(self, run_context: RunContextWrapper[T]) -> str | None:
        """Return the agent's own instructions, then the session's system text."""
        own = await super().get_system_prompt(run_context)
        text = await self._offers.system_text() if self.include_instructions else ""
        return "\n\n".join(part for part in (own, text) if part) or None

    async def get_all_tools(self, run_context: RunContextWrapper[T]) -> list[Tool]:
        """Return the agent's own tools, then those that are in play in the session."""
        return [*await super().get_all_tools(run_context), *map(self._function_tool, await self._offers.offered())]

    def approval_of(self, call_id: str) -> str | None:
        """Return the id of the request that an interrupted call waits for, by the model's id of the call."""
        answer = self._refused.get(call_id)
        return None if answer is None else answer.approval

    def _function_tool(self, offered: OfferedTool) -> FunctionTool:
        return FunctionTool(
            name=offered.name,
            description=offered.description,
            params_json_schema=offered.parameters,
            on_invoke_tool=partial(self._call, offered.name),
            strict_json_schema=False,  # the kernel validates, and the schema is the one that is hashed
            tool_output_guardrails=[_refusals],
            needs_approval=partial(self._must_wait, offered.name) if self.defers else False,
        )

    async def _must_wait(
        self, name: str, context: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str
    ) -> bool:
        """Return whether a call has to wait for its approval, which is asked for."""
        answer = await self._offers.check(name, arguments, id=call_id, run=_trace_id())
        if answer is None:
            self._refused.pop(call_id, None)
            return False
        self._refused[call_id] = answer
        return answer.approval is not None

    async def _call(self, name: str, context: ToolContext[Any], arguments: str) -> CallAnswer:
        refused = self._refused.pop(context.tool_call_id, None)
        if refused is not None and refused.approval is None:
            return refused  # on record already
        with custom_span("capset call", {"tool": name}) as span:
            answer = await self._offers.call(name, arguments, id=context.tool_call_id, run=_trace_id())
            span.span_data.data |= answer.metadata
        return answer


@tool_output_guardrail(name="capset")
def _refusals(data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
    """Show a refusal or failure as rejected content, which is the text that the model reads."""
    answer = data.output
    if isinstance(answer, CallAnswer) and answer.error is not None:
        return ToolGuardrailFunctionOutput.reject_content(answer.text, answer.metadata)
    return ToolGuardrailFunctionOutput.allow(answer.metadata if isinstance(answer, CallAnswer) else None)


def _trace_id() -> str | None:
    """Return the id of the SDK's current trace, unless tracing is off."""
    trace = get_current_trace()
    return None if trace is None or trace.trace_id == "no-op" else trace.trace_id
