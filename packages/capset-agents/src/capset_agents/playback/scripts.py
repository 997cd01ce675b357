"""Scripts: what a model is to do, step by step, written in Python or in a file (``--model script:FILE``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from pydantic_core import to_jsonable_python

from capset.definitions.tools.definition import AnyTool
from capset.errors import DefinitionError, InternalError
from capset.schemas.validation_errors import validation_fields


class ScriptError(InternalError):
    """Raised if the events and the script do not match."""

    code = "script_error"


class Call:
    """A model step that calls a tool: ``Call("save_note", text="buy milk")``. The arguments travel as JSON.

    The tool is given by its name there, or as the ``Tool`` itself, which stands for its own name.
    """

    __slots__ = ("arguments", "tool")

    def __init__(self, tool: str | AnyTool, /, **arguments: object) -> None:
        self.tool = tool if isinstance(tool, str) else tool.name
        self.arguments = arguments

    def __repr__(self) -> str:
        return f"Call({', '.join([repr(self.tool), *(f'{name}={value!r}' for name, value in self.arguments.items())])})"


class Say:
    """The model step that ends a run of the generator, with its output (of any type)."""

    __slots__ = ("output",)

    def __init__(self, output: object) -> None:
        self.output = output

    def __repr__(self) -> str:
        return f"Say({self.output!r})"


class Condition(BaseModel):
    """A condition on the newest result of a tool: that it succeeded or not, and texts that it contains or not."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tool: str | None = None
    """Only the newest result of this tool counts; of any tool if left out."""
    succeeded: bool | None = None
    contains: str | None = None
    lacks: str | None = None

    def holds(self, results: Sequence[ToolResult]) -> bool:
        """Return whether it holds after these results, the newest last; without any, only ``lacks`` can hold."""
        newest = next((tool_result for tool_result in reversed(results) if self.tool in (None, tool_result.tool)), None)
        if newest is None:
            return self.succeeded is None and self.contains is None
        return (
            self.succeeded in (None, newest.succeeded)
            and (self.contains is None or self.contains in newest.text)
            and (self.lacks is None or self.lacks not in newest.text)
        )


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A result that a model has read: the tool's name, the text, and whether the call succeeded."""

    tool: str
    text: str
    succeeded: bool


class ToolCall(BaseModel):
    """One tool call of a step. ``arguments`` is a mapping, or a text that is sent as it is, JSON or not."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tool: str
    arguments: dict[str, JsonValue] | str = Field(default_factory=dict)


class ScriptStep(BaseModel):
    """One answer of the model: reasoning, text, tool calls, or the structured output that ends the turn.

    An answer without tool calls ends the turn. ``when`` skips the step unless it holds; ``repeat`` gives the same
    answer so many times.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    when: Condition | None = None
    reasoning: str | None = None
    text: str | None = None
    calls: list[ToolCall] = Field(default_factory=list[ToolCall])
    output: JsonValue = None
    fail: Literal["unavailable", "rate_limited", "rejected", "broken"] | None = None
    """Fail as a provider does: it cannot be reached, refuses for now or for good, or its answer makes no sense."""
    repeat: Annotated[int, Field(ge=1, le=10_000)] = 1


class _ScriptShape(BaseModel):
    model_config = ConfigDict(extra="forbid")

    steps: list[ScriptStep] = Field(default_factory=list[ScriptStep])
    agents: dict[str, list[ScriptStep]] = Field(default_factory=dict[str, list[ScriptStep]])


@dataclass(frozen=True, slots=True)
class Script:
    """The steps of a model by the agent that it works for; ``""`` has those for every other agent."""

    steps: Mapping[str, Sequence[ScriptStep]]
    name: str = "script"
    flat: Mapping[str, tuple[ScriptStep, ...]] = field(init=False)

    def __post_init__(self) -> None:
        """Write each step as often as it is repeated."""
        flat = {
            agent: tuple(repeated_step for step in steps for repeated_step in [step] * step.repeat)
            for agent, steps in self.steps.items()
        }
        object.__setattr__(self, "flat", flat)

    def of(self, agent: str) -> tuple[ScriptStep, ...]:
        """Return the steps for an agent. Raises ``ScriptError`` if there are none."""
        agent_steps = self.flat.get(agent, self.flat.get(""))
        if agent_steps is None:
            agents = ", ".join(self.flat) or "no agent"
            raise ScriptError(f"the agent {agent!r} ran, and the script {self.name} is for: {agents}")
        return agent_steps


def script_of(moves: Iterable[Call | Say | str | Sequence[Call] | ScriptStep]) -> Script:
    """Return a script from moves in Python: each call is one step, a list of calls is a step with all of them."""
    return Script({"": tuple(_step(move) for move in moves)})


def build_script(data: Any, where: str) -> Script:  # any value from a file
    """Return the script that plain data describes; ``where`` names it in errors.

    It holds ``steps``, or ``agents`` with the steps of each by its name. Raises ``DefinitionError``, naming each field
    that does not fit.
    """
    try:
        shape = _ScriptShape.model_validate(data)
    except ValidationError as error:
        fields = validation_fields(error, list(_ScriptShape.model_fields), data if isinstance(data, dict) else {})
        raise DefinitionError(f"{where}: not a script: " + "; ".join(map(str, fields)), fields=fields) from None
    return Script({**shape.agents, **({"": shape.steps} if shape.steps or not shape.agents else {})}, where)


def _step(move: Call | Say | str | Sequence[Call] | ScriptStep) -> ScriptStep:
    if isinstance(move, ScriptStep):
        return move
    if isinstance(move, str):
        return ScriptStep(text=move)
    if isinstance(move, Say):
        return (
            ScriptStep(text=move.output)
            if isinstance(move.output, str)
            else ScriptStep(output=to_jsonable_python(move.output))
        )
    calls = [move] if isinstance(move, Call) else list(move)
    return ScriptStep(calls=[ToolCall(tool=call.tool, arguments=to_jsonable_python(call.arguments)) for call in calls])
