"""The agent runner: pydantic-ai's loop over the steps and tools of a session (extra ``agent``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from capset.extras import install_command

try:
    from pydantic_ai import Agent, DeferredToolRequests, StructuredDict, UsageLimits
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(f"agents run with pydantic-ai: {install_command('agent')}", name=missing.name) from None
from pydantic_ai.exceptions import AgentRunError, UserError
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model
from pydantic_ai.output import ToolOutput
from pydantic_ai.settings import ModelSettings

from capset.definitions.governance.usage import AgentUsage
from capset.errors import BudgetExceeded, CapsetError, TurnSuspended
from capset.kernel.blocks.generation import Journal, Turn
from capset.kernel.call.media import Medium, medium_of
from capset.kernel.telemetry.tracing import tracing_of
from capset.schemas.schema import Schema
from capset_agents.budgets import SUMMARISE_AT, TurnBudget
from capset_agents.content import MAX_FILE_BYTES, context_messages, prompt_of
from capset_agents.journal import KEPT_FROM
from capset_agents.meter import TurnMeter
from capset_agents.models import ModelChoice
from capset_agents.spans import agent_span
from capset_agents.toolset import MEDIA_KEY, OUTPUT_TOOL, TurnTools, TurnToolset, journal_of
from capset_agents.turn_model import BYTES_PER_TOKEN, TurnModel, price_of

_SUMMARISE_PROMPT: Final = (
    "Summarise this conversation for yourself, who will go on with it and see nothing else of it: what was asked for, "
    "what was done and found, with names, numbers and paths as they are, what was refused, and what is still to do."
)
_CONTINUE_PROMPT: Final = "Go on with it."


_Loop = Agent[TurnToolset | None, Any]


class AgentRunner:
    """Runs agents: ``Kernel(generator=AgentRunner("openai:gpt-5"))``.

    The session provides instructions, context and tools before every step, and makes all calls. If a turn has a
    journal, everything is stored as it happens, so that another process can continue the turn.
    """

    continues: Final = True
    """Another process can continue the runner's turns from their journals."""

    def __init__(
        self,
        model: str | Model | ModelChoice,
        *,
        budget: TurnBudget | None = None,
        summarise_at: int | None = SUMMARISE_AT,
    ) -> None:
        """Take the model for agents without their own, and the budget of each turn, by default ``TurnBudget()``.

        With a ``ModelChoice``, agents choose among its models. Once a conversation has more than about ``summarise_at``
        tokens, the model summarises it before the next request; ``None`` disables this.
        """
        self._summarise_at = summarise_at
        self._models = model if isinstance(model, ModelChoice) else ModelChoice(model)
        self._budget = budget or TurnBudget()
        # pydantic-ai's retries are for invalid output only: arguments are validated by the kernel alone.
        self._agent = Agent[TurnToolset | None, Any](
            None, deps_type=TurnToolset | None, capabilities=[TurnTools()], retries={"tools": 1_000, "output": 2}
        )

    async def run(self, turn: Turn) -> Any:  # of the type that the agent declares as its output
        """Run a turn to its end and return its output.

        Raises ``TurnSuspended`` if a call needs an approval first, ``ModelFailed`` if the provider fails, and
        ``BudgetExceeded`` if the turn exceeds its budget.
        """
        model = self._models.resolve(turn.model, turn.name)
        return await _TurnRun(model, turn, self._budget, self._summarise_at).run(self._agent)


class ModelFailed(CapsetError):
    """The provider of a model failed; the turn can be resumed."""

    code = "model_failed"
    status = 502
    retryable = True


