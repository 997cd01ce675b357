"""A session as a toolset of pydantic-ai: ``Agent(model, toolsets=[CapsetToolset(session)])`` (extra ``agent``)."""

from __future__ import annotations

import json
import time
from copy import deepcopy
from dataclasses import replace
from typing import Any, Final, cast
from uuid import uuid4

from pydantic import JsonValue
from pydantic_core import from_json, to_jsonable_python

from capset.clock import iso
from capset.definitions.messages import Json, Meta
from capset.errors import CapsetError
from capset.evaluation.snapshot.snapshot import Snapshot
from capset.fingerprint.hashes import Ref
from capset.kernel.call.session import Session

try:
    from pydantic_ai import (
        AbstractToolset,
        InstructionPart,
        RunContext,
        ToolDefinition,
        ToolFailed,
        ToolReturn,
        ToolsetTool,
    )
except ModuleNotFoundError as missing:
    if missing.name != "pydantic_ai":
        raise
    raise ModuleNotFoundError(
        "capset.adapters.pydantic_ai needs pydantic-ai: pip install 'capset[agent]'", name=missing.name
    ) from None

_NO_OBJECT: Final = "(not a JSON object)"
"""A name that no tool's parameter has, for arguments that are not an object."""


class CapsetToolset(AbstractToolset[object]):
    """The tools in play in a session, for any pydantic-ai agent, with any dependencies.

    Calls go through ``session.invoke()`` as JSON; the kernel alone validates, decides and records them. Their records
    have the run's id as their correlation and the tool call's as their causation. A refused or failed call becomes a
    failed tool result that the model reads, and costs no retries; ``UsageLimits`` stop a model that keeps asking.

    A call that needs an approval fails, and the model reads the request's id: once it is approved, the same call goes
    through, in this run or another of the session. A session's run budget is that of one run of the agent. An approval
    on pydantic-ai's side only lets a call reach capset, and never counts as one of capset's.
    """

    def __init__(self, session: Session, *, include_instructions: bool = True, id: str | None = None) -> None:
        """Expose a session to an agent at each model step.

        ``include_instructions`` gives the model the session's system text, including context, whose ``prompt_hash`` is
        in every record. ``id`` names the toolset among the agent's others. ``session.options(timeout=…)`` applies here.
        """
        self._session = session
        self._id = id
        self._tells = include_instructions
        self._shown: tuple[Snapshot, list[ToolDefinition]] | None = None

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
        snapshot = await self._session.current()
        if self._shown is None or self._shown[0] is not snapshot:
            # Sorted by name, so that equal runtime hashes show a model the same list.
            self._shown = snapshot, [_definition(snapshot, ref) for ref in snapshot.tool_refs]
        return {
            definition.name: ToolsetTool(
                toolset=self, tool_def=definition, max_retries=ctx.max_retries, args_validator=_AnyArguments()
            )
            for definition in self._shown[1]
        }

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
        data = Json(json.dumps(tool_args, default=to_jsonable_python).encode())
        message = replace(self._session.message(name, data), meta=_meta(ctx))
        reply: JsonValue = None
        session = self._session.options(approvals="defer", run=ctx.run_id)
        async with session.invoke(message) as messages:
            async for message in messages:
                if message.kind == "reply":
                    reply = message.data
        record = messages.record
        if (error := messages.result.error) is not None:
            failed = await self._session.for_model(record, _error_text(error), after=f"\n{_named(error)}")
            raise ToolFailed(failed.text)
        given = await self._session.for_model(record, reply)
        metadata: dict[str, JsonValue] = {"untrusted": True, "record": record}
        if given.is_cut:
            return ToolReturn(given.text, metadata={**metadata, "file": given.file})
        return ToolReturn(reply, metadata=metadata)


class _AnyArguments:
    """The validator that pydantic-ai requires. It accepts all arguments, so that the kernel judges every attempt.

    Arguments that are not a JSON object get a name that the kernel refuses.
    """

    def validate_json(self, input: str | bytes | bytearray, **_: object) -> dict[str, Any]:
        try:
            value: object = from_json(input)
        except ValueError:
            value = None
        return self.validate_python(cast("object", value) if isinstance(value, dict) else f"{len(input)} characters")

    def validate_python(self, input: object, **_: object) -> dict[str, Any]:
        return cast("dict[str, Any]", input) if isinstance(input, dict) else {_NO_OBJECT: input}


def _definition(snapshot: Snapshot, ref: Ref) -> ToolDefinition:
    installed = snapshot.tools[ref.name]
    tool = installed.tool
    return ToolDefinition(
        name=installed.name,
        description=tool.description,
        # Copies, because functions that prepare tools for a step may modify them.
        parameters_json_schema=deepcopy(tool.arguments.json_schema),
        return_schema=deepcopy(tool.output.json_schema),
        metadata={"capability": installed.owner, "effect": tool.effect, "tool_hash": ref.hash},
    )


def _meta(ctx: RunContext[object]) -> Meta:
    """Return the metadata that ties a call to its run; a context without a run gets new ids."""
    return Meta(
        id=ctx.tool_call_id or str(uuid4()),
        timestamp=iso(time.time_ns()),
        correlation=ctx.run_id or str(uuid4()),
        deadline=ctx.deadline.timestamp() if ctx.deadline else None,
    )


def _error_text(error: CapsetError) -> str:
    """Return an error as text for the model: its message, then the fields not mentioned in it."""
    return "\n".join([error.message, *(f"- {field}" for field in error.fields if str(field) not in error.message)])


def _named(error: CapsetError) -> str:
    """Return the suffix of that text: the kind of error, and whether to retry."""
    again = ", may be tried again" if error.retryable else ""
    return f"({error.code}{again}; correlation {error.correlation})"
