"""Detection of clients that disconnect while their request is processed."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Final, Self

from starlette.types import Receive

from capset.server.http.bodies import ClientLeft

PATIENCE_SECONDS: Final = 0.05
"""How long work may take before it is watched: most calls finish sooner, and a watch would cost more than they do."""


class DisconnectWatch:
    """Context manager that cancels the work when the client disconnects; the work then ends in ``ClientLeft``.

    ``receive`` must deliver nothing but the disconnect: the body has been read.
    """

    __slots__ = ("_handle", "_left", "_receive", "_task", "_worker")

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._left = False
        self._task: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        """Start watching after ``PATIENCE_SECONDS``."""
        self._worker = asyncio.current_task()
        self._handle = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, self._start)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop watching. Raises ``ClientLeft`` if the work was cancelled because the client disconnected."""
        self._handle.cancel()
        if self._task is not None:
            self._task.cancel()
        if self._left and isinstance(error, asyncio.CancelledError) and self._worker is not None:
            self._worker.uncancel()
            raise ClientLeft from None

    def _start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._wait())

    async def _wait(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._left = True
        if self._worker is not None:
            self._worker.cancel()
