"""Turns of a generator's runner: the prompt of each step, and calls of its tools (spec 1, C37)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from capset.definitions.agents import Agent
from capset.definitions.calls.messages import Json, Message
from capset.definitions.model_context import ContextMessage
from capset.definitions.principals import Principal
from capset.errors import CapsetError, DefinitionError
from capset.evaluation.snapshot.snapshot import Snapshot
from capset.kernel.call.dispatch import nested_call, resolve_name, to_result
from capset.kernel.call.invocation import CallStream, Invocation, Observer
from capset.kernel.call.media import content_data, media_as_files
from capset.kernel.call.pipeline import execute
from capset.kernel.call.prompt import Prompt, prompt_of
from capset.kernel.call.stages.access import refusing_tool
from capset.kernel.call.truncation import truncate_for_model
from capset.kernel.governance.usage import UsageMeter
from capset.kernel.results import Result
from capset.kernel.state.files import SessionFiles
from capset.schemas.schema import Schema
from capset.stores.base import Attempt, ModelUser, TurnHold

if TYPE_CHECKING:
    from capset.kernel.blocks.runs import BlockRun


class GeneratorRunner(Protocol):
    """Runs the model steps of generators. It is passed to the kernel, which has no model of its own.

    A runner with the attribute ``continues = True`` records its progress in the ``journal`` of each turn, so that
    another process can continue the turn.
    """

    async def run(self, turn: Turn) -> Any:  # of the type that the generator declares as its output
        """Run a turn to its end and return its output."""
        ...


def continues(runner: GeneratorRunner | None) -> bool:
    """Whether another process can continue a runner's turns."""
    return getattr(runner, "continues", False) is True


class Journal(Protocol):
    """The stored conversation of a session's turn, read and continued by its runner.

    Messages are JSON texts in the runner's own format; a summary may have the member ``metadata.kept_from``.
    """

    @property
    def turn(self) -> str:
        """The id of the turn: the correlation of its calls."""
        ...

    @property
    def hold(self) -> TurnHold:
        """The hold of this process on the turn."""
        ...

    @property
    def history(self) -> Sequence[str]:
        """The messages so far, oldest first. If the turn is continued, they include its own."""
        ...

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of the messages of ``history`` within the session; empty for an agent within a call."""
        ...

    @property
    def is_continued(self) -> bool:
        """Whether the turn continues from its own messages, which already include the agent's input."""
        ...

    @property
    def is_streaming(self) -> bool:
        """Whether texts may be emitted in pieces."""
        ...

    @property
    def causation_prefix(self) -> str:
        """The prefix of its calls' causation: empty, or for an agent within a call, the names of the call and agent."""
        ...

    def result(self, call: str) -> str | None:
        """Return the stored result of a tool call in the last message, by the model's call id, or ``None``."""
        ...

    async def attempts(self, call: str) -> Sequence[Attempt]:
        """Return the attempts at a tool call from before the turn was continued."""
        ...

    @property
    def usage(self) -> Mapping[str, float]:
        """The turn's usage so far, by the runner's own names."""
        ...

    def record_usage(self, usage: Mapping[str, float]) -> None:
        """Set the turn's usage so far. It is stored with the next addition."""
        ...

    def emit(self, type: str, data: Mapping[str, Any]) -> None:
        """Add an event with JSON data to the turn; it is stored soon."""
        ...

    def emit_text(self, type: str, step: int, part: int, text: str) -> None:
        """Add a piece of the text of one part of a step's answer. Pieces may be joined."""
        ...

    def add(self, message: str, *, is_summary: bool = False) -> None:
        """Add a message to the conversation; it is stored soon. Discards the stored results of the previous message.

        A summary replaces all messages before it, which the next turn no longer reads. If ``metadata.kept_from`` is a
        number, the next turn still reads the messages from that number on, after the summary.
        """
        ...

    def nested(self, place: str) -> Journal:
        """Return the journal of an agent that runs within a call of this turn. ``place`` is unique in the turn."""
        ...

    async def store(self, results: Mapping[str, str] | None = None) -> None:
        """Store all additions, and ``results`` of tool calls by the model's call ids; return once they are durable.

        Raises ``StateError`` if this process no longer holds the turn.
        """
        ...


