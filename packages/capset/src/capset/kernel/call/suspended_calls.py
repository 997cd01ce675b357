"""Calls that wait for an approval outside of their process, and go on once (spec 7, M19)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

from capset.clock import iso
from capset.definitions.calls.messages import Json
from capset.definitions.governance.approvals import ApprovalRow
from capset.errors import LimitExceeded, NotFound
from capset.fingerprint.canonical import as_json
from capset.kernel.call.session_context import SessionContext
from capset.stores.base import AuditQuery, ReplyRow
from capset.stores.base.replies import ANSWER_BYTES, ANSWERS_BYTES, KEPT, KEYS, KeysFull

MAY_GO_ON: Final = KEPT - timedelta(hours=1)
"""How long after its decision a call may still go on: less than its outcome is kept, so that it never does twice."""
_BROKEN_OFF: Final = timedelta(minutes=1)
"""How long the outcome of a call may take from its record into the store."""


@dataclass(frozen=True, slots=True)
class SuspendedCall:
    """A call of a session that has asked for an approval, whether or not that is decided.

    The request is all that is stored of it, until it goes on: then its outcome is kept beside it, for 24 hours. It goes
    on in the one process that reserves it.
    """

    request: ApprovalRow
    _context: SessionContext

    @property
    def is_waiting(self) -> bool:
        """Whether it is still to be decided, and can be."""
        return self.request.status == "pending" and not self._context.runtime.approvals.is_overdue(self.request)

    @property
    def arguments(self) -> Json | None:
        """The arguments of the call; ``None`` if some are secrets, which only its caller has: the store does not."""
        text = self.request.arguments.encode()
        return Json(as_json(text).encode()) if self._context.runtime.digest(text) == self.request.digest else None

    @property
    def digest(self) -> str:
        """A digest of the call and of its caller's rights and attributes: its outcome is for no others."""
        principal = self._context.principal
        attributes = (entry.to_json() for entry in (principal.attributes, *principal.on_behalf_of_attributes))
        text = " ".join((self.request.digest, *sorted(principal.permissions), *attributes))
        return sha256(text.encode(errors="surrogatepass")).hexdigest()

    @property
    def is_forgotten(self) -> bool:
        """Whether the call cannot go on any more, since its outcome may have been forgotten already."""
        ended = self.request.decided_at or self.request.expires_at
        return not self.is_waiting and self._now() >= datetime.fromisoformat(ended) + MAY_GO_ON

    async def decided(self, seconds: float) -> bool:
        """Wait until the request is decided, at most so long; return whether it is."""
        if not self.is_waiting:
            return True
        row = await self._context.runtime.approvals.decided(self.request, seconds)
        return row.status != "pending"

    async def withdraw(self) -> None:
        """End the request for this one call, if it is still of use; an approval for the whole session stays."""
        if self.request.status == "pending" or self.request.scope == "once":
            approvals, request = self._context.runtime.approvals, self.request
            await approvals.withdraw([request.id], org=request.org, by=request.principal)

    async def reserve(self) -> ReplyRow | None:
        """Return ``None`` to the one process that lets the call go on, or what is kept of it, with no status before it.

        The record of the call has the request's id as its correlation: by it, a call of a process that died before any
        effect is free again. Raises ``LimitExceeded`` if the organisation has too many.
        """
        now, request = self._now(), self.request
        row = ReplyRow(request.session, self._key, self.digest, _iso(now), correlation=request.id, org=request.org)
        try:
            return await self._context.runtime.store.replies.reserve(row, expired=_iso(now - KEPT), most=KEYS)
        except KeysFull:
            raise LimitExceeded(
                f"Rate limit exceeded: {KEYS} calls of this organisation have gone on, or were sent with an "
                "Idempotency-Key, within 24 hours (idempotency_keys).",
                hint="ask again later, or make the same call again: its approval is as good for that",
            ) from None

    async def keep(self, outcome: str, *, status: int = 200, record: str | None = None) -> None:
        """Keep the outcome of a reserved call; of one that is too large, only that there was one, and its record."""
        body = outcome if len(outcome.encode()) <= ANSWER_BYTES else None
        replies = self._context.runtime.store.replies
        await replies.fulfil(self.request.session, self._key, status, body, record=record, max_bytes=ANSWERS_BYTES)

    async def release(self) -> None:
        """Let a reserved call that has had no effect go on later."""
        await self._context.runtime.store.replies.release(self.request.session, self._key)

    async def broken_off(self) -> str | None:
        """Return the record of a reserved call that has ended without its outcome being kept; ``None`` if it runs."""
        request = self.request
        query = AuditQuery(session=request.session, correlation=request.id, approval=request.id, limit=1)
        for record in (await self._context.runtime.audit.query(query)).items:
            is_late = self._now() >= datetime.fromisoformat(record.time) + _BROKEN_OFF
            return record.id if record.outcome == "interrupted" or is_late else None
        return None

    def spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Start a task that closing the kernel waits for."""
        return self._context.runtime.spawn(work)

    @property
    def _key(self) -> str:
        return f"suspended {self.request.id}"  # with a space, which no client's key has

    def _now(self) -> datetime:
        return datetime.fromisoformat(iso(self._context.runtime.clock.time_ns()))


async def find_suspended(context: SessionContext, id: str) -> SuspendedCall:
    """Return the call of a session behind a request. Raises ``NotFound`` for one that is not its principal's there."""
    approvals, principal = context.runtime.approvals, context.principal
    row = await approvals.find(id, principal.org)
    mine = (context.id, f"{principal.kind}:{principal.id}", principal.on_behalf_of)
    if row is None or (row.session, row.principal, row.on_behalf_of) != mine:
        raise NotFound(f"there is no call of this session that waits for an approval {id!r}")
    return SuspendedCall(row, context)


def _iso(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
