"""``LISTEN`` and ``NOTIFY``: one connection of each server that listens, made again when it is lost."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, cast

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from capset.errors import StoreError
from capset.stores.sql.events import Heard
from capset.stores.sql.problems import is_of_driver

CHANNEL: Final = "capset_events"
RECONNECT_SECONDS: Final = 1.0
"""Pause before a lost connection is made again."""
_LOOK_SECONDS: Final = 0.5
"""Interval in which the thread sees that it shall end."""
_LONGEST: Final = 1_000
"""Limit on the characters of an id in a notification; the server allows 8,000 bytes."""
_NOTIFY: Final = "SELECT pg_notify(%s, %s)"


class PostgresNotifications:
    """Notifications of one database; ``connect`` makes a connection for itself, without transactions."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect

    def send(self, connection: Connection, session: str) -> None:
        """Notify every listening process of a change to a session's events, once the transaction is committed."""
        is_plain = session.isprintable() and len(session) <= _LONGEST
        connection.exec_driver_sql(_NOTIFY, (CHANNEL, session if is_plain else ""))

    @asynccontextmanager
    async def listening(self, heard: Heard) -> AsyncGenerator[Callable[[], bool]]:
        """Listen in a thread while inside, and yield a function that says whether the connection stands."""
        listener = _Listener(self._connect, heard, asyncio.get_running_loop())
        listener.start()
        try:
            yield listener.is_connected.is_set
        finally:
            listener.ended.set()
            await asyncio.to_thread(listener.join)


class _Listener(threading.Thread):
    def __init__(self, connect: Callable[[], Connection], heard: Heard, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(name="capset-listener", daemon=True)
        self._connect = connect
        self._heard = heard
        self._loop = loop
        self.is_connected = threading.Event()
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.is_set():
            try:
                self._listen()
            except Exception as error:
                if not (isinstance(error, SQLAlchemyError | StoreError) or is_of_driver(error)):
                    raise
            self.is_connected.clear()
            self.ended.wait(RECONNECT_SECONDS)

    def _listen(self) -> None:
        with contextlib.closing(self._connect()) as connection:
            connection.exec_driver_sql(f"LISTEN {CHANNEL}")
            raw = cast("Any", connection.connection.driver_connection)  # psycopg's, which is not imported here
            self.is_connected.set()
            self._tell(None)  # what came before is not heard of
            while not self.ended.is_set():
                for one in raw.notifies(timeout=_LOOK_SECONDS):
                    self._tell(one.payload or None)

    def _tell(self, session: str | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and the followers are gone with it
            self._loop.call_soon_threadsafe(self._heard, session)
