"""The transcript of a conversation, built event by event."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, cast

from capset_server.console.transcripts.events import SessionEvent

EntryKind = Literal["reasoning", "text", "call", "approval", "notice"]
TurnState = Literal["running", "suspended", "ended", "failed", "cancelled"]
_FENCE: Final = re.compile(r"^ {0,3}```[^\n`]*$", re.MULTILINE)
_TEXTS: Final[Mapping[str, EntryKind]] = {"text.delta": "text", "reasoning.delta": "reasoning"}
_ENDS: Final[Mapping[str, TurnState]] = {
    "turn.ended": "ended",
    "turn.failed": "failed",
    "turn.cancelled": "cancelled",
    "turn.suspended": "suspended",
    "turn.resumed": "running",
    "turn.retried": "running",
}
_COUNTED: Final = ("input_tokens", "output_tokens", "cost")


@dataclass(slots=True, eq=False)
class TranscriptEntry:
    """An entry of a turn: reasoning, text, a call, an approval or a notice. ``key`` is its id in the page.

    Texts, reasoning and notices have a ``text``; it ``is_open`` while more of it may come. Calls and approvals have
    ``data``. ``result`` is that of a call, and ``request`` the approval request as REST returns it.
    """

    key: str
    seq: int
    kind: EntryKind
    at: str
    step: int = 0
    part: int = 0
    text: str = ""
    is_open: bool = False
    data: dict[str, Any] = field(default_factory=dict[str, Any])
    result: Mapping[str, Any] | None = None
    result_seq: int = 0
    request: Mapping[str, Any] | None = None

    @property
    def blocks(self) -> list[tuple[bool, str]]:
        """The text in blocks: of each, whether it is fenced code, and its text."""
        parts = _FENCE.split(self.text)
        return [(number % 2 == 1, part.strip("\n")) for number, part in enumerate(parts) if part.strip()]


@dataclass(slots=True, eq=False)
class TranscriptTurn:
    """A turn: its prompt, if known, its entries, its end, and its usage.

    ``first`` is the number of its first event that is shown, and ``is_whole`` whether its start is shown.
    ``is_kept`` is false once the conversation has no message of the turn, such as after a rewind.
    """

    id: str
    at: str
    first: int
    state: TurnState = "running"
    prompt: str | None = None
    is_kept: bool = True
    is_whole: bool = False
    asked: int = 0
    version: int | None = None
    entries: list[TranscriptEntry] = field(default_factory=list[TranscriptEntry])
    used: dict[str, float] = field(default_factory=dict[str, float])
    durations: dict[str, int] = field(default_factory=dict[str, int])
    """The duration of each call in microseconds, by the id of its record."""
    ended_at: str = ""
    end: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def is_over(self) -> bool:
        """Whether the turn has ended."""
        return self.state in ("ended", "failed", "cancelled")

    @property
    def has_text(self) -> bool:
        """Whether the model has answered in text, which the turn's output repeats."""
        return any(entry.kind == "text" for entry in self.entries)

    @property
    def seconds(self) -> float:
        """The duration, including the time spent waiting; 0 if the turn has not ended."""
        if not (self.at and self.ended_at):
            return 0
        return (datetime.fromisoformat(self.ended_at) - datetime.fromisoformat(self.at)).total_seconds()


@dataclass(slots=True)
class Changes:
    """The changes to a page that one event makes."""

    turn: TranscriptTurn | None = None
    is_new_turn: bool = False
    is_foot: bool = False
    added: list[TranscriptEntry] = field(default_factory=list[TranscriptEntry])
    changed: list[TranscriptEntry] = field(default_factory=list[TranscriptEntry])
    removed: list[TranscriptEntry] = field(default_factory=list[TranscriptEntry])
    appended: tuple[TranscriptEntry, str] | None = None
    todos: bool = False


class Transcript:
    """The turns of a session by id, oldest first, and the agent's to-do list if it keeps one."""

    def __init__(self) -> None:
        self.turns: dict[str, TranscriptTurn] = {}
        self.todos: list[dict[str, str]] | None = None
        self.gap: tuple[int, int] | None = None
        self.last = 0

    @property
    def newest(self) -> TranscriptTurn | None:
        """The newest turn."""
        return next(reversed(self.turns.values()), None)

    def add(self, event: SessionEvent) -> Changes:
        """Add an event, and return the changes."""
        self.last = max(self.last, event.seq)
        changes = Changes()
        if event.type == "gap":
            self.gap = (event.data["after"] + 1, event.data["last"])
            return changes
        turn = self.turns.get(event.turn)
        if turn is None:
            turn = self.turns[event.turn] = TranscriptTurn(event.turn, event.at, event.seq)
            changes.is_new_turn = True
        changes.turn = turn
        if event.todos is not None:
            self.todos, changes.todos = event.todos, True
        kind = _TEXTS.get(event.type)
        if kind is not None:
            _add_text(turn, event, kind, changes)
            return changes
        _close(turn, changes)
        if event.type in _ENDS:
            _end(turn, event, changes)
        else:
            _add_other(turn, event, changes)
        return changes


