"""Turns by REST: sent, followed and read."""

from __future__ import annotations

from typing import Any

import httpx2

from tests.helpers.server.sse import Event, events_of, following

AS_EVENTS = {"Accept": "text/event-stream"}


async def send(client: httpx2.AsyncClient, session: str, content: object, **options: Any) -> httpx2.Response:
    """Tell a session's agent something."""
    return await client.post(f"/v1/sessions/{session}/messages", json={"content": content}, **options)


async def events(client: httpx2.AsyncClient, session: str, **params: int) -> list[Event]:
    """Return the events that there are."""
    answer = await client.get(f"/v1/sessions/{session}/events", params={"follow": False, **params})
    assert answer.status_code == 200, answer.text
    return events_of(answer.text)


async def turn(client: httpx2.AsyncClient, session: str, content: object) -> list[Event]:
    """Take a whole turn, and return its events."""
    async with following(
        client, f"/v1/sessions/{session}/messages", "POST", json={"content": content}, headers=AS_EVENTS
    ) as stream:
        return [event async for event in stream]
