"""The events of a turn as the items that front ends show: texts, calls with their results, and how it stopped."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import astuple, dataclass, field, fields
from operator import add
from typing import Any, Final, Literal, TypeAlias

from pydantic_core import from_json, to_json

from capset.stores.base import EventRow

CANCELLED: Final = 409
"""The HTTP status of the response for a cancelled turn."""


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of one part's text, from the answer or from the model's reasoning."""

    kind: Literal["text", "reasoning"]
    part: tuple[int, int]
    """The number of the step, and of the part within it."""
    text: str


@dataclass(slots=True)
class ToolUse:
    """A call that the model requested."""

    id: str
    tool: str
    arguments: str
    """JSON, as the model wrote it."""
    approval: str | None = None
    """The id of the approval request that it waits or waited for."""
    success: bool | None = None
    """``None`` while it has no result."""
    output: Any = None  # JSON data: the result, or the text of an error


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """The progress of a running call: the data of its event."""

    data: dict[str, Any]  # JSON data


@dataclass(frozen=True, slots=True)
class TextDiscarded:
    """The texts of the current step are discarded: the model's answer broke off and is requested again."""

    step: int


@dataclass(frozen=True, slots=True)
class ApprovalAsked:
    """An approval request that the turn waits for: the data of its event, and the calls that it is for."""

    data: dict[str, Any]  # JSON data
    uses: tuple[ToolUse, ...]


@dataclass(frozen=True, slots=True)
class StepUsage:
    """The tokens of one or more steps. It comes after all calls of its step."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    """Input tokens read from the provider's cache."""
    cache_write_tokens: int = 0
    """Input tokens written to the provider's cache."""
    reasoning_tokens: int = 0
    """Output tokens spent on reasoning, if the provider reports them."""

    def __add__(self, other: StepUsage) -> StepUsage:
        return StepUsage(*map(add, astuple(self), astuple(other)))


@dataclass(frozen=True, slots=True)
class Stop:
    """The end of a turn, or the point at which it waits. The last three fields describe an error."""

    status: Literal["completed", "waiting", "failed", "cancelled"]
    code: str = ""
    message: str = ""
    http_status: int = 0


Item: TypeAlias = Text | TextDiscarded | ToolUse | ToolProgress | ApprovalAsked | StepUsage | Stop


@dataclass(slots=True)
class TurnItems:
    """Converts the events of a turn to items, one by one from its first."""

    uses: dict[str, ToolUse] = field(default_factory=dict[str, ToolUse])
    """All calls so far, by the model's ids for them."""
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """The approval requests since the turn last waited, as the data of their events."""
    texts: int = 0
    """The number of pieces of the answer's text since the last call."""
    connect_url: Callable[[str], str] | None = None
    """Returns the URL of the page of a connection, if there are pages."""

    def read(self, row: EventRow) -> Generator[Item]:
        """Yield the items of an event. A call comes twice: without and with its result."""
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
                yield from self._suspended(data["calls"], row.seq)
            case "turn.ended":
                output = data["output"]
                if output is not None and not (self.texts and isinstance(output, str)):  # it was not streamed as text
                    yield Text("text", (row.seq, 0), _plain(output))
                yield Stop("completed")
            case "turn.failed":
                error = data["error"]
                yield Stop("failed", error["code"], error["message"], error["status"])
            case "turn.cancelled":
                yield Stop("cancelled", "cancelled", f"The turn was cancelled by {data['by']}", CANCELLED)
            case _:
                pass  # these protocols have no equivalent for other events

    def _text(self, type: str, data: Mapping[str, Any]) -> Item:
        if type == "text.discarded":
            self.texts = 0
            return TextDiscarded(data["step"])
        self.texts += type == "text.delta"
        return Text("text" if type == "text.delta" else "reasoning", (data["step"], data["part"]), data["text"])

    def _suspended(self, calls: Mapping[str, str], seq: int) -> Generator[Item]:
        for call, approval in calls.items():
            if call in self.uses:
                self.uses[call].approval = approval
        requests, self.asked = self.asked, []
        for number, request in enumerate(requests):
            if (connection := request.get("connect")) is not None:
                yield Text("text", (seq, number), self._invitation(connection))
                continue
            yield ApprovalAsked(request, tuple(use for use in self.uses.values() if use.approval == request["id"]))
        yield Stop("waiting")

    def _invitation(self, connection: str) -> str:
        """Return the text that asks the user to connect something; these protocols have no other form for that."""
        where = f" at {self.connect_url(connection)}" if self.connect_url else f": capset connect {connection}"
        return f"\n\nConnect {connection}{where}. Then this continues by itself."

    def _use(self, call: str, tool: str, arguments: Any) -> ToolUse:  # JSON data, or text that is not JSON
        text = arguments if isinstance(arguments, str) else to_json(arguments).decode()
        use = self.uses[call] = ToolUse(call, tool, text)
        self.texts = 0
        return use


def _plain(output: Any) -> str:  # JSON data
    return output if isinstance(output, str) else to_json(output).decode()
