"""Liveness of writers over several hosts: each holds an advisory lock of its own, as long as its connection lasts.

The server frees it when the connection ends, as it does with the process. A writer that loses its connection takes the
lock again at once, or within ``KEEP_SECONDS`` after its server is back; so a check for dead writers first waits until a
newly started server has been up that long.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from capset.stores.sql.postgres.engines import lock_key

KEEP_SECONDS: Final = 1.0
"""Interval in which a writer makes sure that it still has its lock."""
SETTLED_SECONDS: Final = 5.0
"""Time after a server's start by which live writers have their locks again."""
_AGAIN_SECONDS: Final = (0.0, 0.05, 0.1, 0.2)
"""A server takes some milliseconds to see that a process died."""

_AGE: Final = "SELECT extract(epoch FROM clock_timestamp() - pg_postmaster_start_time())::float8"
_TRY: Final = "SELECT pg_try_advisory_lock(%s)"
_FREE: Final = "SELECT pg_advisory_unlock_all()"


class SessionLeases:
    """The locks of one database's writers; ``connect`` makes a dedicated connection, without transactions."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._guard = threading.Lock()
        self._connection: Connection | None = None
        self._held = False
        self._ended: threading.Event | None = None
        """Of the thread that keeps the lock; set to end it."""

    def take(self, writer: str) -> None:
        """Hold this writer's lock from now on, if it is not held already; propagates errors of the database."""
        with self._guard:
            if self._connection is not None:
                return
            self._ensure(writer)
            if self._ended is None:
                self._ended = threading.Event()
                keep = threading.Thread(target=self._keep, args=(writer, self._ended), name="capset-lease", daemon=True)
                keep.start()

    def release(self) -> None:
        """Release the lock."""
        if self._ended is not None:
            self._ended.set()
        with self._guard:
            self._ended = None
            if self._connection is not None:
                with contextlib.suppress(DBAPIError):  # otherwise it is free already
                    self._connection.exec_driver_sql(_FREE)
            self._drop()

    def gone(self, writers: Iterable[str]) -> list[str]:
        """Return the dead writers among ``writers``; on a newly started server, once live ones have reconnected."""
        left, found = list(writers), list[str]()
        with contextlib.closing(self._connect()) as connection:
            age: float = connection.exec_driver_sql(_AGE).scalar_one()
            time.sleep(max(0.0, SETTLED_SECONDS - age))
            for seconds in _AGAIN_SECONDS:
                time.sleep(seconds)
                found += [one for one in left if connection.exec_driver_sql(_TRY, (lock_key(one),)).scalar_one()]
                left = [one for one in left if one not in found]
                if not left:
                    break
            connection.exec_driver_sql(_FREE)
        return found

    def sweep(self) -> None:
        """Do nothing: a free lock leaves no trace."""

    def _keep(self, writer: str, ended: threading.Event) -> None:
        while not ended.wait(KEEP_SECONDS):
            with self._guard, contextlib.suppress(DBAPIError):  # the server is still away
                if not ended.is_set():
                    self._ensure(writer)

    def _ensure(self, writer: str) -> None:
        """Ensure a live connection and the lock, unless one of our own lost connections still holds it."""
        if self._connection is not None:
            try:
                self._connection.exec_driver_sql("SELECT 1")
            except DBAPIError:
                self._drop()
        if self._connection is None:
            self._connection = self._connect()
        if not self._held:
            self._held = self._connection.exec_driver_sql(_TRY, (lock_key(writer),)).scalar_one()

    def _drop(self) -> None:
        connection, self._connection, self._held = self._connection, None, False
        if connection is not None:
            connection.close()
