"""A store whose changes are announced in Redis, once they are stored."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from inspect import signature
from typing import Any, Final, cast

from capset.stores.base import ChangeNotice, Store
from capset.stores.redis.stream import ChangeStream

Tell = Callable[[Mapping[str, Any]], ChangeNotice | None]
"""Returns the notice of a change from the arguments of the method that makes it, by their names."""


def _events(session: str) -> ChangeNotice:
    return ChangeNotice("events", session)


def _appended(given: Mapping[str, Any]) -> ChangeNotice | None:
    has_news = given["events"] or given["then"] is None  # otherwise the turn was only renewed
    return _events(given["held"].session) if has_news else None


def _decided(given: Mapping[str, Any]) -> ChangeNotice | None:
    row = given["row"]
    return ChangeNotice("approval", row.id) if given["expected"] == "pending" != row.status else None


_LISTS: Final = ChangeNotice("lists")
ANNOUNCED: Final[Mapping[str, Mapping[str, Tell]]] = {
    "events": {
        "begin": lambda given: _events(given["turn"].session),
        "append": _appended,
        "interrupt": lambda given: _events(given["session"]),
    },
    "sessions": {
        "delete": lambda given: _events(given["id"]),
        "move": lambda _: _LISTS,
    },
    "approvals": {"move": _decided},
    "agents": {"replace": lambda _: _LISTS},
    "pins": {"change": lambda _: _LISTS},
    "keys": {"revoke": lambda given: ChangeNotice("key", given["id"])},
}
"""The methods of a store's parts that are announced, and with which notice."""


def share_by_redis(store: Store, url: str) -> Store:
    """Return a store that announces its changes in Redis, and hears there of those of others.

    ``url`` is ``redis://…``, ``rediss://…`` (TLS) or ``unix://…``. Raises ``DefinitionError`` for one that cannot be
    read, and if the extra is not installed; no error repeats it, since it may hold a password.
    """
    # All parts are those of the store; a few methods of theirs announce what they change.
    return cast("Store", AnnouncingStore(store, ChangeStream(url)))


class AnnouncingStore:
    """A store with its parts, of which some announce what they change."""

    def __init__(self, store: Store, stream: ChangeStream) -> None:
        self._store = store
        self.changes: Final = stream
        self._parts = {
            name: _AnnouncingPart(getattr(store, name), methods, stream.announce) for name, methods in ANNOUNCED.items()
        }

    def __getattr__(self, name: str) -> Any:  # a part of the store, or what else it has
        return self._parts.get(name) or getattr(self._store, name)

    async def open(self) -> None:
        """Open the store, and begin to announce. Redis need not be there."""
        await self._store.open()
        try:
            secret = await self._store.audit.digest_key()
        except BaseException:
            await self._store.close()
            raise
        # The same for all processes of a database, by any URL of it, and for no other.
        self.changes.start(hashlib.sha256(b"capset changes " + secret).hexdigest()[:32])

    async def close(self) -> None:
        """Announce what is left, as far as Redis takes it at once, and close the store."""
        try:
            await self.changes.stop()
        finally:
            await self._store.close()


class _AnnouncingPart:
    """A part of a store; of its methods, those that are announced are replaced."""

    def __init__(self, part: object, methods: Mapping[str, Tell], announce: Callable[[ChangeNotice], None]) -> None:
        self._part = part
        self._methods = {name: _announcing(getattr(part, name), tell, announce) for name, tell in methods.items()}

    def __getattr__(self, name: str) -> Any:  # a method of the part
        return self._methods.get(name) or getattr(self._part, name)


def _announcing(
    method: Callable[..., Awaitable[Any]], tell: Tell, announce: Callable[[ChangeNotice], None]
) -> Callable[..., Awaitable[Any]]:
    """Return a method that also announces what it has changed, if it does not answer that it has changed nothing."""
    parameters = signature(method)

    @wraps(method)
    async def call(*args: Any, **kwargs: Any) -> Any:  # those of the method
        notice = tell(parameters.bind(*args, **kwargs).arguments)
        try:
            result = await method(*args, **kwargs)
        except asyncio.CancelledError:  # it may be stored all the same
            if notice is not None:
                announce(notice)
            raise
        if notice is not None and result is not False:
            announce(notice)
        return result

    return call
