"""Turns of agents, and their events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import httpx2

from capset.client.address import path_of
from capset.client.answers import Answers
from capset.client.connection import REPEATABLE, Connection, json_bytes
from capset.client.events import LARGEST
from capset.wire.turns import EventShape, GapShape, TurnShape


class TurnResource:
    """The methods of ``client.sessions`` for turns."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def send(self, id: str, content: Any, *, idempotency_key: str | None = None) -> TurnShape:  # any JSON
        """Send a message to a session's agent, and return the new turn, which runs in the background.

        Raises ``NotFound``; ``Conflict`` with the code ``turn_running`` while the session is in another turn; and
        ``CapsetError`` with the code ``no_runner`` if the server runs no agents.
        """
        headers = {} if idempotency_key is None else {REPEATABLE: idempotency_key}
        body, path = json_bytes({"content": content}), path_of("sessions", id, "messages")
        return await self._connection.send(TurnShape, "POST", path, body, headers)

    @asynccontextmanager
    async def events(
        self, id: str, *, after: int = 0, follow: bool = True
    ) -> AsyncGenerator[AsyncGenerator[EventShape | GapShape]]:
        """Read the events of a session's turns: ``async with client.sessions.events(id) as events``.

        It begins with the one ``after`` that number, and ends with the session or the server, unless ``follow`` is
        false: ask again, ``after`` the last one received, and ``NotFound`` means that the session ended. Events no
        longer stored are a ``GapShape``. Raises ``NotFound``; ``Unreachable`` if the connection breaks.
        """
        query = {"after": after, "follow": "true" if follow else "false"}
        async with (
            self._connection.follow(path_of("sessions", id, "events"), query) as response,
            aclosing(_read(self._connection.answers, response)) as events,
        ):
            yield events


async def _read(answers: Answers, response: httpx2.Response) -> AsyncGenerator[EventShape | GapShape]:
    with answers.named(safe=True):
        async for event in httpx2.EventSource(response, LARGEST):
            if event.data:
                yield answers.parsed(GapShape if event.event == "gap" else EventShape, event.data)
