"""Calls that wait for an approval without a process, and are resumed once (spec 7, M19)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

from capset.clock import iso, iso_of
from capset.definitions.calls.messages import Json
from capset.definitions.governance.approvals import ApprovalRow
from capset.errors import LimitExceeded, NotFound
from capset.fingerprint.canonical import as_json
from capset.kernel.call.session_context import SessionContext
from capset.kernel.governance.approval_requests import own_request
from capset.stores.base import AuditQuery, ReplyRow
from capset.stores.base.replies import MAX_KEYS, MAX_REPLIES_BYTES, MAX_REPLY_BYTES, RETENTION, KeysFull

RESUME_WINDOW: Final = RETENTION - timedelta(hours=1)
"""How long after its decision a call may be resumed: shorter than its outcome is kept, so that it never runs twice."""
_OUTCOME_GRACE: Final = timedelta(minutes=1)
"""How long after a call was recorded its outcome may still be on its way into the store."""


@dataclass(frozen=True, slots=True)
class SuspendedCall:
    """A call of a session that has requested an approval, whether or not the request is decided.

    Only the request is stored until the call is resumed; then its outcome is kept as well, for 24 hours. The call is
    resumed in the one process that reserves it.
    """

    request: ApprovalRow
    _context: SessionContext

    @property
    def is_waiting(self) -> bool:
        """Whether the request is pending and not overdue."""
        return self.request.status == "pending" and not self._context.runtime.approvals.is_overdue(self.request)

    @property
    def arguments(self) -> Json | None:
        """The arguments of the call; ``None`` if some are secrets, which are not stored: only the caller has them."""
        text = self.request.arguments.encode()
        return Json(as_json(text).encode()) if self._context.runtime.digest(text) == self.request.digest else None

    @property
    def digest(self) -> str:
        """A digest of the call and its caller's permissions and attributes: its outcome is for an equal caller only."""
        principal = self._context.principal
        attributes = (entry.to_json() for entry in (principal.attributes, *principal.on_behalf_of_attributes))
        text = " ".join((self.request.digest, *sorted(principal.permissions), *attributes))
        return sha256(text.encode(errors="surrogatepass")).hexdigest()

    @property
    def is_expired(self) -> bool:
        """Whether the call can no longer be resumed, since its outcome may have been deleted already."""
        ended = self.request.decided_at or self.request.expires_at
        return not self.is_waiting and self._now() >= datetime.fromisoformat(ended) + RESUME_WINDOW

    async def wait_for_decision(self, seconds: float) -> bool:
        """Wait at most ``seconds`` until the request is decided; return whether it is."""
        if not self.is_waiting:
            return True
        row = await self._context.runtime.approvals.wait_for_decision(self.request, seconds)
        return row.status != "pending"

    async def withdraw(self) -> None:
        """End the request if it is pending or for this one call; an approval for the whole session stays."""
        if self.request.status == "pending" or self.request.scope == "once":
            approvals, request = self._context.runtime.approvals, self.request
            await approvals.withdraw([request.id], org=request.org, by=request.principal)

    async def reserve(self) -> ReplyRow | None:
        """Reserve the call and return ``None``, or return the existing row, which has no status while the call runs.

        The record of the call has the request's id as its correlation. By this, a call whose process died before it had
        any effect can be reserved again. Raises ``LimitExceeded`` if the organisation has too many of these rows.
        """
        now, request = self._now(), self.request
        row = ReplyRow(request.session, self._key, self.digest, iso_of(now), correlation=request.id, org=request.org)
        try:
            return await self._context.runtime.store.replies.reserve(
                row, expired=iso_of(now - RETENTION), max_keys=MAX_KEYS
            )
        except KeysFull:
            raise LimitExceeded(
                f"Rate limit exceeded: {MAX_KEYS} calls of this organisation were resumed, or were sent with an "
                "Idempotency-Key, within 24 hours (idempotency_keys).",
                hint="try again later, or make the same call again: the approval covers that, too",
            ) from None

    async def store_outcome(self, outcome: str, *, status: int = 200, record: str | None = None) -> None:
        """Store the outcome of a reserved call; if it is too large, store only its status and its record's id."""
        body = outcome if len(outcome.encode()) <= MAX_REPLY_BYTES else None
        replies = self._context.runtime.store.replies
        await replies.complete(
            self.request.session, self._key, status, body, record=record, max_bytes=MAX_REPLIES_BYTES
        )

    async def release(self) -> None:
        """Release a reserved call that has had no effect, so that it can be resumed later."""
        await self._context.runtime.store.replies.release(self.request.session, self._key)

    async def interrupted_record(self) -> str | None:
        """Return the id of the record of a reserved call that ended without a stored outcome; ``None`` if it runs."""
        request = self.request
        query = AuditQuery(session=request.session, correlation=request.id, tool=request.tool, limit=1)
        for record in (await self._context.runtime.audit.query(query)).items:
            is_late = self._now() >= datetime.fromisoformat(record.time) + _OUTCOME_GRACE
            return record.id if record.outcome == "interrupted" or is_late else None
        return None

    def spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Start a task that the kernel waits for when it closes."""
        return self._context.runtime.spawn(work)

    @property
    def _key(self) -> str:
        return f"suspended {self.request.id}"  # with a space, which no client's key can contain

    def _now(self) -> datetime:
        return datetime.fromisoformat(iso(self._context.runtime.clock.time_ns()))


async def find_suspended(context: SessionContext, id: str) -> SuspendedCall:
    """Return the call behind an approval request. Raises ``NotFound`` if it is another session's or principal's."""
    row = await own_request(context, id)
    if row is None:
        raise NotFound(f"there is no call of this session that waits for an approval {id!r}")
    return SuspendedCall(row, context)
