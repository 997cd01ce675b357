"""``Idempotency-Key``: a repeated request is answered again, but executed once (spec 5, P9)."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from capset.clock import iso
from capset.errors import Conflict, InvalidArguments, StoreError
from capset.kernel.results import Result
from capset.server.auth.callers import Caller
from capset.server.http.request_context import HttpRefusal
from capset.server.service import Service
from capset.stores.base import ReplyRow

KEPT: Final = timedelta(hours=24)
"""How long an answer is stored."""
_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}")


@dataclass(frozen=True, slots=True)
class Idempotency:
    """One request under its client's idempotency key. Answers are stored for 24 hours, by session and key."""

    service: Service
    caller: Caller
    session: str
    key: str
    body: bytes
    correlation: str | None = None
    """That of its call, if it makes one: by it, a key is free again after a crash that came before any effect."""

    def __post_init__(self) -> None:
        """Raise ``HttpRefusal`` unless the key is 1–255 printable ASCII characters."""
        if not _KEY.fullmatch(self.key):
            raise HttpRefusal(400, "invalid_header", "An Idempotency-Key is 1–255 printable characters of ASCII")

    async def begin(self) -> tuple[int, bytes] | None:
        """Return the stored answer, or ``None`` if this request is the first with its key.

        Raises ``InvalidArguments`` if the key belongs to another request, and ``Conflict`` while the first is under
        way.
        """
        kernel = self.service.kernel
        now = kernel.now()
        expired = datetime.fromisoformat(now) - KEPT
        row = ReplyRow(self.session, self.key, self._digest(), now, correlation=self.correlation)
        kept = await kernel.store.replies.reserve(row, expired=iso(int(expired.timestamp()) * 1_000_000_000))
        if kept is None:
            return None
        if kept.digest != row.digest:
            raise InvalidArguments("This Idempotency-Key came with another request before: each needs its own")
        if kept.status is None or kept.body is None:
            raise Conflict("The request of this Idempotency-Key is under way, or was broken off: its record tells")
        return kept.status, kept.body.encode()

    def _digest(self) -> str:
        """Return a digest of the request and of its caller's rights and attributes: a replay must not grant more."""
        told = " ".join((*sorted(self.caller.principal.permissions), *self.caller.attributes)).encode()
        return hashlib.sha256(told + b"\0" + self.body).hexdigest()

    async def end(self, result: Result[Any], body: bytes) -> None:
        """Store the answer to a call that ended with ``result``, unless it did not run, so that it can be made later.

        If a call ran but its outcome was not recorded, the key stays taken: its effects are unknown.
        """
        error = result.error
        if result.refused:
            await self.release()
        elif not isinstance(error, StoreError):
            await self.store_reply(200, body)
        elif error.retryable:
            await self.release()

    async def store_reply(self, status: int, body: bytes) -> None:
        """Store an answer."""
        await self.service.kernel.store.replies.fulfil(self.session, self.key, status, body.decode())

    async def release(self) -> None:
        """Discard the request, which had no effect, so that it can be made later."""
        await self.service.kernel.store.replies.release(self.session, self.key)
