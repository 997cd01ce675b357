"""The protocol of the stored replies to requests with an ``Idempotency-Key`` (spec 5, P9)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ReplyRow:
    """The row of a request under the key that its client gave it, in one session.

    ``digest`` tells requests apart; ``status`` and ``body`` are its reply, ``None`` while it is under way.
    ``created_at`` is ISO 8601 UTC. ``correlation`` is that of its call, by which the records of what it did are found;
    a store may forget it once there is a reply.
    """

    session: str
    key: str
    digest: str
    created_at: str
    status: int | None = None
    body: str | None = None
    correlation: str | None = None


class ReplyStore(Protocol):
    """The replies, by session and key."""

    async def reserve(self, row: ReplyRow, *, expired: str) -> ReplyRow | None:
        """Reserve a request's key and return ``None``, or return the row already stored under it.

        Rows created before ``expired`` are deleted first. A store that outlives its processes deletes, when it is
        opened, the rows without a reply whose process is dead and whose call has no intent: it had no effect.
        """
        ...

    async def fulfil(self, session: str, key: str, status: int, body: str) -> None:
        """Store the reply to a reserved request."""
        ...

    async def release(self, session: str, key: str) -> None:
        """Forget a request that failed, so that it can be sent again."""
        ...
