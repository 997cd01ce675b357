"""The tools of one turn for pydantic-ai: calls go through the session and survive the process (extra ``agent``)."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, Self, TypeVar, cast

from pydantic_ai import (
    AbstractToolset,
    CallToolsNode,
    InstructionPart,
    RunContext,
    ToolDefinition,
    ToolFailed,
    ToolReturn,
    ToolsetTool,
)
from pydantic_ai.capabilities import AbstractCapability, AgentNode, ToolSearch
from pydantic_ai.exceptions import ApprovalRequired as ApprovalNeeded
from pydantic_ai.messages import ModelMessage, ToolCallPart, ToolReturnPart
from pydantic_ai.tools import AgentNativeTool
from pydantic_ai.toolsets import WrapperToolset
from pydantic_core import from_json, to_json

from capset.definitions.agents import Agent
from capset.definitions.calls.messages import Json
from capset.definitions.calls.records import UNTOUCHED
from capset.errors import ApprovalRequired, CapsetError, LimitExceeded, NotFound, TurnLost, TurnSuspended, unknown
from capset.evaluation.snapshot.snapshot import Snapshot
from capset.fingerprint.hashes import Ref
from capset.kernel.blocks.generation import Journal, ModelStep, Turn
from capset.kernel.results import Result
from capset.stores.base import Attempt
from capset_agents.brakes import Brakes
from capset_agents.model_calls import arguments_json, error_suffix, error_text, parse_arguments
from capset_agents.progress import CallProgress

D = TypeVar("D")
OUTPUT_TOOL: Final = "final_result"
"""The name of the tool with which a model returns structured output."""
MEDIA_KEY: Final = "media"
"""The metadata key of a result with the paths of its images and recordings, which are shown to the model."""
_OUTCOME_TEXTS: Final = {"succeeded": "succeeded", "unknown": "was sent on, and no answer came"}
"""The outcome of a call, in words for the model."""


class TurnToolset(AbstractToolset["TurnToolset | None"]):
    """The tools in play in each step of a turn.

    A call that needs an approval defers the run; all other refusals and failures are failed results that the model
    reads. Results of calls with effects are stored before the next call begins. A continued turn reuses stored results.
    A call with an unknown outcome is not repeated, unless its tool permits that.
    """

    def __init__(
        self, turn: Turn, journal: Journal | None, journal_messages: Callable[[Sequence[ModelMessage]], None]
    ) -> None:
        """``journal_messages`` adds to the journal those messages of the run that it does not have yet."""
        self.past_messages: Sequence[ModelMessage] = ()
        """The messages of a continued turn from before it was continued."""
        self._turn = turn
        self._journal = journal
        self._causation_prefix = "" if journal is None else journal.causation_prefix
        self._journal_messages = journal_messages
        self.results: dict[str, str] = {}
        """The results of the current step, in stored form, by the model's call id."""
        self._step: ModelStep | None = None
        self._offered_tools = OfferedTools()
        self._brakes = Brakes()

    @property
    def id(self) -> str:
        """The id of the toolset."""
        return "capset"

    @property
    def step(self) -> ModelStep:
        """The current step of the model."""
        assert self._step is not None  # noqa: S101  # pydantic-ai begins each step with ``for_run_step``
        return self._step

    async def for_run_step(self, ctx: RunContext[TurnToolset | None]) -> Self:
        """Resolve the next step: context, instructions and tools. Raises like ``Turn.step``."""
        self._step, self.results = await self._turn.step(), {}
        if self.past_messages:
            self._restore_brakes()
        return self

    async def get_instructions(self, ctx: RunContext[TurnToolset | None]) -> InstructionPart | None:
        """Return the system text of the step."""
        text = self.step.system_text
        return InstructionPart(text, dynamic=True) if text else None

    async def get_tools(self, ctx: RunContext[TurnToolset | None]) -> dict[str, ToolsetTool[TurnToolset | None]]:
        """Return the tools in play in the step, without those that failed too often."""
        offered = self._offered_tools.build(self.step.snapshot, self, ctx.max_retries)
        return {name: tool for name, tool in offered.items() if not self._brakes.is_left_out(name)}

    async def refuse_absent(self, part: ToolCallPart) -> None:
        """Have the kernel refuse, on record, a call of a tool that was not offered or does not exist."""
        error: CapsetError = NotFound(unknown("tool", part.tool_name, self.step.snapshot.tools))
        try:
            self._brakes.check(part.tool_name, part.args_as_json_str().encode())
        except LimitExceeded as stopped:
            error = stopped
        result = await self.refuse(part, error)
        if self._journal is not None:
            event_data = _result_event(part.tool_call_id, part.tool_name, _outcome(result))
            self._journal.emit("tool.result", event_data)

    async def refuse(self, part: ToolCallPart, error: CapsetError) -> Result[Any]:
        """Refuse a call, on record."""
        arguments = Json(self._arguments(part.tool_name, part.args_as_json_str()))
        return await self.step.refuse(part.tool_name, arguments, error, cause=self._cause(part.tool_call_id))

    async def call_tool(
        self,
        name: str,
        tool_args: dict[str, Any],  # any JSON: the kernel validates it
        ctx: RunContext[TurnToolset | None],
        tool: ToolsetTool[TurnToolset | None],
    ) -> ToolReturn[Any]:
        """Call a tool and return its data as the model reads it. Raises ``ToolFailed`` or ``ApprovalRequired``."""
        call, journal = ctx.tool_call_id or "", self._journal
        arguments = self._arguments(name, tool_args)
        if journal is None:
            return _tool_return(_outcome(await self._make_call(name, arguments, call)))
        if (stored := journal.result(call)) is not None:
            self.results[call] = stored
            return _tool_return(from_json(stored))
        installed = self.step.snapshot.tools.get(name)
        # An agent continues from its own messages, so its call may be repeated.
        is_agent = installed is not None and isinstance(installed.tool.block, Agent)
        may_repeat = installed is None or is_agent or not installed.tool.has_side_effects or installed.tool.idempotent
        unknown_outcome = None if may_repeat else _unknown_outcome_text(await journal.attempts(call))
        if unknown_outcome is not None:
            outcome: dict[str, Any] = {"text": unknown_outcome, "record": None, "code": "outcome_unknown"}
        else:
            if not may_repeat:
                # Store the model's answer first: otherwise the next process would ask again, and call twice.
                self._journal_messages(ctx.messages)
                await journal.store()
            with agents_within(journal if is_agent else None, call):
                result = await self._make_call(name, arguments, call)
            if isinstance(result.error, TurnLost):
                raise result.error  # another process continues the turn
            if isinstance(result.error, ApprovalRequired) and result.error.approval is not None:
                raise ApprovalNeeded({"approvals": [result.error.approval]})
            if isinstance(result.error, TurnSuspended):  # from an agent that this one called
                raise ApprovalNeeded({"approvals": result.error.approvals})
            outcome = _outcome(result)
        journal.emit("tool.result", _result_event(call, name, outcome))
        self.results[call] = to_json(outcome).decode()
        if not may_repeat:
            await journal.store({call: self.results[call]})
        return _tool_return(outcome)

    def _cause(self, call: str) -> str | None:
        """Return the causation of a call: the model's call id, prefixed by the place of an agent within a call."""
        return f"{self._causation_prefix}{call}" if call else None

    def _arguments(self, name: str, raw_arguments: object) -> bytes:
        """Return a model's arguments as JSON text in the tool's own schema, for the kernel to validate."""
        arguments = parse_arguments(raw_arguments)
        installed = self.step.snapshot.tools.get(name)
        if installed is not None:
            return arguments_json(installed.tool.arguments.for_models.restore(arguments))
        return arguments_json(arguments)

    def _restore_brakes(self) -> None:
        """Restore the brakes from the earlier messages of the turn."""
        called: dict[str, ToolCallPart] = {}
        for message in self.past_messages:
            for part in message.parts:
                if isinstance(part, ToolCallPart):
                    called[part.tool_call_id] = part
                elif isinstance(part, ToolReturnPart) and (call := called.get(part.tool_call_id)) is not None:
                    succeeded = part.outcome == "success"
                    text = to_json(part.content).decode() if succeeded else part.model_response_str()
                    arguments = self._arguments(part.tool_name, call.args_as_json_str())
                    has_effect = self._has_effect(part.tool_name)
                    self._brakes.record(part.tool_name, arguments, text, succeeded=succeeded, has_effect=has_effect)
        self.past_messages = ()

    def _has_effect(self, name: str) -> bool:
        installed = self.step.snapshot.tools.get(name)
        return installed is not None and installed.tool.has_side_effects

    async def _make_call(self, name: str, arguments: bytes, call: str) -> Result[Any]:
        """Make a call, or refuse it on record if a brake stops it."""
        try:
            self._brakes.check(name, arguments)
        except LimitExceeded as error:
            return await self.step.refuse(name, Json(arguments), error, cause=self._cause(call))
        if self._journal is None:
            result = await self.step.call(name, Json(arguments), cause=self._cause(call))
        else:
            with CallProgress(self._journal.emit, call, name) as progress:
                result = await self.step.call(name, Json(arguments), cause=self._cause(call), listener=progress)
        if not isinstance(result.error, ApprovalRequired | TurnSuspended):
            text = error_text(result.error) if result.error is not None else to_json(result.data).decode()
            has_effect = self._has_effect(name)
            self._brakes.record(name, arguments, text, succeeded=result.success, has_effect=has_effect)
        return result


