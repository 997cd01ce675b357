"""The port of changes: processes of one store hear at once of what others have changed in it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Literal, NamedTuple, Protocol

from capset.stores.base.events import EventStore

ChangeKind = Literal["events", "approval", "lists", "key"]
"""Events of a session, by its id; a decided request, by its id; what lists are made of; a revoked key, by its id."""


class ChangeNotice(NamedTuple):
    """A notice of a change. It holds no content: who hears it reads the store, so a forged one changes nothing."""

    kind: ChangeKind
    id: str = ""


Hear = Callable[[ChangeNotice | None], None]
"""Called with each notice, or with ``None`` if notices may have been missed."""


class ChangeFeed(Protocol):
    """The notices of other processes. One that is lost costs the time until the next look at the store, no more."""

    def listening(self, hear: Hear) -> AbstractAsyncContextManager[Callable[[], bool]]:
        """Call ``hear``, on the running event loop, with each notice while inside.

        The value says whether notices of events arrive now: it is false for a store that has none, and while its
        connection is lost.
        """
        ...


class EventFeed:
    """The notices that a store's own event notifications give: of events alone."""

    def __init__(self, events: EventStore) -> None:
        self._events = events

    def listening(self, hear: Hear) -> AbstractAsyncContextManager[Callable[[], bool]]:
        """Listen as the store of events does."""

        def notify(session: str | None) -> None:
            hear(None if session is None else ChangeNotice("events", session))

        return self._events.listening(notify)
