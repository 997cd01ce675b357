"""Limits on the open connections of one owner, and on the size of their tool lists (spec 7, M26)."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from time import monotonic
from typing import Final, Protocol

from capset.errors import TransientError

MOST: Final = 16
"""The maximum number of open connections per owner."""
LISTS_BYTES: Final = 8 * 1024 * 1024
"""The maximum size of the tool lists of one owner's open connections together, as ``ListMeter`` counts bytes."""
IDLE_SECONDS: Final = 60.0
"""How long an unused connection stays open."""


class Roomer(Protocol):
    """A connection that can be closed and opened again."""

    @property
    def idle_since(self) -> float | None:
        """When it was last used, by the monotonic clock; ``None`` while it is in use."""
        ...

    @property
    def list_size(self) -> int:
        """The size of the server's tool list, as ``ListMeter`` counts bytes."""
        ...

    def release(self) -> None:
        """Close the connection for now."""
        ...


class Room:
    """The open connections of one owner. At the limit, a new one closes the one that was idle for longest."""

    def __init__(
        self, owner: str, *, most: int = MOST, idle_seconds: float = IDLE_SECONDS, lists_bytes: int = LISTS_BYTES
    ) -> None:
        """``owner`` appears in error messages: ``The organisation 'acme'``, ``The MCP server 'github'``."""
        self._owner = owner
        self._most = most
        self._idle_seconds = idle_seconds
        self._lists_bytes = lists_bytes
        self._open: dict[Roomer, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        """Return the number of open connections."""
        return len(self._open)

    @contextmanager
    def taken(self, roomer: Roomer) -> Generator[None]:
        """Count a connection as open while inside; at the limit, close an idle one.

        Raises ``TransientError`` if the limit is reached and none is idle.
        """
        if len(self._open) >= self._most:
            self._make_room()
        loop = asyncio.get_running_loop()

        def look() -> None:
            since = roomer.idle_since
            remaining = self._idle_seconds if since is None else since + self._idle_seconds - monotonic()
            if remaining > 0:
                self._open[roomer] = loop.call_later(remaining, look)
            else:
                roomer.release()

        self._open[roomer] = loop.call_later(self._idle_seconds, look)
        try:
            yield
        finally:
            if (timer := self._open.pop(roomer, None)) is not None:
                timer.cancel()

    def check_lists(self) -> None:
        """Raise ``TransientError`` if the tool lists of the open connections are too large together."""
        if sum(connection.list_size for connection in self._open) > self._lists_bytes:
            raise TransientError(
                f"{self._owner} has connections whose tool lists exceed {self._lists_bytes / 2**20:g} MiB together: "
                "look at fewer servers at once, or try again when their connections are closed.",
                code="too_many_lists",
            )

    def _make_room(self) -> None:
        idle = [(since, roomer) for roomer in self._open if (since := roomer.idle_since) is not None]
        if not idle:
            raise TransientError(
                f"{self._owner} has {self._most} connections in use; try again later.",
                code="too_many_connections",
            )
        _, oldest = min(idle, key=lambda entry: entry[0])
        self._open.pop(oldest).cancel()
        oldest.release()