class AbsentCalls(AbstractCapability[D]):
    """Refuses, on record, calls of tools that were not offered. pydantic-ai's own refusal leaves no record."""

    @abstractmethod
    async def refuse_absent(self, ctx: RunContext[D], part: ToolCallPart) -> None:
        """Have the kernel refuse such a call."""

    async def before_node_run(self, ctx: RunContext[D], *, node: AgentNode[D]) -> AgentNode[D]:
        """Check the calls of an answer before they are made, unless a deferred run continues from it."""
        if isinstance(node, CallToolsNode) and node.tool_call_results is None:
            for part in node.model_response.tool_calls:
                if part.tool_name not in ctx.tools:
                    await self.refuse_absent(ctx, part)
        return node


class TurnTools(AbsentCalls["TurnToolset | None"], ToolSearch["TurnToolset | None"]):
    """Makes each run use its ``deps``, the toolset of its turn, directly. A run without ``deps`` has no tools.

    It replaces the tool search that pydantic-ai adds to every agent, since all tools of a step are offered. If it were
    passed to the run as an additional toolset, pydantic-ai would query it and the agent's own empty toolset in separate
    tasks, three times in each step.
    """

    def get_native_tools(self) -> Sequence[AgentNativeTool[TurnToolset | None]]:
        """Return nothing: there is nothing to search."""
        return ()

    def get_wrapper_toolset(self, toolset: AbstractToolset[TurnToolset | None]) -> AbstractToolset[TurnToolset | None]:
        """Return a wrapper that becomes the turn's toolset when a run begins."""
        return _TurnWrapperToolset(toolset)

    async def refuse_absent(self, ctx: RunContext[TurnToolset | None], part: ToolCallPart) -> None:
        """Have the kernel refuse a call of the turn. Unrequested output does not count as a call."""
        if ctx.deps is not None and part.tool_name != OUTPUT_TOOL:
            await ctx.deps.refuse_absent(part)


