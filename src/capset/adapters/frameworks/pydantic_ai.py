"""A session as a toolset of pydantic-ai: ``Agent(model, toolsets=[CapsetToolset(session)])`` (extra ``agent``)."""

from __future__ import annotations

from typing import Any

from pydantic import JsonValue

from capset.adapters.frameworks.framework import Framework
from capset.adapters.frameworks.session_tools import SessionTools
from capset.kernel.call.session import Session

PYDANTIC_AI = Framework("pydantic-ai-slim", "pydantic_ai", "2.68", extra="agent")
"""The framework of this adapter."""

with PYDANTIC_AI.importing():
    from pydantic_ai import (
        AbstractToolset,
        InstructionPart,
        RunContext,
        ToolFailed,
        ToolReturn,
        ToolsetTool,
    )
    from pydantic_ai.exceptions import ApprovalRequired as ApprovalNeeded

    from capset.agents.toolset import OfferedTools


class CapsetToolset(AbstractToolset[object]):
    """The tools in play in a session, for any pydantic-ai agent, with any dependencies.

    Calls go through ``session.invoke()`` as JSON; the kernel alone validates, decides and records them. Their records
    have the run's id as their correlation and the tool call's as their causation. A refused or failed call becomes a
    failed tool result that the model reads, and costs no retries; ``UsageLimits`` stop a model that keeps asking.

    A call that needs an approval fails, and the model reads the request's id: once it is approved, the same call goes
    through, in this run or another of the session. With ``defers``, such a call ends the run with pydantic-ai's
    ``DeferredToolRequests`` instead. A session's run budget is that of one run of the agent. An approval on
    pydantic-ai's side only lets a call reach capset, and never counts as one of capset's.
    """

    def __init__(
        self, session: Session, *, include_instructions: bool = True, defers: bool = False, id: str | None = None
    ) -> None:
        """Expose a session to an agent at each model step.

        ``include_instructions`` gives the model the session's system text, including context, whose ``prompt_hash`` is
        in every record. ``id`` names the toolset among the agent's others. ``session.options(timeout=…)`` applies here.

        ``defers`` is for agents with ``DeferredToolRequests`` among their output types: the metadata of a deferred call
        have the request's id as ``approval``. A run that goes on with an approval of pydantic-ai's for it makes the
        call again, which is let through if capset's request was approved, and deferred again while it is undecided.
        """
        self._defers = defers
        self._session = session
        self._tools = SessionTools(session)
        self._id = id
        self._tells = include_instructions
        self._offered = OfferedTools()

    @property
    def id(self) -> str | None:
        """The id that distinguishes this toolset from others of the same agent."""
        return self._id

    async def get_instructions(self, ctx: RunContext[object]) -> InstructionPart | None:
        """Return the session's current system text: pydantic-ai asks before every model step.

        Raises ``ContextError``, naming the context that failed.
        """
        text = await self._session.system_text(ctx.prompt) if self._tells else ""
        composition = self._session.snapshot.composition
        return InstructionPart(text, dynamic=bool(composition.context or composition.dynamic)) if text else None

    async def get_tools(self, ctx: RunContext[object]) -> dict[str, ToolsetTool[object]]:
        """Return exactly the tools that are in play in this step."""
        return self._offered.of(await self._session.current(), self, ctx.max_retries)

    async def call_tool(
        self,
        name: str,
        tool_args: dict[str, Any],  # any JSON: the kernel validates it
        ctx: RunContext[object],
        tool: ToolsetTool[object],
    ) -> ToolReturn[JsonValue]:
        """Return the reply's data, or ``None`` if the tool ended without a reply. Raises ``ToolFailed`` if it failed.

        A result too long for a model becomes a text: its beginning, and the place of the whole. The metadata, which are
        not sent to the model, mark it as ``untrusted`` and name the ``record`` and, if it was cut, the ``file``.
        Cancelling this cancels the call, and the record says so.
        """
        answer = await self._tools.call(
            name,
            tool_args,
            id=ctx.tool_call_id,
            run=ctx.run_id,
            deadline=ctx.deadline.timestamp() if ctx.deadline else None,
        )
        if self._defers and answer.approval is not None:
            raise ApprovalNeeded({"approval": answer.approval, "record": answer.record})
        if answer.error is not None:
            raise ToolFailed(answer.text)
        return ToolReturn(answer.data if answer.is_whole else answer.text, metadata=answer.metadata)
