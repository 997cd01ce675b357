"""The time line of a turn: its model steps, tool calls and waits as bars, built from its events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from capset_server.console.transcripts.events import SessionEvent

WIDTH: Final = 1_000
"""The width of the whole chart, in its own units."""
ROW: Final = 26
TITLES: Final = 240
"""The width of the titles to the left of the bars."""
_MOST: Final = 200
"""Maximum number of bars in a chart, and of rows in its table."""
BarKind = Literal["model", "call", "wait"]


@dataclass(slots=True)
class Bar:
    """One model step, tool call or wait; times are in seconds since the turn began."""

    kind: BarKind
    title: str
    begin: float
    end: float
    record: str | None = None
    success: bool = True
    note: str = ""

    @property
    def seconds(self) -> float:
        """The duration."""
        return max(0.0, self.end - self.begin)


@dataclass(frozen=True, slots=True)
class TimeLine:
    """The bars of a turn in order, and its duration so far."""

    bars: Sequence[Bar]
    seconds: float
    left_out: int = 0
    rows: Sequence[tuple[Bar, float, float, int]] = field(default_factory=tuple[tuple[Bar, float, float, int]])
    """Each bar with its x position, its width and its y position, in the units of the chart."""

    @property
    def height(self) -> int:
        """The height of the chart."""
        return ROW * len(self.rows) + 4


def timeline_of(events: Sequence[SessionEvent]) -> TimeLine:
    """Return the time line of a turn, given its events in order.

    The duration of a call is that of its handler, if it is known. All other times are exact to a tenth of a second,
    because events are stored in batches.
    """
    builder = _Builder(datetime.fromisoformat(events[0].at))
    for event in events:
        builder.add(event)
    bars = builder.finished()
    visible = bars[:_MOST]
    return TimeLine(visible, builder.now, len(bars) - len(visible), _rows(visible, builder.now))


class _Builder:
    """Builds the bars of a turn, event by event."""

    def __init__(self, began: datetime) -> None:
        self.now = 0.0
        self._began = began
        self._bars: list[Bar] = []
        self._steps: dict[int, Bar] = {}
        self._count = 0
        self._calls: dict[str, Bar] = {}
        self._durations: dict[str, float] = {}
        self._wait: Bar | None = None
        self._idle = 0.0
        """Where the next step begins: the end of the last step, call or wait."""

    def add(self, event: SessionEvent) -> None:
        self.now = (datetime.fromisoformat(event.at) - self._began).total_seconds()
        match event.type:
            case "text.delta" | "reasoning.delta" | "usage":
                self._add_step(event)
            case "tool.called" | "tool.executed" | "tool.result":
                self._add_call(event)
            case "turn.suspended":
                self._wait = self._add(Bar("wait", "waits for an approval", self.now, self.now))
            case "turn.resumed" | "turn.retried":  # step numbers restart at 1
                self._end_wait()
                self._steps.clear()
                self._idle = self.now
            case _:
                pass

    def finished(self) -> list[Bar]:
        """Return the bars, ordered by their start."""
        self._end_wait()
        for bar in self._bars:
            if bar.record is not None and (exact := self._durations.get(bar.record)) is not None:
                bar.begin = max(bar.begin, bar.end - exact)
        return sorted(self._bars, key=lambda bar: bar.begin)

    def _add(self, bar: Bar) -> Bar:
        self._bars.append(bar)
        return bar

    def _end_wait(self) -> None:
        if self._wait is not None:
            self._wait.end, self._wait = self.now, None

    def _add_step(self, event: SessionEvent) -> None:
        number = event.data["step"]
        if number not in self._steps:
            self._count += 1
            self._steps[number] = self._add(Bar("model", f"model, step {self._count}", self._idle, self._idle))
        step = self._steps[number]
        step.end = self.now
        if event.type == "usage":
            step.note = _tokens(event.data)
            self._idle = self.now

    def _add_call(self, event: SessionEvent) -> None:
        data = event.data
        if event.type == "tool.executed":
            self._durations[data["record"]] = data["duration_us"] / 1e6
        elif event.type == "tool.called":
            self._calls[data["call"]] = self._add(Bar("call", data["tool"], self.now, self.now))
        elif (call := self._calls.get(data["call"])) is not None:
            call.end, call.record, call.success = self.now, data.get("record"), bool(data.get("success"))
            call.note = "" if call.success else str(data.get("code") or "failed")
            self._idle = self.now


def _tokens(data: Mapping[str, object]) -> str:
    return f"{data.get('input_tokens', 0)} tokens in, {data.get('output_tokens', 0)} out"


def _rows(bars: Sequence[Bar], seconds: float) -> list[tuple[Bar, float, float, int]]:
    scale = (WIDTH - TITLES) / max(seconds, 0.001)
    return [
        (bar, round(TITLES + bar.begin * scale, 1), max(3.0, round(bar.seconds * scale, 1)), number * ROW + 4)
        for number, bar in enumerate(bars)
    ]