class _TurnWrapperToolset(WrapperToolset["TurnToolset | None"]):
    async def for_run(self, ctx: RunContext[TurnToolset | None]) -> AbstractToolset[TurnToolset | None]:
        return ctx.deps or await super().for_run(ctx)


@dataclass(slots=True)
class _Call:
    """A call by a turn's model, in which agents may run. ``runs`` counts their runs by agent name."""

    journal: Journal
    id: str
    runs: Counter[str] = field(default_factory=Counter[str])


_CALL: Final = ContextVar[_Call | None]("capset_turn_call", default=None)
"""The call that the current task belongs to."""


@contextmanager
def agents_within(journal: Journal | None, call: str) -> Generator[None]:
    """Make agents that run within a call store their messages with its turn; without a journal, nothing is stored."""
    token = _CALL.set(None if journal is None else _Call(journal, call))
    try:
        yield
    finally:
        _CALL.reset(token)


def journal_of(turn: Turn) -> Journal | None:
    """Return the journal of a turn, or of an agent within a call of one; ``None`` if nothing is stored."""
    call = _CALL.get()
    if turn.journal is not None or call is None or call.journal.turn != turn.correlation:
        return turn.journal
    call.runs[turn.name] += 1
    number = call.runs[turn.name]
    return call.journal.nested(f"{call.id}/{turn.name}" + (f"~{number}" if number > 1 else ""))


class AnyArguments:
    """The validator that pydantic-ai requires. It accepts all arguments, so that the kernel validates every attempt."""

    def validate_json(self, input: str | bytes | bytearray, **_: object) -> dict[str, Any]:
        """Return the arguments in a text, JSON or not."""
        return parse_arguments(input)

    def validate_python(self, input: object, **_: object) -> dict[str, Any]:
        """Return the arguments in any value. Text that a client library did not parse is parsed as JSON."""
        return parse_arguments(input)


