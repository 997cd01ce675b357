"""The port of the answers that are kept for requests that may be sent again (spec 5, P9: ``Idempotency-Key``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ReplyRow:
    """What is kept of a request under the key that its client gave it, in one session.

    ``digest`` tells requests apart; ``status`` and ``body`` are its answer, ``None`` while it is under way.
    ``created_at`` is ISO 8601 UTC.
    """

    session: str
    key: str
    digest: str
    created_at: str
    status: int | None = None
    body: str | None = None


class ReplyStore(Protocol):
    """The answers, by session and key."""

    async def reserve(self, row: ReplyRow, *, expired: str) -> ReplyRow | None:
        """Keep that a request is under way, and return ``None``; or return what is kept under its key already.

        What was created before ``expired`` is forgotten first.
        """
        ...

    async def fulfil(self, session: str, key: str, status: int, body: str) -> None:
        """Keep the answer to a request that was reserved."""
        ...

    async def release(self, session: str, key: str) -> None:
        """Forget a request that came to nothing, so that it can be made."""
        ...