class _TurnRun:
    """One turn, or the rest of a continued turn."""

    def __init__(self, model: Model, turn: Turn, budget: TurnBudget, summarise_at: int | None) -> None:
        self._model = model
        self._summarise_at = summarise_at
        self._turn = turn
        self._journal = journal_of(turn)
        self._meter = TurnMeter(turn, budget)
        self._tracing = tracing_of(turn.observers)
        self._stored_count = 0
        """How many messages of the run are in the journal."""
        self._silent_count = 0
        """How many messages emit no events: those of earlier turns, of a summary, and those that close a turn."""
        self._already_stored = range(0)
        """The indexes of messages after a summary that are already in the journal, before the summary."""
        self._is_retried = False
        """Whether the run begins with the calls of the last answer of a failed attempt."""
        self._size = 0
        """The stored size of the run's messages, without images and other files."""
        self._step_number = 0
        """The number of the current step, for events."""
        self._has_emitted = False
        """Whether a part of the current step's answer was emitted."""
        self._media: dict[str, Medium | None] = {}
        """The images and recordings of this turn's results, by file path; ``None`` for other files."""
        self._tools = TurnToolset(turn, self._journal, self._journal_messages)

    async def run(self, agent: _Loop) -> Any:
        with self._meter.counting(), agent_span(self._tracing, self._turn):
            return await self._run_loop(agent)

    async def _run_loop(self, agent: _Loop) -> Any:
        history = _parse_messages(self._journal.history) if self._journal is not None else []
        if self._journal is not None:
            self._size = sum(map(_text_size, history, self._journal.history))
        self._stored_count = len(history)
        is_new = self._journal is None or not self._journal.is_continued
        if is_new:
            history += _closing_messages(history)
            self._silent_count = len(history)
        else:
            self._tools.past_messages = _last_turn(history)
            last, journal = history[-1], self._turn.journal
            has_calls = isinstance(last, ModelResponse) and bool(last.tool_calls)
            self._is_retried = has_calls and journal is not None and not journal.usage
        try:
            if is_new and self._is_long:
                history = await self._summarise(agent, history, self._unsummarised_count(history))
            async with agent.iter(
                await prompt_of(self._turn.input, self._turn.files, self._turn.principal.permissions)
                if is_new
                else None,
                model=self._turn_model(streams=self._journal is not None and self._journal.is_streaming),
                message_history=history,
                output_type=_output_type(self._turn.output),
                deps=self._tools,
                usage_limits=UsageLimits(request_limit=None),  # the turn's budget applies, even if it is continued
            ) as running:
                state, node = running.ctx.state, running.next_node
                while not Agent.is_end_node(node):  # cheaper than iterating
                    messages = state.message_history
                    if Agent.is_model_request_node(node):
                        self._step_number, self._has_emitted = self._step_number + 1, False
                        self._journal_messages([*messages, node.request])
                        if self._is_long:
                            messages[:] = await self._summarise(agent, [*messages, node.request])
                            node.request = ModelRequest(parts=[UserPromptPart(_CONTINUE_PROMPT)])
                            self._journal_messages([*messages, node.request])
                    elif Agent.is_call_tools_node(node):
                        self._journal_messages(messages)
                        await self._check(node.model_response)
                    node = await running.next(node)
                result = running.result
                assert result is not None  # noqa: S101  # the loop has ended
                if isinstance(result.output, DeferredToolRequests):
                    # The results so far are stored separately: the turn continues from the answer, with all its calls.
                    if self._journal is not None:
                        await self._journal.store(self._tools.results)
                    raise _suspended_error(result.output)
                self._journal_messages(state.message_history)
                return result.output
        except (AgentRunError, UserError) as error:
            raise ModelFailed(f"The model failed: {error}") from error

    @property
    def _is_long(self) -> bool:
        """Whether the conversation must be summarised before the next request."""
        maximum = self._summarise_at
        return self._journal is not None and maximum is not None and self._size // BYTES_PER_TOKEN > maximum

    def _unsummarised_count(self, history: Sequence[ModelMessage]) -> int:
        """Return how many of the newest turn's messages a summary leaves unchanged.

        None, if they have more tokens than a quarter of ``summarise_at``.
        """
        newest, maximum = _last_turn(history), (self._summarise_at or 0) // 4
        size = sum(_text_size(message, _message_json(message)) for message in newest)
        return len(newest) if len(newest) < len(history) and size // BYTES_PER_TOKEN <= maximum else 0

    async def _summarise(
        self, agent: _Loop, messages: Sequence[ModelMessage], unsummarised: int = 0
    ) -> list[ModelMessage]:
        """Return a summary of the messages, followed by the last ``unsummarised`` of them unchanged.

        The summary is stored together with the next message: alone, it would be the answer of a continued turn.
        """
        model = TurnModel(self._model, self._meter, tracing=self._tracing)
        cut = len(messages) - unsummarised
        older, newest = messages[:cut], messages[cut:]
        response = (await agent.run(_SUMMARISE_PROMPT, model=model, message_history=older, output_type=str)).response
        if self._journal is not None:
            self._emit_response(self._journal, response)
        self._meter.check()
        if self._journal is not None:
            event_data = {
                "messages": len(older),
                "unsummarised": unsummarised,
                "tokens": self._size // BYTES_PER_TOKEN,
                "model": response.model_name,
            }
            self._journal.emit("conversation.summarised", event_data)
        stored = self._journal.numbers[len(older) :] if unsummarised and self._journal is not None else ()
        metadata = {KEPT_FROM: stored[0]} if stored else None
        summary: list[ModelMessage] = [
            ModelRequest(parts=[UserPromptPart(_SUMMARISE_PROMPT)], metadata=metadata),
            response,
            *newest,
        ]
        self._stored_count, self._silent_count, self._size = 0, len(summary), 0
        self._already_stored = range(2, 2 + len(stored))
        return summary

    def _turn_model(self, *, streams: bool) -> TurnModel:
        emit = self._emit_event if streams else None
        return TurnModel(self._model, self._meter, self._prepare, emit, self._discard, self._with_media, self._tracing)

    def _discard(self) -> None:
        """Emit that the text of an answer that broke off is discarded."""
        if self._has_emitted and self._journal is not None:
            self._journal.emit("text.discarded", {"step": self._step_number})
        self._has_emitted = False

    def _emit_event(self, event: ModelResponseStreamEvent) -> None:
        if isinstance(event, PartStartEvent):
            self._emit_text(event.index, event.part, getattr(event.part, "content", None))
        elif isinstance(event, PartDeltaEvent):
            self._emit_text(event.index, event.delta, getattr(event.delta, "content_delta", None))

    def _emit_text(self, part: int, of: object, text: str | None) -> None:
        if not text or self._journal is None:
            return
        self._has_emitted = True
        if isinstance(of, TextPart | TextPartDelta):
            self._journal.emit_text("text.delta", self._step_number, part, text)
        elif isinstance(of, ThinkingPart | ThinkingPartDelta):
            self._journal.emit_text("reasoning.delta", self._step_number, part, text)

    def _journal_messages(self, messages: Sequence[ModelMessage]) -> None:
        """Add the messages that are not in the journal yet, and emit their events."""
        journal, start, silent_count = self._journal, self._stored_count, self._silent_count
        if start < len(messages):
            self._stored_count, self._silent_count = len(messages), 0
        for place, message in enumerate(messages[start:], start):
            if journal is None:
                continue
            text = _message_json(message)
            self._size += _text_size(message, text)
            if place in self._already_stored:
                continue
            journal.add(text, is_summary=place == 0 and silent_count > 0)
            if isinstance(message, ModelResponse) and place >= silent_count:
                self._emit_response(journal, message)

    async def _check(self, response: ModelResponse) -> None:
        """Raise ``BudgetExceeded`` if an answer with calls exceeds a budget, and refuse the calls on record."""
        is_final = all(part.tool_name == OUTPUT_TOOL for part in response.tool_calls)
        try:
            if self._is_retried:  # the budget starts again, and refused calls were not counted
                self._is_retried = False
                step = await self._meter.reserve(AgentUsage())
                await self._meter.settle(step, AgentUsage(calls=len(response.tool_calls)))
            self._meter.check(is_final=is_final)
        except BudgetExceeded as error:
            for part in response.tool_calls:
                if part.tool_name != OUTPUT_TOOL:
                    await self._tools.refuse(part, error)
            raise

    def _emit_response(self, journal: Journal, message: ModelResponse) -> None:
        for index, part in enumerate(message.parts):
            if not journal.is_streaming and isinstance(part, TextPart | ThinkingPart):
                self._emit_text(index, part, part.content)
            if isinstance(part, ToolCallPart) and part.tool_name != OUTPUT_TOOL:
                journal.emit(
                    "tool.called", {"call": part.tool_call_id, "tool": part.tool_name, "arguments": _arguments(part)}
                )
        used = message.usage
        journal.emit(
            "usage",
            {
                "step": self._step_number,
                "model": message.model_name,
                "input_tokens": used.input_tokens,
                "output_tokens": used.output_tokens,
                "cache_read_tokens": used.cache_read_tokens,
                "cache_write_tokens": used.cache_write_tokens,
                "reasoning_tokens": used.details.get("reasoning_tokens", 0),
                "cost": price_of(message),
            },
        )

    def _prepare(
        self, messages: list[ModelMessage], settings: ModelSettings | None
    ) -> tuple[list[ModelMessage], ModelSettings | None]:
        """Return the messages and settings of a request with the context messages and settings of the step."""
        step = self._tools.step
        merged = cast("ModelSettings", {**(settings or {}), **step.model_settings})
        return [*context_messages(step.messages), *messages] if step.messages else messages, merged or None

    async def _with_media(self, messages: list[ModelMessage]) -> list[ModelMessage]:
        """Return the messages of a request with the images and recordings of this turn's results.

        The conversation stores only their paths. The newest are shown first, up to ``MAX_FILE_BYTES`` in total, if the
        model accepts their kind.
        """
        remaining, rendered, has_media = MAX_FILE_BYTES, [*messages], False
        for place in range(len(messages) - 1, len(messages) - len(_last_turn(messages)) - 1, -1):
            message = messages[place]
            if not isinstance(message, ModelRequest):
                continue
            parts = [*message.parts]
            for at, part in enumerate(parts):
                if not isinstance(part, ToolReturnPart):
                    continue
                media: list[BinaryContent] = []
                for path in _media_of(part):
                    medium = await self._read_medium(path)
                    if medium is not None and len(medium.data) <= remaining and self._accepts(medium):
                        remaining -= len(medium.data)
                        media.append(BinaryContent(medium.data, media_type=medium.media_type))
                if media:
                    data = cast("Any", part.content)
                    parts[at] = replace(part, content=[*(data if isinstance(data, list) else [data]), *media])
                    has_media = True
            rendered[place] = replace(message, parts=parts)
        return rendered if has_media else messages

    def _accepts(self, medium: Medium) -> bool:
        try:
            profile = self._model.profile
        except NotImplementedError:  # a wrapper of several models, such as ``FallbackModel``: some may accept none
            return False
        if medium.is_image:
            return profile.get("supports_image_input", True)
        return profile.get("supports_audio_file_input", True)

    async def _read_medium(self, path: str) -> Medium | None:
        if path not in self._media:
            try:
                file, content = await self._turn.files.read(path, size=MAX_FILE_BYTES + 1)
            except CapsetError:  # deleted since, or not readable now
                return None
            self._media[path] = medium_of(content) if file.size_bytes <= MAX_FILE_BYTES else None
        return self._media[path]


