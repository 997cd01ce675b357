"""Floods of refused calls: beyond a limit, calls are refused unexamined and share records (spec 4, G15)."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

from capset.definitions.governance.limits import Limit
from capset.definitions.principals import Principal
from capset.errors import StoreError, counted
from capset.kernel.governance.quotas import SECOND_NS, drop_expired, seconds_left
from capset.stores.base import Entry

GATHER_SECONDS: Final = 1.0
"""How long the calls of a flood are gathered into one record."""
_log = logging.getLogger("capset.kernel")
_Key: TypeAlias = tuple[str | None, str, str]


class RefusedEntry(Entry, Protocol):
    """The entry of a refused call."""

    def repeated(self, times: int) -> Entry:
        """Return the entry of several calls like this one."""
        ...


class Refusals:
    """The refused calls of each principal within a window. ``record`` writes the entry of gathered calls."""

    __slots__ = ("_gathered", "_limit", "_now", "_record", "_timer", "_windows", "is_busy")

    def __init__(self, limit: Limit | None, now: Callable[[], int], record: Callable[[Entry], None]) -> None:
        self._limit = limit
        self._now = now
        self._record = record
        self._windows: dict[_Key, deque[int]] = {}
        self._gathered: dict[Principal, tuple[RefusedEntry, int]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.is_busy = False
        """Whether any principal has reached the limit, so that its next call may be refused unexamined."""

    def count(self, principal: Principal) -> None:
        """Count a refused call."""
        limit = self._limit
        if limit is None:
            return
        key, now = _key_of(principal), self._now()
        window = self._windows.pop(key, None)
        if window is None:
            window = deque[int](maxlen=limit.requests)
            if len(self._windows) >= 10_000:  # principals
                del self._windows[next(iter(self._windows))]
        self._windows[key] = window  # keeps the most recently refused last
        window.append(now)
        if len(window) == limit.requests and window[0] > now - limit.window * SECOND_NS:
            self.is_busy = True

    def seconds_left(self, principal: Principal) -> float | None:
        """Return for how long a principal's calls are still refused unexamined; ``None`` if they are not."""
        window, limit = self._windows.get(_key_of(principal)), self._limit
        if window is None or limit is None:
            return None
        now = self._now()
        drop_expired(window, now - limit.window * SECOND_NS)
        if not window:
            del self._windows[_key_of(principal)]
            self.is_busy = any(len(times) >= limit.requests for times in self._windows.values())
        return seconds_left(window, limit, now)

    def gather(self, principal: Principal, entry: RefusedEntry) -> None:
        """Add an unexamined call; it shares one record with the same principal's other calls at that time."""
        # By the whole principal, since the record has the digest of its attributes.
        first, count = self._gathered.get(principal, (entry, 0))
        self._gathered[principal] = first, count + 1
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(GATHER_SECONDS, self.flush)

    def flush(self) -> None:
        """Record the gathered calls."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        gathered, self._gathered = self._gathered, {}
        for entry, count in gathered.values():
            try:
                self._record(entry if count == 1 else entry.repeated(count))
            except StoreError as failure:
                _log.error("%s could not be recorded: %s", counted(count, "refused call"), failure.message)


def _key_of(principal: Principal) -> _Key:
    return principal.org, principal.kind, principal.id