def _add_text(turn: TranscriptTurn, event: SessionEvent, kind: EntryKind, changes: Changes) -> None:
    data = event.data
    last = turn.entries[-1] if turn.entries else None
    is_same = (
        last is not None
        and last.is_open
        and (last.kind, last.step, last.part)
        == (
            kind,
            data["step"],
            data["part"],
        )
    )
    if last is not None and is_same:
        last.text += data["text"]
        changes.appended = (last, data["text"])
        return
    _close(turn, changes)
    entry = _entry(event, kind, step=data["step"], part=data["part"], text=data["text"], is_open=True)
    _add(turn, entry, changes)


def _add_other(turn: TranscriptTurn, event: SessionEvent, changes: Changes) -> None:
    data = event.data
    match event.type:
        case "turn.started":
            turn.is_whole, turn.version, changes.is_foot = True, data.get("agent_version"), True
        case "text.discarded":
            _discard(turn, data["step"], changes)
            _notice(turn, event, "The answer was interrupted: the model is asked again.", changes)
        case "tool.called" | "approval.requested":
            kind: EntryKind = "call" if event.type == "tool.called" else "approval"
            if kind == "call" or all(entry.data.get("id") != data["id"] for entry in turn.entries):
                _add(turn, _entry(event, kind, data=dict(data)), changes)
        case "tool.progress" | "tool.result" | "tool.executed":
            _add_to_call(turn, event, changes)
        case "usage":
            for name in _COUNTED:
                if isinstance(value := data.get(name), int | float):
                    turn.used[name] = turn.used.get(name, 0) + value
            changes.is_foot = True
        case "conversation.summarised":
            text = f"The conversation was long: the model continues from a summary of {data.get('messages')} messages."
            _notice(turn, event, text, changes)
        case _:
            pass


def _discard(turn: TranscriptTurn, step: int, changes: Changes) -> None:
    """Remove the text and reasoning of the newest step."""
    while turn.entries and turn.entries[-1].kind in ("text", "reasoning") and turn.entries[-1].step == step:
        changes.removed.append(turn.entries.pop())
    changes.changed = [entry for entry in changes.changed if entry not in changes.removed]


def _add_to_call(turn: TranscriptTurn, event: SessionEvent, changes: Changes) -> None:
    data = event.data
    calls = [call for call in turn.entries if call.kind == "call"]
    if event.type == "tool.executed":  # comes before or after the result, which has the record of the call
        turn.durations[data["record"]] = data["duration_us"]
        changes.changed += [call for call in calls if call.data.get("record") == data["record"]]
        return
    entry = next((call for call in reversed(calls) if call.data["call"] == data["call"]), None)
    if entry is None:  # the event of the call is no longer stored
        entry = _entry(event, "call", data={"call": data["call"], "tool": data["tool"]})
        _add(turn, entry, changes)
    else:
        changes.changed.append(entry)
    if event.type == "tool.progress":
        entry.data |= {"fraction": data.get("fraction"), "message": data.get("message")}
    else:
        entry.result, entry.result_seq = data, event.seq
        entry.data["record"] = data.get("record")


def _end(turn: TranscriptTurn, event: SessionEvent, changes: Changes) -> None:
    turn.state = _ENDS[event.type]
    turn.end, changes.is_foot = event.data, True
    turn.ended_at = event.at if turn.is_over else ""
    changes.changed += [
        entry for entry in turn.entries if entry.kind == "approval" or (entry.kind == "call" and not entry.result)
    ]
    if event.type == "turn.resumed":
        changed = " The tools in play have changed since." if event.data.get("changed") else ""
        taken = " Another server has taken it over." if event.data.get("takeovers") else ""
        if changed or taken:
            _notice(turn, event, f"The turn continues.{changed}{taken}", changes)
    elif event.type == "turn.retried":
        _notice(turn, event, "The turn is retried.", changes)


def _close(turn: TranscriptTurn, changes: Changes) -> None:
    """Close the open text, so that it is rendered as a whole."""
    if turn.entries and turn.entries[-1].is_open:
        turn.entries[-1].is_open = False
        changes.changed.append(turn.entries[-1])


def _notice(turn: TranscriptTurn, event: SessionEvent, text: str, changes: Changes) -> None:
    _add(turn, _entry(event, "notice", text=text), changes)


def _add(turn: TranscriptTurn, entry: TranscriptEntry, changes: Changes) -> None:
    turn.entries.append(entry)
    changes.added.append(entry)


def _entry(event: SessionEvent, kind: EntryKind, **members: Any) -> TranscriptEntry:
    return TranscriptEntry(f"entry-{event.seq}", event.seq, kind, event.at, **members)


def prompt_text(message: Mapping[str, Any]) -> str | None:
    """Return the user prompt in a message of a conversation, ``None`` if it has none."""
    parts = cast("list[dict[str, Any]]", message.get("parts") or [])
    contents = [part.get("content") for part in parts if part.get("part_kind") == "user-prompt"]
    pieces = [
        _piece(piece)
        for content in contents
        for piece in cast("list[Any]", content if isinstance(content, list) else [content])
    ]
    return "\n".join(pieces) if pieces else None


def _piece(content: Any) -> str:  # a text, or the model library's data for an image or the like
    if isinstance(content, dict):
        about = cast("dict[str, Any]", content)
        return f"[{about.get('media_type') or about.get('kind') or 'data'}]"
    return str(content)
