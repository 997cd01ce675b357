"""The events of a session as REST tells them, with long values cut off for pages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from capset_server.console.api import Api
from capset_server.console.markup import shorten

SHOWN: Final = 2_000
"""Characters of one argument, result or output that a conversation shows; the whole is one link away."""
_LARGE: Final = 256 * 1024
"""Events above this size are read on a thread."""
_VALUES: Final = ("arguments", "data", "output")
TODOS: Final = "write_todos"
"""The tool whose newest list is the state of the work: it is stored nowhere but in the conversation."""


@dataclass(frozen=True, slots=True)
class ValuePreview:
    """A value as a page shows it: ``text``, cut off if ``is_cut``, of ``size`` characters as JSON."""

    text: str
    is_cut: bool
    size: int


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """An event, its long values as previews; of a ``gap``, ``seq`` is the number of the last event that is missing.

    ``todos`` is the list that the call of ``write_todos`` accepted.
    """

    seq: int
    turn: str
    type: str
    at: str
    data: Mapping[str, Any]
    todos: list[dict[str, str]] | None = None


def preview(value: object, limit: int = SHOWN) -> ValuePreview:
    """Return a value as a page shows it, cut off after so many characters; a text as it is, other data as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    size = len(text)
    if not isinstance(value, str) and size <= limit:
        text = json.dumps(value, indent=2, ensure_ascii=False)
    return ValuePreview(shorten(text, limit), size > limit, size)


async def session_events(
    api: Api, session: str, *, after: int = 0, newest: int | None = None, follow: bool = False
) -> AsyncGenerator[SessionEvent | None]:
    """Yield a session's events after a number, or so many of the newest, and those that come. Raises ``RestRefusal``.

    ``None`` comes first, and from time to time. With ``follow`` it ends with the session, the server, or the sign-in.
    """
    query = {"after": after, "newest": newest, "follow": follow}
    async with aclosing(api.stream("sessions", session, "events", query=query)) as parts:
        async for part in parts:
            data = _data_of(part)
            if data is None:
                yield None
            else:
                yield await asyncio.to_thread(_read, data) if len(data) > _LARGE else _read(data)


async def whole_event(api: Api, session: str, seq: int) -> dict[str, Any] | None:
    """Return one event as it is, ``None`` if it is not there. Raises ``RestRefusal``."""
    query = {"after": seq - 1, "follow": False}
    async with aclosing(api.stream("sessions", session, "events", query=query)) as parts:
        async for part in parts:
            if (data := _data_of(part)) is not None:
                event = await asyncio.to_thread(json.loads, data)
                return event if event.get("seq") == seq else None
    return None


def _data_of(part: bytes) -> bytes | None:
    """Return the data of a part of the stream; each event is one part, and its data one line."""
    return next((line[6:] for line in part.split(b"\n") if line.startswith(b"data: ")), None)


def _read(text: bytes) -> SessionEvent:
    raw = json.loads(text)
    if "seq" not in raw:
        return SessionEvent(raw["last"], "", "gap", "", raw)
    data: dict[str, Any] = raw["data"]
    todos = None
    if raw["type"] == "tool.result" and data.get("tool") == TODOS and isinstance(data.get("data"), dict):
        todos = data["data"].get("todos")
    previews = {name: preview(value) if name in _VALUES else value for name, value in data.items()}
    return SessionEvent(raw["seq"], raw["turn"], raw["type"], raw["at"], previews, todos)
