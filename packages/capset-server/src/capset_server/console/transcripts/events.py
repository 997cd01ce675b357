"""The events of a session, as read from REST, with long values truncated for pages."""

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
"""Maximum characters of arguments, a result or an output in a conversation; a link leads to the full value."""
_LARGE: Final = 256 * 1024
"""Events above this size, in bytes, are parsed in a thread."""
_VALUES: Final = ("arguments", "data", "output")
TODOS: Final = "write_todos"
"""The tool whose newest list is the agent's to-do list, which is stored only in the conversation."""


@dataclass(frozen=True, slots=True)
class ValuePreview:
    """A value as a page shows it: ``text``, truncated if ``is_cut``. ``size`` is its full length in characters."""

    text: str
    is_cut: bool
    size: int


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """An event with its long values as previews. For a ``gap``, ``seq`` is the number of the last missing event.

    ``todos`` is the list that a call of ``write_todos`` accepted.
    """

    seq: int
    turn: str
    type: str
    at: str
    data: Mapping[str, Any]
    todos: list[dict[str, str]] | None = None


def preview(value: object, limit: int = SHOWN) -> ValuePreview:
    """Return a preview of at most ``limit`` characters: a text unchanged, other data as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    size = len(text)
    if not isinstance(value, str) and size <= limit:
        text = json.dumps(value, indent=2, ensure_ascii=False)
    return ValuePreview(shorten(text, limit), size > limit, size)


async def session_events(
    api: Api, session: str, *, after: int = 0, newest: int | None = None, follow: bool = False
) -> AsyncGenerator[SessionEvent | None]:
    """Yield a session's events after a number, or only the ``newest``. Raises ``RestRefusal``.

    Yields ``None`` first, and at each keep-alive. With ``follow``, new events come as they are stored, until the
    session is deleted, the server shuts down, or the sign-in ends.
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
    """Return one event with its full values, ``None`` if it is not stored. Raises ``RestRefusal``."""
    query = {"after": seq - 1, "follow": False}
    async with aclosing(api.stream("sessions", session, "events", query=query)) as parts:
        async for part in parts:
            if (data := _data_of(part)) is not None:
                event = await asyncio.to_thread(json.loads, data)
                return event if event.get("seq") == seq else None
    return None


def _data_of(part: bytes) -> bytes | None:
    """Return the data of a part of the stream; an event is one part, and its data is one line."""
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
