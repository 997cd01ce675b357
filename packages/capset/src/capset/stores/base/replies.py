"""The protocol of stored replies to requests with an ``Idempotency-Key`` (spec 5, P9, P37)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Protocol

RETENTION: Final = timedelta(hours=24)
"""How long a reply is stored."""
MAX_KEYS: Final = 10_000
"""The maximum number of keys of an organisation within that time."""
MAX_REPLY_BYTES: Final = 1024 * 1024
"""The maximum size of a stored reply."""
MAX_REPLIES_BYTES: Final = 64 * 1024 * 1024
"""The maximum size of all stored replies of an organisation. The oldest are dropped, but their keys are kept."""


@dataclass(frozen=True, slots=True)
class ReplyRow:
    """A request and its reply, by session and by the key that the client chose.

    ``digest`` tells requests apart. ``status`` and ``body`` are the reply, both ``None`` while the request runs. A
    reply that is not kept has no ``body``. ``record`` is the id of the call's record. ``created_at`` is ISO 8601 UTC.
    ``correlation`` is that of the call, by which the records of its effects are found; a store may drop it once there
    is a reply.
    """

    session: str
    key: str
    digest: str
    created_at: str
    status: int | None = None
    body: str | None = None
    correlation: str | None = None
    org: str | None = None
    record: str | None = None


class KeysFull(Exception):
    """Raised for a request of an org that has the maximum number of keys; ``oldest`` is the time of the first one."""

    def __init__(self, oldest: str) -> None:
        super().__init__(oldest)
        self.oldest = oldest


class ReplyStore(Protocol):
    """The stored replies, by session and key."""

    async def reserve(self, row: ReplyRow, *, expired: str, max_keys: int | None = None) -> ReplyRow | None:
        """Reserve a request's key and return ``None``, or return the row already stored under it.

        Rows created before ``expired`` are deleted first. Raises ``KeysFull`` for a new key if its org has
        ``max_keys``.

        A store that outlives its processes deletes a row without a reply if its process is dead and its call has no
        intent, and so had no effect.
        """
        ...

    async def get(self, session: str, key: str) -> ReplyRow | None:
        """Return the row under a key, as ``reserve`` would, without reserving anything."""
        ...

    async def complete(
        self,
        session: str,
        key: str,
        status: int,
        body: str | None,
        *,
        record: str | None = None,
        max_bytes: int | None = None,
    ) -> None:
        """Store the reply to a reserved request. ``body`` is ``None`` if it is not kept.

        If the bodies of its org then exceed ``max_bytes`` in UTF-8 together, the oldest are dropped; their keys are
        kept.
        """
        ...

    async def release(self, session: str, key: str) -> None:
        """Delete the row of a failed request, so that the request can be sent again."""
        ...

    async def sweep(self, *, expired: str) -> None:
        """Delete the rows created before ``expired``."""
        ...