def _parse_messages(history: Sequence[str]) -> list[ModelMessage]:
    return ModelMessagesTypeAdapter.validate_json(f"[{','.join(history)}]")


def _message_json(message: ModelMessage) -> str:
    """Return the stored form of a message; instructions are left out, since each step has its own."""
    if isinstance(message, ModelRequest) and message.instructions is not None:
        message = replace(message, instructions=None)
    return ModelMessagesTypeAdapter.dump_json([message])[1:-1].decode()


def _text_size(message: ModelMessage, stored_form: str) -> int:
    """Return the stored size of a message without its files, which models count differently."""
    size = len(stored_form)
    for part in message.parts:
        content = getattr(part, "content", None)
        for element in cast("Sequence[object]", content) if isinstance(content, list | tuple) else (content,):
            if isinstance(element, BinaryContent):
                size -= -(-len(element.data) // 3) * 4  # base64
    return size


def _media_of(part: ToolReturnPart) -> Sequence[str]:
    """Return the paths of a result's images and recordings, from its metadata."""
    metadata = cast("object", part.metadata)
    paths = cast("Mapping[str, Any]", metadata).get(MEDIA_KEY) if isinstance(metadata, Mapping) else None
    return cast("list[str]", paths) if isinstance(paths, list) else ()


def _last_turn(history: Sequence[ModelMessage]) -> Sequence[ModelMessage]:
    """Return the messages of the last turn: those since the newest prompt."""
    for place in range(len(history) - 1, -1, -1):
        if any(isinstance(part, UserPromptPart) for part in history[place].parts):
            return history[place:]
    return history


def _closing_messages(history: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Return messages that close a turn that ended before its answer, so that providers accept the history.

    The last one is always an answer: otherwise pydantic-ai would merge the next prompt into the request before it.
    """
    if not history:
        return []
    last, ended = history[-1], ModelResponse(parts=[TextPart("(The turn was ended here.)")])
    if isinstance(last, ModelRequest):
        return [ended]
    if not last.tool_calls:
        return []
    notice = "The turn was ended during this call: whether it had its effect is not known."
    parts = [
        ToolReturnPart(call.tool_name, notice, call.tool_call_id, outcome="interrupted") for call in last.tool_calls
    ]
    return [ModelRequest(parts=parts), ended]


def _output_type(output: Schema | None) -> Any:  # an output type of pydantic-ai
    if output is None:
        return [str, DeferredToolRequests]
    schema = dict(output.json_schema)
    if schema.get("type") != "object":
        schema = {"type": "object", "properties": {"response": schema}, "required": ["response"]}
    return [ToolOutput(StructuredDict(schema, name=OUTPUT_TOOL)), DeferredToolRequests]


def _arguments(part: ToolCallPart) -> Mapping[str, Any] | str:
    try:
        return part.args_as_dict()
    except ValueError:
        return part.args_as_json_str()


def _suspended_error(waiting: DeferredToolRequests) -> TurnSuspended:
    approval_ids = {
        call.tool_call_id: list(waiting.metadata[call.tool_call_id]["approvals"]) for call in waiting.approvals
    }
    calls = {call: str(ids[0]) for call, ids in approval_ids.items()}
    ids = list(dict.fromkeys(approval_id for several in approval_ids.values() for approval_id in several))
    message = f"The turn waits for {'approvals' if len(ids) > 1 else 'an approval'}: {', '.join(ids)}"
    return TurnSuspended(message, approvals=ids, calls=calls)