class Turn:
    """One run of a generator: its input, the schema of its output, and its steps."""

    __slots__ = ("_run", "input", "output", "usage")

    def __init__(self, run: BlockRun, input: Any, output: Schema | None) -> None:
        """``input`` is of the generator's own type; ``output`` is ``None`` if any text is valid."""
        self._run = run
        limits, runtime, principal = run.base.limits, run.base.runtime, run.base.principal
        user = ModelUser(principal.org, run.base.block.name, principal.id, principal.kind)
        self.usage = UsageMeter(() if limits is None else limits.usage, runtime.store, runtime.clock, user)
        """The session's usage limits. The runner reserves usage before each model step, and settles it afterwards."""
        self.input = input
        self.output = output

    @property
    def name(self) -> str:
        """The name of the generator, or of the agent."""
        return self._run.base.block.name

    @property
    def model(self) -> str | None:
        """The agent's model, for the runner to use; ``None`` if the runner chooses it."""
        block = self._run.base.block
        return block.model if isinstance(block, Agent) else None

    @property
    def correlation(self) -> str:
        """The id that its calls share with each other and with those of the enclosing turn."""
        return self._run.correlation

    @property
    def session(self) -> str:
        """The id of its session."""
        return self._run.base.id

    @property
    def agent_id(self) -> str | None:
        """The id of the session's stored agent, if this is the agent itself."""
        base = self._run.base
        return base.snapshot.agent_id if base.enclosing_agent is None else None

    @property
    def observers(self) -> tuple[Observer, ...]:
        """The observers of its calls."""
        return self._run.base.runtime.observers

    @property
    def files(self) -> SessionFiles:
        """The files of the session, which the input may name."""
        return self._run.base.files

    @property
    def principal(self) -> Principal:
        """The session's principal, who sent the input; the input may name only files that this principal may read."""
        return self._run.base.principal

    @property
    def journal(self) -> Journal | None:
        """The stored conversation of this turn; ``None`` for a block inside another, or without a conversation."""
        return self._run.journal

    async def step(self) -> ModelStep:
        """Return the next model step, with its dynamic ``uses``, context and snapshot resolved.

        Raises ``ContextError``, naming the contributor that failed, and ``DefinitionError`` if dynamic ``uses``
        conflict.
        """
        await self._run.settle()
        return ModelStep(self._run, await prompt_of(self._run, self.input))


class ModelStep:
    """One step of a model: its prompt, and its tools."""

    __slots__ = ("_prompt", "_run")

    def __init__(self, run: BlockRun, prompt: Prompt) -> None:
        self._run = run
        self._prompt = prompt

    @property
    def system_text(self) -> str:
        """The whole system text, including context."""
        return self._prompt.system_text

    @property
    def messages(self) -> tuple[ContextMessage, ...]:
        """The ready-made messages of the context, in addition to the system text."""
        return self._prompt.messages

    @property
    def model_settings(self) -> Mapping[str, Any]:
        """The model settings of the block and its capabilities."""
        return self._prompt.model_settings

    @property
    def snapshot(self) -> Snapshot:
        """The tools in play in this step, with the hashes for the records of its calls."""
        return self._prompt.snapshot

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | Json,
        *,
        cause: str | None = None,
        listener: Callable[[Message], None] | None = None,
    ) -> Result[Any]:
        """Call a tool at the model's request, and return the outcome, including refusals and failures.

        ``cause`` is the model's id of the call, which becomes the causation in its record. ``listener`` gets the events
        of the call, such as progress, and must not block. A result that is too long for a model is truncated: its data,
        or the error's message, is then a text that says so. If the result is content, its data is what the model reads,
        with media as files of the session.
        """
        if not isinstance(tool, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # runners may not be typed
            raise DefinitionError(f"a model calls a tool by its name; got {tool!r}")
        context = self._prompt.context
        call = nested_call(self._run, resolve_name(tool)(context), arguments, context, cause=cause)
        if listener is not None:
            call.stream = CallStream(listener=listener)
        return await self._execute(call)

    async def refuse(
        self, tool: str, arguments: Mapping[str, Any] | Json, error: CapsetError, *, cause: str | None = None
    ) -> Result[Any]:
        """Refuse and record a call that the model requested, and return the outcome."""
        context = self._prompt.context
        refused = refusing_tool(resolve_name(tool)(context), error)
        return await self._execute(nested_call(self._run, refused, arguments, context, cause=cause))

    async def _execute(self, call: Invocation) -> Result[Any]:
        context = self._prompt.context
        await execute(call)
        result = to_result(call, call.data)
        if (error := result.error) is None:
            data = result.data
            if result.content is not None:
                content = data if result.foreign is None else content_data(result.content)
                data = await media_as_files(context, call.id, content)
            truncated = await truncate_for_model(context, call.id, data)
            return replace(result, data=truncated.text if truncated.is_cut else data)
        truncated = await truncate_for_model(context, call.id, "\n".join([error.message, *map(str, error.fields)]))
        if not truncated.is_cut:
            return result
        truncated_error = error.copy()
        truncated_error.message, truncated_error.args, truncated_error.fields = truncated.text, (truncated.text,), ()
        return replace(result, error=truncated_error)
