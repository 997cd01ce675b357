"""The turn of a generator's runner: the prompt of each step, and calls of its tools (spec 1, C37)."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from capset.definitions.agents import Agent
from capset.definitions.messages import Json
from capset.definitions.model_context import ContextMessage
from capset.errors import DefinitionError
from capset.evaluation.snapshot.snapshot import Snapshot
from capset.kernel.call.dispatch import nested_call, resolve_name, to_result
from capset.kernel.call.pipeline import execute
from capset.kernel.call.prompt import Prompt, prompt_of
from capset.kernel.call.truncation import truncate_for_model
from capset.kernel.results import Result
from capset.schemas.schema import Schema

if TYPE_CHECKING:
    from capset.kernel.blocks.runs import BlockRun


class GeneratorRunner(Protocol):
    """Runs the model steps of generators. It is passed to the kernel, which has no model of its own."""

    async def run(self, turn: Turn) -> Any:  # of the type that the generator declares as its output
        """Run a turn to its end and return its output."""
        ...


class Turn:
    """One run of a generator: its input, the schema of its output, and its steps."""

    __slots__ = ("_run", "input", "output")

    def __init__(self, run: BlockRun, input: Any, output: Schema | None) -> None:
        """``input`` is of the generator's own type; ``output`` is ``None`` if any text is valid."""
        self._run = run
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
        """The whole system text, context included."""
        return self._prompt.system_text

    @property
    def messages(self) -> tuple[ContextMessage, ...]:
        """The ready-made messages of the context, beside the system text."""
        return self._prompt.messages

    @property
    def model_settings(self) -> Mapping[str, Any]:
        """The model settings of the block and its capabilities."""
        return self._prompt.model_settings

    @property
    def snapshot(self) -> Snapshot:
        """The tools in play in this step, with the hashes for the records of its calls."""
        return self._prompt.context.snapshot

    async def call(self, tool: str, arguments: Mapping[str, Any] | Json) -> Result[Any]:
        """Call a tool at the model's request, and return the outcome, refusals and failures too.

        A result that is too long for a model is truncated: its data, or the error's message, is then a text that says
        so.
        """
        if not isinstance(tool, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # runners may not be typed
            raise DefinitionError(f"a model calls a tool by its name; got {tool!r}")
        context = self._prompt.context
        call = nested_call(self._run, resolve_name(tool)(context), arguments, context)
        await execute(call)
        result = to_result(call, call.data)
        if (error := result.error) is None:
            given = await truncate_for_model(context, call.id, result.data)
            return replace(result, data=given.text) if given.is_cut else result
        given = await truncate_for_model(context, call.id, "\n".join([error.message, *map(str, error.fields)]))
        if not given.is_cut:
            return result
        told = copy(error)
        told.message, told.args, told.fields = given.text, (given.text,), ()
        return replace(result, error=told)
