"""Reading server-sent events, as they come."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2


@dataclass(frozen=True)
class Event:
    """One event."""

    id: str
    type: str
    data: dict[str, Any]


def events_of(text: str) -> list[Event]:
    """Return the events of a whole answer."""
    events: list[Event] = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if "data" in lines:
            events.append(Event(lines.get("id", ""), lines.get("event", ""), json.loads(lines["data"])))
    return events


@asynccontextmanager
async def following(
    client: httpx2.AsyncClient, path: str, method: str = "GET", **options: Any
) -> AsyncGenerator[AsyncGenerator[Event]]:
    """Give the events of an answer that goes on."""
    async with client.stream(method, path, **options) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"

        async def read() -> AsyncGenerator[Event]:
            pending = ""
            async for text in response.aiter_text():
                pending += text
                *complete, pending = pending.split("\n\n")
                for event in events_of("\n\n".join(complete)):
                    yield event

        events = read()
        try:
            yield events
        finally:
            await events.aclose()
