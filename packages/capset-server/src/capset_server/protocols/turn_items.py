"""The events of a turn, put together again to what front ends show: texts, calls with their results, and an ending."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import astuple, dataclass, field, fields
from operator import add
from typing import Any, Final, Literal, TypeAlias

from pydantic_core import from_json, to_json

from capset.stores.base import EventRow

CANCELLED: Final = 409
"""The HTTP status of an answer whose turn was cancelled."""


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of the text of one part: of the answer, or of the model's reasoning."""

    kind: Literal["text", "reasoning"]
    part: tuple[int, int]
    """The number of the step, and that of the part in it."""
    text: str


@dataclass(slots=True)
class ToolUse:
    """A call that the model asked for."""

    id: str
    tool: str
    arguments: str
    """JSON, as the model wrote it."""
    approval: str | None = None
    """The request that it waits for, or has waited for."""
    success: bool | None = None
    """``None`` while it has no result."""
    output: Any = None  # JSON data: the result, or the text of an error


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """The progress of a call that is running, as its event describes it."""

    data: dict[str, Any]  # JSON data


@dataclass(frozen=True, slots=True)
class TextDiscarded:
    """The texts of the present step are void: the model's answer broke off, and is asked for again."""

    step: int


@dataclass(frozen=True, slots=True)
class ApprovalAsked:
    """A request for an approval that the turn waits for, as its event describes it; ``uses`` are the calls."""

    data: dict[str, Any]  # JSON data
    uses: tuple[ToolUse, ...]


@dataclass(frozen=True, slots=True)
class StepUsage:
    """The tokens of one step, or of several. All calls of a step came before."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    """Those of the input that the provider had kept."""
    cache_write_tokens: int = 0
    """Those of the input that the provider keeps from now on."""
    reasoning_tokens: int = 0
    """Those of the output that are reasoning, where the provider says so."""

    def __add__(self, other: StepUsage) -> StepUsage:
        return StepUsage(*map(add, astuple(self), astuple(other)))


@dataclass(frozen=True, slots=True)
class Stop:
    """Where the turn ended or waits: ``code``, ``message`` and the HTTP ``http_status`` are those of an error."""

    status: Literal["completed", "waiting", "failed", "cancelled"]
    code: str = ""
    message: str = ""
    http_status: int = 0


Item: TypeAlias = Text | TextDiscarded | ToolUse | ToolProgress | ApprovalAsked | StepUsage | Stop


@dataclass(slots=True)
class TurnItems:
    """Reads the events of a turn one by one, from its first."""

    uses: dict[str, ToolUse] = field(default_factory=dict[str, ToolUse])
    """All calls so far, by the model's ids."""
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """The requests for approvals since the turn went on, as their events describe them."""
    texts: int = 0
    """How many answers there are since the last call."""

    def read(self, row: EventRow) -> Generator[Item]:
        """Yield what an event adds; a call comes twice, without and with its result."""
        data: dict[str, Any] = from_json(row.data)
        match row.type:
            case "text.delta" | "reasoning.delta" | "text.discarded":
                yield self._text(row.type, data)
            case "tool.called":
                yield self._use(data["call"], data["tool"], data["arguments"])
            case "tool.progress":
                yield ToolProgress(data)
            case "tool.result":
                use = self.uses.get(data["call"]) or self._use(data["call"], data["tool"], {})
                use.success, use.output = data["success"], data["data"] if data["success"] else data["text"]
                self.texts = 0
                yield use
            case "approval.requested":
                self.asked.append(data)
            case "usage":
                yield StepUsage(
                    **{usage_field.name: data.get(usage_field.name, 0) for usage_field in fields(StepUsage)}
                )
            case "turn.suspended":
                yield from self._suspended(data["calls"])
            case "turn.ended":
                output = data["output"]
                if output is not None and not (self.texts and isinstance(output, str)):  # what was not told as text
                    yield Text("text", (row.seq, 0), _plain(output))
                yield Stop("completed")
            case "turn.failed":
                error = data["error"]
                yield Stop("failed", error["code"], error["message"], error["status"])
            case "turn.cancelled":
                yield Stop("cancelled", "cancelled", f"The turn was cancelled by {data['by']}", CANCELLED)
            case _:
                pass  # the others tell of what these protocols have no words for

    def _text(self, type: str, data: Mapping[str, Any]) -> Item:
        if type == "text.discarded":
            self.texts = 0
            return TextDiscarded(data["step"])
        self.texts += type == "text.delta"
        return Text("text" if type == "text.delta" else "reasoning", (data["step"], data["part"]), data["text"])

    def _suspended(self, calls: Mapping[str, str]) -> Generator[Item]:
        for call, approval in calls.items():
            if call in self.uses:
                self.uses[call].approval = approval
        requests, self.asked = self.asked, []
        for request in requests:
            yield ApprovalAsked(request, tuple(use for use in self.uses.values() if use.approval == request["id"]))
        yield Stop("waiting")

    def _use(self, call: str, tool: str, arguments: Any) -> ToolUse:  # JSON data, or text that is none
        text = arguments if isinstance(arguments, str) else to_json(arguments).decode()
        use = self.uses[call] = ToolUse(call, tool, text)
        self.texts = 0
        return use


def _plain(output: Any) -> str:  # JSON data
    return output if isinstance(output, str) else to_json(output).decode()
