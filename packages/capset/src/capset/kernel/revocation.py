"""Revocation: what may be withdrawn while it is in use is looked up again, within a second (spec 4, G54)."""

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
FRESH_SECONDS: Final = 0.4
"""The maximum age, in seconds, of what was looked up and may be withdrawn."""
LOOK_SECONDS: Final = 0.3
"""The seconds between two looks while work goes on. Both together are less than the second that is promised."""


class Credential(Protocol):
    """The means by which the caller of a session acts, such as an API key.

    Every call asks it, and asks again once it has waited; so does a turn while it runs.
    """

    @property
    def admits_all(self) -> bool:
        """Whether it was found valid a moment ago, and is for every tool: a call need not ask."""
        ...

    def check_tool(self, own_name: str | None) -> None:
        """Raise ``PermissionDenied`` for a tool that it is not for.

        ``own_name`` is ``CAPABILITY.TOOL``, as the capability itself calls them; ``None`` if there is no such tool.
        """
        ...

    async def check(self, *, afresh: bool = False) -> None:
        """Raise ``Unauthenticated`` or ``PermissionDenied`` if its caller may not act in the session any more.

        ``afresh`` asks the store itself. Raises ``StoreError`` if that does not answer.
        """
        ...


class CurrentRows:
    """Rows of the store by which something is withdrawn: pins of tools, and agents, ``FRESH_SECONDS`` old at most.

    Changes that this process makes or hears of are known at once.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pins: TtlCache[str, Mapping[str, str]] = TtlCache(FRESH_SECONDS)
        self._agents: TtlCache[tuple[str | None, str], AgentRow | None] = TtlCache(FRESH_SECONDS)

    async def pins(self, server: str) -> Mapping[str, str]:
        """Return the hashes of the approved tools of a server, by their names there."""

        async def look_up() -> Mapping[str, str]:
            return {pin.tool: pin.hash for pin in await self._store.pins.list(server)}

        return await self._pins.get(server, look_up)

    async def agent(self, org: str | None, id: str, *, afresh: bool = False) -> tuple[float, AgentRow | None]:
        """Return when an agent was looked up, by the monotonic clock, and the agent: ``None`` if none is stored.

        ``afresh`` asks the store itself.
        """
        seconds = 0.0 if afresh else FRESH_SECONDS
        return await self._agents.get_since((org, id), lambda: self._store.agents.get(org, id), seconds)

    async def change_pins(
        self, server: str, add: Sequence[ToolPin], remove: Sequence[str], *, act: Entry | None = None
    ) -> None:
        """Change the pins of a server, as the store's ``pins.change`` does."""
        await self._store.pins.change(server, add, remove, act=act)
        self.forget()

    def forget(self) -> None:
        """Look everything up again: something has changed."""
        self._pins.forget(lambda _, pins: True)
        self._agents.forget(lambda _, row: True)


class RevocationWatch:
    """Context manager that cancels the work inside once ``check`` raises; the work then ends with that error.

    Work that is done before the first look costs one timer. A store or an issuer that does not answer changes nothing,
    nor does a host that is closing: work that needs it fails by itself. ``cancel`` cancels the task of the work, where
    somebody else has to know of that.
    """

    __slots__ = ("_before", "_cancel", "_check", "_error", "_handle", "_looking", "_worker")

    def __init__(
        self, check: Callable[[], Awaitable[object]], cancel: Callable[[asyncio.Task[Any]], object] | None = None
    ) -> None:
        self._check = check
        self._cancel = cancel
        self._error: CapsetError | None = None
        self._looking: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        """Begin to look."""
        worker = asyncio.current_task()
        if worker is None:
            raise RuntimeError("work is watched in a task of its own")
        self._worker, self._before = worker, worker.cancelling()
        self._handle = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._begin)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop looking. Raises the error of ``check`` if it ended the work, and nothing else has cancelled the work."""
        self._handle.cancel()
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None  # its end refers to this watch, and so to the arguments of a call
        if self._error is None:
            return
        if self._worker.uncancel() <= self._before and isinstance(error, asyncio.CancelledError):
            raise self._error from None

    def _begin(self) -> None:
        self._looking = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        while True:
            try:
                await self._check()
            except CapsetError as error:
                if error.status < HTTPStatus.INTERNAL_SERVER_ERROR:  # else it could not be looked up
                    self._error = error
                    if self._cancel is None:
                        self._worker.cancel()
                    else:
                        self._cancel(self._worker)
                    return
            except Exception:
                _log.exception("what may have been withdrawn could not be looked up; it is looked up again")
            await asyncio.sleep(LOOK_SECONDS)
