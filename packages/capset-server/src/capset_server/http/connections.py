"""The open connections of a server: a bounded number, of which idle ones make room for others (spec 5, P15)."""

from __future__ import annotations

from collections.abc import Callable


class Connections:
    """At most ``limit`` connections. At the limit, the one that has been idle longest is closed for a new one.

    It is taken from the address with the most idle connections, so that no address closes those of others before its
    own. A connection is idle while no request of it is under way.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: dict[object, Callable[[], None]] = {}
        self._idle: dict[str, dict[object, None]] = {}  # by address, longest first

    def add(self, connection: object, address: str, close: Callable[[], None]) -> bool:
        """Add an idle connection that ``close`` closes; return whether there was room for it."""
        if len(self._open) >= self._limit and not self._close_idle():
            return False
        self._open[connection] = close
        self.rest(connection, address)
        return True

    def rest(self, connection: object, address: str) -> None:
        """Note that a connection is idle."""
        if connection in self._open:
            self._idle.setdefault(address, {})[connection] = None

    def work(self, connection: object, address: str) -> None:
        """Note that a request of a connection is under way."""
        idle = self._idle.get(address, {})
        if connection in idle:
            del idle[connection]
            if not idle:
                del self._idle[address]

    def remove(self, connection: object, address: str) -> None:
        """Forget a connection that is closed."""
        self._open.pop(connection, None)
        self.work(connection, address)

    def _close_idle(self) -> bool:
        if not self._idle:
            return False
        address, idle = max(self._idle.items(), key=lambda item: len(item[1]))
        connection = next(iter(idle))
        close = self._open[connection]
        self.remove(connection, address)
        close()
        return True
