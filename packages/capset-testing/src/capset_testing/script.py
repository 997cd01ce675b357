"""A generator's runner that follows a script instead of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_json

from capset.definitions.calls.messages import Json
from capset.definitions.model_context import ContextMessage
from capset.errors import counted
from capset.kernel.blocks.generation import ModelStep, Turn
from capset.kernel.results import Result
from capset_agents.playback.scripts import Call, Say, ScriptError


@dataclass(frozen=True, slots=True)
class StepInput:
    """The input of a model in one step.

    ``tools`` are the names of the tools in play, ``results`` the results of the run's calls so far. ``input`` and the
    values of ``model_settings`` have the types that their definitions declare.
    """

    generator: str
    input: Any
    system_text: str
    messages: tuple[ContextMessage, ...]
    tools: tuple[str, ...]
    runtime_hash: str
    prompt_hash: str
    model_settings: Mapping[str, Any]
    results: tuple[Result[Any], ...]


Move = Call | Say | Callable[[StepInput], Call | Say]
"""A step of a script. A function chooses it from the model's input."""


class ScriptedRunner:
    """Runs generators by their scripts: ``ScriptedRunner({"scribe": [Call("save_note", text="milk"), Say("done")]})``.

    A ``Say`` ends one run of the generator; the next run continues the script from there. ``steps`` has every model
    step, in order. A mismatch raises ``ScriptError``.
    """

    def __init__(self, scripts: Mapping[str, Iterable[Move]]) -> None:
        """``scripts`` are keyed by the names of generators or agents."""
        self._remaining: dict[str, list[Move]] = {name: list(moves) for name, moves in scripts.items()}
        self.steps: list[StepInput] = []

    async def run(self, turn: Turn) -> Any:  # any output of the script: the generator checks it
        """Follow the script of a generator to its next ``Say``. Every step sees what a model would see."""
        if turn.name not in self._remaining:
            names = ", ".join(self._remaining) or "none"
            raise ScriptError(f"the script has no steps for the generator {turn.name!r}; it is for: {names}")
        results: list[Result[Any]] = []
        while True:
            step = await turn.step()
            step_input = _step_input(turn, step, results)
            self.steps.append(step_input)
            move = self._next(step_input)
            if isinstance(move, Say):
                return move.output
            result = await step.call(move.tool, Json(to_json(move.arguments)))
            if isinstance(result.error, ScriptError):  # from a nested generator: a model must not ignore it
                raise result.error
            results.append(result)

    def steps_of(self, generator: str) -> list[StepInput]:
        """Return the steps of one generator."""
        return [step for step in self.steps if step.generator == generator]

    def assert_done(self) -> None:
        """Raise ``ScriptError`` if a part of the script was not reached."""
        remaining = {name: moves for name, moves in self._remaining.items() if moves}
        if remaining:
            steps = "; ".join(f"{name}: {', '.join(map(repr, moves))}" for name, moves in remaining.items())
            raise ScriptError(f"these steps of the script were not reached: {steps}")

    def _next(self, step_input: StepInput) -> Call | Say:
        moves = self._remaining[step_input.generator]
        if not moves:
            raise ScriptError(
                f"the script of {step_input.generator!r} is over, and no Say ended this run; it had "
                f"{counted(len(step_input.results), 'call')}"
            )
        move = moves.pop(0)
        chosen = move if isinstance(move, Call | Say) else move(step_input)
        if not isinstance(chosen, Call | Say):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped callers
            raise ScriptError(f"a step of a script is a Call or a Say; {step_input.generator!r} has {chosen!r}")
        return chosen


def _step_input(turn: Turn, step: ModelStep, results: list[Result[Any]]) -> StepInput:
    snapshot = step.snapshot
    return StepInput(
        turn.name,
        turn.input,
        step.system_text,
        step.messages,
        tuple(snapshot.tools),
        snapshot.runtime_hash,
        snapshot.prompt_hash,
        step.model_settings,
        tuple(results),
    )
