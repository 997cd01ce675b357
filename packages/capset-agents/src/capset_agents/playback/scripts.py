"""Scripts: the answers of a model, step by step, written in Python or in a file (``--model script:FILE``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from pydantic_core import to_jsonable_python

from capset.definitions.tools.definition import AnyTool
from capset.errors import DefinitionError, InternalError
from capset.schemas.validation_errors import validation_fields


class ScriptError(InternalError):
    """Raised if a run does not match its script."""

    code = "script_error"


class Call:
    """A model step that calls a tool: ``Call("save_note", text="buy milk")``. The arguments are sent as JSON.

    ``tool`` is the tool's name in the session, or a ``Tool``, whose own name is used.
    """

    __slots__ = ("arguments", "tool")

    def __init__(self, tool: str | AnyTool, /, **arguments: object) -> None:
        self.tool = tool if isinstance(tool, str) else tool.name
        self.arguments = arguments

    def __repr__(self) -> str:
        return f"Call({', '.join([repr(self.tool), *(f'{name}={value!r}' for name, value in self.arguments.items())])})"


class Say:
    """The model step that ends a generator's run, with an output of any type."""

    __slots__ = ("output",)

    def __init__(self, output: object) -> None:
        self.output = output

    def __repr__(self) -> str:
        return f"Say({self.output!r})"


class Condition(BaseModel):
    """A condition on the newest result of a tool: whether it succeeded, and text that it contains or lacks."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tool: str | None = None
    """The tool whose newest result is checked; by default, any tool."""
    succeeded: bool | None = None
    contains: str | None = None
    lacks: str | None = None

    def matches(self, results: Sequence[ToolResult]) -> bool:
        """Return whether the condition matches ``results``, oldest first. Without any, only ``lacks`` can match."""
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
    """One tool call of a step. ``arguments`` is a mapping, or text that is sent unchanged, JSON or not."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tool: str
    arguments: dict[str, JsonValue] | str = Field(default_factory=dict)


class ScriptStep(BaseModel):
    """One answer of the model: reasoning, text, tool calls, or the structured output that ends the turn.

    An answer without tool calls ends the turn. The step is skipped unless ``when`` matches. ``repeat`` is the number of
    times that the answer is given.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    when: Condition | None = None
    reasoning: str | None = None
    text: str | None = None
    calls: list[ToolCall] = Field(default_factory=list[ToolCall])
    output: JsonValue = None
    fail: Literal["unavailable", "rate_limited", "rejected", "broken"] | None = None
    """Simulates a failure of the provider: unreachable, rate limited, request rejected, or answer unreadable."""
    repeat: Annotated[int, Field(ge=1, le=10_000)] = 1


class _ScriptShape(BaseModel):
    model_config = ConfigDict(extra="forbid")

    steps: list[ScriptStep] = Field(default_factory=list[ScriptStep])
    agents: dict[str, list[ScriptStep]] = Field(default_factory=dict[str, list[ScriptStep]])


@dataclass(frozen=True, slots=True)
class Script:
    """The steps of a model for each agent, by name; ``""`` has the steps for all other agents."""

    steps: Mapping[str, Sequence[ScriptStep]]
    name: str = "script"

    def steps_for(self, agent: str) -> tuple[ScriptStep, ...]:
        """Return the steps for an agent, with repeated ones. Raises ``ScriptError`` if there are none."""
        steps = self.steps.get(agent, self.steps.get(""))
        if steps is None:
            agents = ", ".join(self.steps) or "no agent"
            raise ScriptError(f"the script {self.name} has no steps for the agent {agent!r}; it is for: {agents}")
        return tuple(repeated_step for step in steps for repeated_step in [step] * step.repeat)


def script_from_moves(moves: Iterable[Call | Say | str | Sequence[Call] | ScriptStep]) -> Script:
    """Build a script from Python moves. Each call is one step; a list of calls is one step with all of them."""
    return Script({"": tuple(_step(move) for move in moves)})


def build_script(data: Any, where: str) -> Script:  # any value from a file
    """Build a script from plain data. ``where`` is its name in errors.

    The data has ``steps``, or ``agents`` with the steps of each agent by name. Raises ``DefinitionError``, naming each
    invalid field.
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
