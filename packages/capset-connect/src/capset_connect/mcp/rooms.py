"""Room for the open connections of one owner, and for what their servers say (spec 7, M26)."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from time import monotonic
from typing import Final, Protocol

from capset.errors import TransientError

MOST: Final = 16
"""How many connections of one owner are open at a time."""
LISTS_BYTES: Final = 8 * 1024 * 1024
"""How much the servers of one owner's open connections may say of their tools together, in bytes as they count."""
IDLE_SECONDS: Final = 60.0
"""How long a connection stays open that nothing uses."""


class Roomer(Protocol):
    """A connection that can be closed and made again."""

    @property
    def idle_since(self) -> float | None:
        """When it was last used, by the monotonic clock; nothing while it is in use."""
        ...

    @property
    def list_size(self) -> int:
        """How much its server has said of its tools, in bytes as they count."""
        ...

    def release(self) -> None:
        """Close the connection for now."""
        ...


class Room:
    """The open connections of one owner. A new one closes the one that was idle for longest, if there are too many."""

    def __init__(
        self, owner: str, *, most: int = MOST, idle_seconds: float = IDLE_SECONDS, lists_bytes: int = LISTS_BYTES
    ) -> None:
        """``owner`` is for messages: ``the organisation 'acme'``."""
        self._owner = owner
        self._most = most
        self._idle_seconds = idle_seconds
        self._lists_bytes = lists_bytes
        self._open: dict[Roomer, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        """How many are open."""
        return len(self._open)

    @contextmanager
    def taken(self, roomer: Roomer) -> Generator[None]:
        """Hold room for a connection inside; idle ones are released. Raises ``TransientError`` if there is none."""
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
        """Raise ``TransientError`` if the servers of the open connections say too much of their tools together."""
        if sum(connection.list_size for connection in self._open) > self._lists_bytes:
            raise TransientError(
                f"{self._owner} has MCP servers that say more than {self._lists_bytes / 2**20:g} MiB of their tools "
                "together: look at fewer of them at once, or try again when their connections are closed.",
                code="too_many_lists",
            )

    def _make_room(self) -> None:
        idle = [(since, roomer) for roomer in self._open if (since := roomer.idle_since) is not None]
        if not idle:
            raise TransientError(
                f"{self._owner} has {self._most} connections to MCP servers in use; try again later.",
                code="too_many_connections",
            )
        _, oldest = min(idle, key=lambda entry: entry[0])
        self._open.pop(oldest).cancel()
        oldest.release()
