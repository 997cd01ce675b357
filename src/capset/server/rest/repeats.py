"""``Idempotency-Key``: a request that is sent again is answered again, and done once (spec 5, P9)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from capset.clock import iso
from capset.errors import Conflict, InvalidArguments
from capset.server.service import Service
from capset.server.visit import Refused
from capset.stores.base import ReplyRow

KEPT: Final = timedelta(hours=24)
"""How long an answer is kept."""
_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}")

Work = Callable[[], Awaitable[tuple[int, bytes]]]
"""Does what is asked, and returns the answer's status and body."""


@dataclass(frozen=True, slots=True)
class Once:
    """One request under the key that its client gave it. An answer is kept for 24 hours, by session and key."""

    service: Service
    session: str
    key: str
    body: bytes

    def __post_init__(self) -> None:
        """Raise ``Refused`` for a key that is not 1–255 printable characters of ASCII."""
        if not _KEY.fullmatch(self.key):
            raise Refused(400, "invalid_header", "An Idempotency-Key is 1–255 printable characters of ASCII")

    async def begin(self) -> tuple[int, bytes] | None:
        """Return the answer that is kept, or ``None`` if this request is the first of its key.

        Raises ``InvalidArguments`` if the key was another request's, and ``Conflict`` while the first is under way.
        """
        kernel = self.service.kernel
        now = kernel.now()
        expired = datetime.fromisoformat(now) - KEPT
        row = ReplyRow(self.session, self.key, hashlib.sha256(self.body).hexdigest(), now)
        kept = await kernel.store.replies.reserve(row, expired=iso(int(expired.timestamp()) * 1_000_000_000))
        if kept is None:
            return None
        if kept.digest != row.digest:
            raise InvalidArguments("This Idempotency-Key came with another request before: each needs its own")
        if kept.status is None or kept.body is None:
            raise Conflict("The request of this Idempotency-Key is under way, or was broken off: its record tells")
        return kept.status, kept.body.encode()

    async def end(self, status: int, body: bytes) -> None:
        """Keep the answer; that of a call that was refused is not kept, so that it can be made later."""
        replies = self.service.kernel.store.replies
        if status == 200:
            await replies.fulfil(self.session, self.key, status, body.decode())
        else:
            await replies.release(self.session, self.key)
