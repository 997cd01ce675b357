"""``Idempotency-Key``: a repeated request is answered again, but executed once (spec 5, P9)."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from capset.clock import iso
from capset.errors import CapsetError, Conflict, InvalidArguments, LimitExceeded, StoreError
from capset.kernel.kernel import Kernel
from capset.kernel.results import Result
from capset.kernel.streams.messages import Messages
from capset.stores.base import ReplyRow
from capset.stores.base.replies import MAX_KEYS, MAX_REPLIES_BYTES, MAX_REPLY_BYTES, RETENTION, KeysFull
from capset_server.auth.callers import Caller
from capset_server.http.request_rules import HttpRefusal
from capset_server.service import Service

SWEEP_SECONDS: Final = 600.0
"""How often a server removes expired replies."""
_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}")

_log = logging.getLogger("capset.server")


@dataclass(frozen=True, slots=True)
class Idempotency:
    """One request with its client's idempotency key. Replies are stored for 24 hours, by session and key."""

    service: Service
    caller: Caller
    session: str
    key: str
    body: bytes
    correlation: str | None = None
    """The correlation id of its call, if it makes one. With it, a crash before any effect frees the key again."""
    is_bounded: bool = True
    """Whether the request is refused if its organisation has the maximum number of keys."""

    def __post_init__(self) -> None:
        """Raise ``HttpRefusal`` unless the key is 1–255 printable ASCII characters."""
        if not _KEY.fullmatch(self.key):
            raise HttpRefusal(400, "invalid_header", "An Idempotency-Key is 1–255 printable characters of ASCII")

    async def begin(self) -> tuple[int, bytes] | None:
        """Return the stored reply, or ``None`` if this request is the first with its key.

        Raises ``InvalidArguments`` if the key belongs to another request, ``Conflict`` if the first request is running
        or its reply is not stored, and ``LimitExceeded`` if the organisation has too many keys.
        """
        kernel = self.service.kernel
        now = kernel.now()
        row = ReplyRow(
            self.session, self.key, self._digest(), now, correlation=self.correlation, org=self.caller.principal.org
        )
        try:
            stored_reply = await kernel.store.replies.reserve(
                row, expired=forgotten_before(now), max_keys=MAX_KEYS if self.is_bounded else None
            )
        except KeysFull as full:
            wait = datetime.fromisoformat(full.oldest) + RETENTION - datetime.fromisoformat(now)
            raise LimitExceeded(
                f"Rate limit exceeded: this organisation sent {MAX_KEYS} requests with an Idempotency-Key within 24 "
                "hours (idempotency_keys). Nothing was done.",
                retry_after=max(1.0, wait.total_seconds()),
                hint="wait, or send the request without a key if it may be done twice",
            ) from None
        if stored_reply is None:
            return None
        if stored_reply.digest != row.digest:
            raise InvalidArguments("This Idempotency-Key was used for another request: each request needs its own")
        if stored_reply.status is not None and stored_reply.body is None:
            record = "" if stored_reply.record is None else f": see its record {stored_reply.record}"
            raise Conflict(
                "The request with this Idempotency-Key was executed and is not repeated, but its reply was too large "
                f"to be stored, by itself or beside newer ones (idempotency_answer, idempotency_answers){record}",
                hint=f"GET /v1/audit?id={stored_reply.record}" if stored_reply.record is not None else None,
            )
        if stored_reply.status is None or stored_reply.body is None:
            raise Conflict("The request with this Idempotency-Key is still running, or was interrupted: see its record")
        return stored_reply.status, stored_reply.body.encode()

    def _digest(self) -> str:
        """Return a digest of the request and of its caller's rights and attributes: a replay must not grant more."""
        rights = " ".join((*sorted(self.caller.principal.permissions), *self.caller.attributes)).encode()
        return hashlib.sha256(rights + b"\0" + self.body).hexdigest()

    async def end(self, result: Result[Any], body: bytes) -> None:
        """Store the reply to a call that ended with ``result``; if the call did not run, release its key.

        If the call ran but its outcome was not recorded, the key stays reserved, because the effects are unknown.
        """
        error = result.error
        if result.refused:
            await self.release()
        elif not isinstance(error, StoreError):
            await self.store_reply(200, body, record=result.record)
        elif error.retryable:
            await self.release()

    async def abandon(self, messages: Messages) -> None:
        """Release the key of a call whose client left, if the call ended before its handler started."""
        if messages.has_ended and messages.result.refused:
            await self.release()

    async def store_reply(self, status: int, body: bytes, *, record: str | None = None) -> None:
        """Store a reply; if it is too large, store only its status and the record of its call."""
        text = body.decode() if len(body) <= MAX_REPLY_BYTES else None
        replies = self.service.kernel.store.replies
        await replies.complete(self.session, self.key, status, text, record=record, max_bytes=MAX_REPLIES_BYTES)

    async def release(self) -> None:
        """Release the key of a request without effects, so that the request can be sent again."""
        await self.service.kernel.store.replies.release(self.session, self.key)


def forgotten_before(now: str) -> str:
    """Return the time before which keys have expired."""
    return iso(int((datetime.fromisoformat(now) - RETENTION).timestamp()) * 1_000_000_000)


async def keep_swept(kernel: Kernel) -> None:
    """Remove expired replies now and at intervals until cancelled, even if no requests arrive."""
    while True:
        try:
            await kernel.store.replies.sweep(expired=forgotten_before(kernel.now()))
        except CapsetError as error:
            _log.error("cannot remove expired replies: %s", error.message)
        await asyncio.sleep(SWEEP_SECONDS)
