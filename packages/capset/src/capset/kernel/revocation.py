"""Revocation: rights that may be withdrawn while in use are looked up again within a second (spec 4, G54)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Protocol, Self

from capset.errors import CapsetError
from capset.kernel.ttl_cache import TtlCache
from capset.stores.base import AgentRow, Entry, Store, ToolPin

_log = logging.getLogger("capset.kernel")
MAX_AGE_SECONDS: Final = 0.4
"""Maximum age, in seconds, of a cached row that may be withdrawn."""
CHECK_SECONDS: Final = 0.3
"""Seconds between two checks while work is running. Both together are less than the promised second."""


class Credential(Protocol):
    """The credential that the caller of a session acts with, such as an API key.

    Every call checks it, and checks it again after a wait; so does a turn while it runs.
    """

    @property
    def admits_all(self) -> bool:
        """Whether it was valid a moment ago and covers every tool, so that a call need not check it."""
        ...

    def check_tool(self, own_name: str | None) -> None:
        """Raise ``PermissionDenied`` for a tool that it does not cover.

        ``own_name`` is ``CAPABILITY.TOOL`` with the capability's own names; ``None`` if there is no such tool.
        """
        ...

    async def check(self, *, bypass_cache: bool = False) -> None:
        """Raise ``Unauthenticated`` or ``PermissionDenied`` if its caller may no longer act in the session.

        ``bypass_cache`` bypasses caches and asks the store. Raises ``StoreError`` if the store does not answer.
        """
        ...


class CurrentRows:
    """Cached rows that decide whether something is withdrawn: pins of tools, and agents.

    They are at most ``MAX_AGE_SECONDS`` old. Changes that this process makes, or is notified of, are seen at once.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pins: TtlCache[str, Mapping[str, str]] = TtlCache(MAX_AGE_SECONDS)
        self._agents: TtlCache[tuple[str | None, str], AgentRow | None] = TtlCache(MAX_AGE_SECONDS)

    async def pins(self, server: str) -> Mapping[str, str]:
        """Return the hashes of a server's approved tools, by their names on the server."""

        async def look_up() -> Mapping[str, str]:
            return {pin.tool: pin.hash for pin in await self._store.pins.list(server)}

        return await self._pins.get(server, look_up)

    async def agent(self, org: str | None, id: str, *, bypass_cache: bool = False) -> tuple[float, AgentRow | None]:
        """Return when an agent was looked up, by the monotonic clock, and its row, ``None`` if none is stored.

        ``bypass_cache`` bypasses the cache.
        """
        seconds = 0.0 if bypass_cache else MAX_AGE_SECONDS
        return await self._agents.get_since((org, id), lambda: self._store.agents.get(org, id), seconds)

    async def change_pins(
        self, server: str, add: Sequence[ToolPin], remove: Sequence[str], *, act: Entry | None = None
    ) -> None:
        """Change the pins of a server, as the store's ``pins.change`` does."""
        await self._store.pins.change(server, add, remove, act=act)
        self.clear()

    def clear(self) -> None:
        """Clear the cache, since something has changed."""
        self._pins.invalidate(lambda _, pins: True)
        self._agents.invalidate(lambda _, row: True)


class RevocationWatch:
    """Context manager that cancels the work inside once ``check`` raises; the work then ends with that error.

    Work that is done before the first check costs one timer. A store or an issuer that does not answer changes nothing,
    nor does a host that is closing: work that needs it fails by itself. ``cancel`` replaces ``task.cancel()`` if the
    owner of the task must know that it was cancelled.
    """

    __slots__ = ("_before", "_cancel", "_check", "_checker", "_error", "_handle", "_worker")

    def __init__(
        self, check: Callable[[], Awaitable[object]], cancel: Callable[[asyncio.Task[Any]], object] | None = None
    ) -> None:
        self._check = check
        self._cancel = cancel
        self._error: CapsetError | None = None
        self._checker: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        """Start checking."""
        worker = asyncio.current_task()
        if worker is None:
            raise RuntimeError("a RevocationWatch must be entered in a task")
        self._worker, self._before = worker, worker.cancelling()
        self._handle = asyncio.get_running_loop().call_later(CHECK_SECONDS, self._start_checker)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop checking. Raises the error of ``check`` if that ended the work, and nothing else has cancelled it."""
        self._handle.cancel()
        if self._checker is not None:
            self._checker.cancel()
            self._checker = None  # the task refers to this watch, and through it to the arguments of a call
        if self._error is None:
            return
        if self._worker.uncancel() <= self._before and isinstance(error, asyncio.CancelledError):
            raise self._error from None

    def _start_checker(self) -> None:
        self._checker = asyncio.get_running_loop().create_task(self._check_repeatedly())

    async def _check_repeatedly(self) -> None:
        while True:
            try:
                await self._check()
            except CapsetError as error:
                if error.status < HTTPStatus.INTERNAL_SERVER_ERROR:  # otherwise the check itself has failed
                    self._error = error
                    if self._cancel is None:
                        self._worker.cancel()
                    else:
                        self._cancel(self._worker)
                    return
            except Exception:
                _log.exception("a check for a withdrawal failed and will be repeated")
            await asyncio.sleep(CHECK_SECONDS)
