"""The protocol of change notices, by which the processes of a store learn at once of changes by others."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Literal, NamedTuple, Protocol

ChangeKind = Literal["events", "approval", "lists", "key"]
"""New events of a session; a decided request; a change that affects lists; a revoked key."""


class ChangeNotice(NamedTuple):
    """A notice of a change; ``id`` is that of the session, request or key.

    It has no content: receivers read the store, so a forged notice changes nothing.
    """

    kind: ChangeKind
    id: str = ""


NoticeCallback = Callable[[ChangeNotice | None], None]
"""Called with each notice, or with ``None`` if notices may have been missed."""


class ChangeFeed(Protocol):
    """The notices of other processes. If one is lost, its change is only noticed later, by polling the store."""

    def subscribe(self, on_notice: NoticeCallback) -> AbstractAsyncContextManager[Callable[[], bool]]:
        """Call ``on_notice`` with each notice, on the running event loop, while inside the context.

        The context's value is a function that returns whether notices of events currently arrive: false for a store
        that has none, and while its connection is lost.
        """
        ...
