"""The protocol of the stored replies to requests with an ``Idempotency-Key`` (spec 5, P9, P37)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Protocol

KEPT: Final = timedelta(hours=24)
"""How long a reply is stored."""
KEYS: Final = 10_000
"""The number of keys that an organisation has within that time."""
ANSWER_BYTES: Final = 1024 * 1024
"""The largest size of a reply that is stored."""
ANSWERS_BYTES: Final = 64 * 1024 * 1024
"""The size of all stored replies of an organisation; the oldest make room for new ones, but keep their keys."""


@dataclass(frozen=True, slots=True)
class ReplyRow:
    """The row of a request under the key that its client gave it, in one session.

    ``digest`` tells requests apart; ``status`` and ``body`` are its reply, both ``None`` while it is under way. A reply
    that is not kept has no ``body``; ``record`` is the id of its call's record. ``created_at`` is ISO 8601 UTC.
    ``correlation`` is that of its call, by which the records of what it did are found; a store may forget it once there
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
    """Raised for a request of an org that has as many keys as it may have; ``oldest`` is the time of the first."""

    def __init__(self, oldest: str) -> None:
        super().__init__(oldest)
        self.oldest = oldest


class ReplyStore(Protocol):
    """The replies, by session and key."""

    async def reserve(self, row: ReplyRow, *, expired: str, most: int | None = None) -> ReplyRow | None:
        """Reserve a request's key and return ``None``, or return the row already stored under it.

        Rows created before ``expired`` are deleted first. Raises ``KeysFull`` for a new key if its org has ``most``.

        A store that outlives its processes deletes the rows without a reply whose process is dead and whose call has no
        intent: it had no effect.
        """
        ...

    async def get(self, session: str, key: str) -> ReplyRow | None:
        """Return the row under a key, as ``reserve`` would, and reserve nothing."""
        ...

    async def fulfil(
        self,
        session: str,
        key: str,
        status: int,
        body: str | None,
        *,
        record: str | None = None,
        max_bytes: int | None = None,
    ) -> None:
        """Store the reply to a reserved request; ``None`` for a body that is not kept.

        If the bodies of its org have more than ``max_bytes`` together then, as UTF-8, the oldest lose theirs; their
        keys stay.
        """
        ...

    async def release(self, session: str, key: str) -> None:
        """Forget a request that failed, so that it can be sent again."""
        ...

    async def sweep(self, *, expired: str) -> None:
        """Delete the rows created before ``expired``."""
        ...