class OfferedTools:
    """The tools of snapshots for pydantic-ai. Their definitions are cached as long as the snapshot is the same."""

    def __init__(self) -> None:
        self._cached: tuple[Snapshot, list[_CachedDefinition]] | None = None

    def build(self, snapshot: Snapshot, toolset: AbstractToolset[D], max_retries: int) -> dict[str, ToolsetTool[D]]:
        """Return the tools in play, sorted by name: for equal runtime hashes, a model sees the same list."""
        if self._cached is None or self._cached[0] is not snapshot:
            self._cached = (
                snapshot,
                [_CachedDefinition.of(tool_definition(snapshot, ref)) for ref in snapshot.tool_refs],
            )
        return {
            cached.definition.name: ToolsetTool(
                toolset=toolset, tool_def=cached.copy(), max_retries=max_retries, args_validator=AnyArguments()
            )
            for cached in self._cached[1]
        }


class _CachedDefinition(NamedTuple):
    """A definition, and its schemas as JSON text. Parsing them takes a quarter of the time of a deep copy."""

    definition: ToolDefinition
    schemas: bytes

    @classmethod
    def of(cls, definition: ToolDefinition) -> Self:
        return cls(definition, to_json((definition.parameters_json_schema, definition.return_schema)))

    def copy(self) -> ToolDefinition:
        """Return an independent copy, since functions that prepare tools for a step may modify it."""
        parameters, returned = from_json(self.schemas)
        metadata = dict(self.definition.metadata or {})
        return replace(self.definition, parameters_json_schema=parameters, return_schema=returned, metadata=metadata)


def tool_definition(snapshot: Snapshot, ref: Ref) -> ToolDefinition:
    """Return pydantic-ai's definition of a tool in play."""
    installed = snapshot.tools[ref.name]
    tool, model_schema = installed.tool, installed.tool.arguments.for_models
    return ToolDefinition(
        name=installed.name,
        description=tool.description,
        parameters_json_schema=dict(model_schema.json_schema),
        return_schema=dict(tool.output.json_schema),
        strict=None if model_schema.may_be_strict else False,
        metadata={"capability": installed.owner, "effect": tool.effect, "tool_hash": ref.hash},
    )


def _outcome(result: Result[Any]) -> dict[str, Any]:
    """Return the outcome of a call as JSON data: the data or text for the model, the record, and an error's code."""
    if (error := result.error) is None:
        media = [] if result.content is None else _media_paths(result.data)
        return {"data": result.data, "record": result.record, "code": None, **({MEDIA_KEY: media} if media else {})}
    return {"text": f"{error_text(error)}\n{error_suffix(error)}", "record": result.record, "code": error.code}


def _result_event(call: str, tool: str, outcome: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of a ``tool.result`` event."""
    details = {name: value for name, value in outcome.items() if name != MEDIA_KEY}
    return {"call": call, "tool": tool, "success": outcome["code"] is None, **details}


def _tool_return(outcome: Mapping[str, Any]) -> ToolReturn[Any]:
    if outcome["code"] is not None:
        raise ToolFailed(outcome["text"])
    media = {MEDIA_KEY: outcome[MEDIA_KEY]} if MEDIA_KEY in outcome else {}
    return ToolReturn(outcome["data"], metadata={"untrusted": True, "record": outcome["record"], **media})


def _media_paths(data: Any) -> list[str]:  # JSON data
    """Return the paths of the images and recordings in a content result."""
    paths: list[str] = []
    for piece in cast("list[Any]", data) if isinstance(data, list) else [data]:
        match piece:
            case {"type": "file", "path": str(path), "media_type": str(media_type)}:
                paths += [path] if media_type.startswith(("image/", "audio/")) else []
            case _:
                pass
    return paths


def _unknown_outcome_text(attempts: Sequence[Attempt]) -> str | None:
    """Return a text for the model about a call that may already have been made, or ``None`` if it was not."""
    earlier_attempt = next((attempt for attempt in attempts if attempt.outcome not in UNTOUCHED), None)
    if earlier_attempt is None:
        return None
    if earlier_attempt.outcome is None or earlier_attempt.outcome == "interrupted":
        return (
            "The server stopped during this call: whether it had its effect is not known, and it was not repeated. "
            f"Find out before you do it again. (outcome_unknown; record {earlier_attempt.record})"
        )
    ended = _OUTCOME_TEXTS.get(earlier_attempt.outcome, f"ended as {earlier_attempt.outcome}")
    return (
        f"This call {ended}, but the server stopped before its result was stored, and it was not repeated. "
        f"(outcome_unknown; record {earlier_attempt.record})"
    )
