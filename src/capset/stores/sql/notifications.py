"""Notifications between the processes of one database that a session's events have changed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from sqlalchemy import Connection

Heard = Callable[[str | None], None]
"""Called with a session's id, or with ``None`` if notifications may have been missed."""


class Notifications(Protocol):
    """An engine's way to notify other processes."""

    def send(self, connection: Connection, session: str) -> None:
        """Notify every listening process of a change to a session's events, once the transaction is committed."""
        ...

    def listening(self, heard: Heard) -> AbstractAsyncContextManager[Callable[[], bool]]:
        """Listen while inside: ``heard`` is called on the event loop; the value says whether anything arrives now."""
        ...


class NoNotifications:
    """For engines that have none."""

    def send(self, connection: Connection, session: str) -> None:
        """Do nothing: other processes look for themselves."""

    @asynccontextmanager
    async def listening(self, heard: Heard) -> AsyncGenerator[Callable[[], bool]]:
        """Yield that nothing arrives."""
        yield lambda: False
