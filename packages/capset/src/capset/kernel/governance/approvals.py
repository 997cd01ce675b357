"""Approval requests: listing, deciding and waiting (spec 4, G16–G18, G45–G53)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any, Final
from weakref import WeakValueDictionary

from capset.clock import iso
from capset.definitions.calls.files import FileStat
from capset.definitions.governance.acts import ActName
from capset.definitions.governance.approvals import Answer, ApprovalRow, ApprovalStatus
from capset.definitions.principals import Principal
from capset.errors import Conflict, FileError, InvalidArguments, NotFound, PermissionDenied, StoreError
from capset.evaluation.code import known_code
from capset.evaluation.containment import is_contained
from capset.fingerprint.canonical import read
from capset.kernel.governance.acts import HOST, ActEntry, Actor, act_entry, actor_of
from capset.kernel.governance.approval_arguments import ShownArguments, check_answer, shown_arguments
from capset.kernel.governance.approval_decisions import (
    Decider,
    apply_answer,
    closed_reason,
    refusal_of,
    repetition_reason,
)
from capset.kernel.governance.approval_needs import ApprovalNeeds, approvals_of, needed_connection, round_of
from capset.kernel.governance.file_arguments import ShownFile, file_at, files_of
from capset.kernel.runtime import KernelRuntime
from capset.stores.base import ApprovalQuery, ApprovalStore, Page, PendingSummary

AGE_BOUNDS_SECONDS: Final = (300, 3_600, 86_400)
"""Bounds of the age groups in which pending requests are counted."""
_MAX_CONSULTED: Final = 1_000
_log = logging.getLogger("capset.kernel")


class ApprovalService:
    """The approval requests of one kernel's store: approvers list and decide them, calls wait for them."""

    def __init__(self, runtime: KernelRuntime) -> None:
        self._runtime = runtime
        self._decision_events: WeakValueDictionary[str, asyncio.Event] = WeakValueDictionary()
        """The requests that calls of this process wait for; a decision sets the event."""
        self._consulted: dict[str, None] = {}
        """The requests that the host's own approver was asked about, oldest first."""

    @property
    def _store(self) -> ApprovalStore:
        return self._runtime.store.approvals

    async def list(self, query: ApprovalQuery) -> Page[ApprovalRow]:
        """Return requests of an org, newest first; overdue ones are ``expired``."""
        await self.sweep()
        return await self._store.list(query)

    async def get(self, id: str, *, org: str | None) -> ApprovalRow:
        """Return a request. Raises ``NotFound`` if it does not exist or belongs to another org."""
        await self.sweep()
        return await self._get(id, org)

    async def summary(self, org: str | None) -> PendingSummary:
        """Count the pending requests of an org, by their age."""
        await self.sweep()
        now = self._runtime.clock.time_ns()
        times = tuple(iso(now - seconds * 1_000_000_000) for seconds in AGE_BOUNDS_SECONDS)
        return await self._store.summary(org, times)

    def refusal(self, row: ApprovalRow, by: Principal) -> str | None:
        """Return one sentence on why a principal may not approve a request, or ``None`` if it may.

        Anyone who sees a request may reject it.
        """
        if row.org != by.org:
            return "there is no such request in your organisation"
        if row.status != "pending" or self.is_overdue(row):
            return closed_reason(row)
        reason = refusal_of(row, by, self._runtime.governance, self._now())
        return reason or repetition_reason(approvals_of(row), by)

    async def decide(self, id: str, answer: Answer, *, by: Principal) -> ApprovalRow:
        """Answer a request of the decider's org, and return its new row.

        It stays ``pending`` as long as it needs further approvals. Raises ``NotFound`` if it does not exist or belongs
        to another org; ``PermissionDenied`` for an approval that the rules for approvers do not allow the decider, for
        an anonymous decider, and for the decider's own request, unless the governance allows that;
        ``InvalidArguments`` for changed arguments that do not fit the tool's schema; ``Conflict`` if the request is
        already decided, is overdue, or is in another round than the answer says, and for a second approval by the same
        principal.
        """
        row = await self.get(id, org=by.org)
        reason = refusal_of(row, by, self._runtime.governance, self._now()) if answer.approved else None
        if reason is not None:  # before any error that reveals something about the arguments
            raise PermissionDenied(f"Permission denied: {reason}.")
        if row.status == "pending":
            await check_answer(self._runtime.store.lineage, row, answer)
        return await self._decide(row, answer, by)

    async def complete_connection(self, connection: str, owner: Principal) -> None:
        """End the open requests of an org that wait for a principal to connect something: it has connected it."""
        principal, query = owner.qualified_id, ApprovalQuery(owner.org, "pending", limit=100)
        while True:
            page = await self._store.list(query)
            for row in page.items:
                try:
                    needs = ApprovalNeeds.of_row(row)
                except StoreError:
                    continue  # one that cannot be read keeps no other from going on
                if (needs.connect, needs.owner) == (connection, principal):
                    await self.complete(row)
            if page.next is None:
                return
            query = replace(query, before=page.next)

    async def complete(self, row: ApprovalRow) -> None:
        """End a request that waits for its owner to connect something, because it is connected now.

        This is no approval; the act is that of connecting.
        """
        owner = ApprovalNeeds.of_row(row).owner
        ended = replace(row, status="used", decided_by=owner, decided_at=self._now(), note="connected")
        if await self._move(ended, "pending", previous=row) and (event := self._decision_events.get(row.id)):
            event.set()

    async def withdraw(self, ids: Iterable[str], *, org: str | None, by: str) -> None:
        """End requests that are no longer needed, since ``by`` has cancelled what waited for them."""
        for request in ids:
            while (row := await self._store.get(org, request)) is not None and row.status in ("pending", "approved"):
                ended = replace(row, status="expired", decided_by=by, note="withdrawn")
                if await self._move(ended, row.status, previous=row):
                    break

    async def sweep(self) -> None:
        """End the overdue requests, which count as rejected, and record the escalations that are due."""
        now, batch = self._now(), 16  # requests that are loaded at once, each with its arguments
        while rows := await self._store.overdue(now, batch):
            for row in rows:
                await self._move(replace(row, status="expired"), row.status, previous=row)
        while rows := await self._store.escalating(now, batch):
            for row in rows:
                await self._escalate(row)

    async def show_arguments(self, row: ApprovalRow, *, by: Principal) -> ShownArguments:
        """Return a request's arguments, with only those masked that its tool's schema says are secret.

        An act records that they were shown, and to whom. Without a schema, and once the request is decided, the
        requested arguments are masked as in the request.
        """
        arguments = await shown_arguments(self._runtime.store.lineage, row)
        await self._record_showing(row, "arguments", by)  # first: what cannot be recorded is not shown
        return arguments

    async def show_file(self, row: ApprovalRow, number: int, *, by: Principal) -> ShownFile:
        """Return a file that a request's arguments name, by its number in ``files_of``, for reading.

        An act records that it was shown, and to whom. Raises ``NotFound`` if the request has no such file or the store
        does not have it, and ``Conflict`` if it has changed since the approval was requested.
        """
        file, files = file_at(row, number), self._runtime.store.files
        try:
            stat, digest = await files.digest(row.session, file.path)
        except FileError:
            raise NotFound(
                f"the file {file.path!r} cannot be shown: a capability brings it, or it was deleted"
            ) from None
        changed = f"the file {file.path!r} has changed since the approval was requested: the call will need a new one"
        if digest != file.sha256:
            raise Conflict(changed)

        async def read(*, start: int = 0, size: int | None = None) -> tuple[FileStat, bytes]:
            current, content = await files.read(row.session, file.path, start=start, size=size)
            if current.version != stat.version:
                raise Conflict(changed)
            return current, content

        await self._record_showing(row, file.path, by)
        return ShownFile(stat, read)

    async def _record_showing(self, row: ApprovalRow, subject: str, by: Principal) -> None:
        act = self._act_of("approval.show", {"id": row.id, "shown": subject}, row, actor_of(by))
        await self._runtime.store.audit.commit(act)

    async def wait(self, row: ApprovalRow, announce: Callable[[], Awaitable[None]]) -> ApprovalRow:
        """Return a request once it is decided or overdue. The request outlives the call that waits.

        ``announce``, which notifies readers of the call's messages, is awaited first, once no decision can be missed.
        """
        event = self._decision_events.setdefault(row.id, asyncio.Event())
        await announce()
        while row.status == "pending":
            row = await self._poll(row, event)
            if row.status == "pending":  # the call that asked the host's approver has left
                row = await self.consult(row)
        return row

    async def wait_for_decision(self, row: ApprovalRow, seconds: float) -> ApprovalRow:
        """Return an open request once it is decided or overdue, or unchanged after ``seconds``."""
        event = self._decision_events.setdefault(row.id, asyncio.Event())
        try:
            async with asyncio.timeout(seconds):
                return await self._poll(row, event)
        except TimeoutError:
            return row

    async def find(self, id: str, org: str | None) -> ApprovalRow | None:
        """Return a request of an org with its stored status, or ``None``."""
        return await self._store.get(org, id) if id.isprintable() else None

    async def expire_incomplete(self, row: ApprovalRow) -> None:
        """End an approval from a server without rules for approvers, given before the request had all it needs."""
        await self._store.move(replace(row, status="expired", note="not approved by all that it needs"), row.status)

    def notify(self, id: str | None) -> None:
        """Make calls check at once whether another process has decided a request; ``None`` stands for all."""
        for event in [event for request, event in self._decision_events.items() if id in (None, request)]:
            event.set()

    def is_overdue(self, row: ApprovalRow) -> bool:
        """Whether a request is past its ``expires_at``."""
        return row.expires_at <= self._now()

    async def _poll(self, row: ApprovalRow, event: asyncio.Event) -> ApprovalRow:
        pause = 0.05  # seconds until the next check whether another process has decided
        while True:
            try:
                async with asyncio.timeout(pause):
                    await event.wait()
            except TimeoutError:
                pass
            event.clear()  # a false notice ends one pause only
            current = await self._store.get(row.org, row.id)
            if current is None:
                return replace(row, status="expired")
            if current.status != "pending":
                return current
            ended = replace(current, status="expired")
            if self.is_overdue(current) and await self._move(ended, "pending", previous=current):
                return ended
            if current.escalates_at is not None and current.escalates_at <= self._now():
                await self._escalate(current)
            if self.should_consult(current):
                return current
            pause = min(2 * pause, 1.0)

    def should_consult(self, row: ApprovalRow) -> bool:
        """Whether to ask the host's own approver about a request: it is open, and the approver was not asked yet."""
        return (
            self._runtime.governance.approver is not None
            and row.status == "pending"
            and row.id not in self._consulted
            and needed_connection(row) is None
        )

    async def consult(self, row: ApprovalRow) -> ApprovalRow:
        """Ask the host's own approver about an open request, and return the updated row."""
        self._consulted[row.id] = None
        try:
            answer = await self._ask_host(row)
        except BaseException:
            self._consulted.pop(row.id, None)  # another call may ask again
            raise
        if len(self._consulted) > _MAX_CONSULTED:
            del self._consulted[next(iter(self._consulted))]
        if answer is None:
            return row
        try:
            await check_answer(self._runtime.store.lineage, row, answer)
            return await self._decide(row, answer, None)
        except (PermissionDenied, InvalidArguments) as error:
            _log.warning("the approver's answer is ignored, request %s: %s", row.id, error.message)
        except Conflict:  # another approver was faster
            pass
        return await self._get(row.id, row.org)

    async def _ask_host(self, row: ApprovalRow) -> Answer | None:
        approver = self._runtime.governance.approver
        try:
            return None if approver is None else await approver.decide(row)
        except BaseException as error:
            if not is_contained(error):
                raise
            _log.error("the approver failed, request %s", row.id, exc_info=error)
            return Answer(approved=False, note="the approver failed")

    async def _get(self, id: str, org: str | None) -> ApprovalRow:
        row = await self.find(id, org)
        if row is None:
            raise NotFound(f"there is no approval request {id!r}")
        return row

    async def _decide(self, row: ApprovalRow, answer: Answer, by: Decider) -> ApprovalRow:
        """Answer a request as a principal or as the host's own approver; retry if others change it first."""
        actor, runtime = HOST if by is None else actor_of(by), self._runtime
        while True:
            if row.status != "pending" or self.is_overdue(row):
                raise Conflict(f"the request {row.id!r} is no longer open: {closed_reason(row)}")
            changed_row = apply_answer(row, answer, by, runtime.governance, runtime.clock.time_ns())
            if await self._move(changed_row, "pending", previous=row, act=self._act(changed_row, answer, actor)):
                break
            row = await self._get(row.id, row.org)
        if changed_row.status != "pending" and (event := self._decision_events.get(row.id)) is not None:
            event.set()
        return changed_row

    async def _escalate(self, row: ApprovalRow) -> None:
        """Record an escalation, once, and notify channels of it."""
        now = self._now()
        after = ApprovalNeeds.of_row(row).next_escalation(row.created_at, now)
        about = {"id": row.id, "call": row.call, "principal": row.principal}
        act = self._act_of("approval.escalate", about, row, HOST)
        changed_row = replace(row, escalates_at=after, escalated_at=now)
        deliveries = self._runtime.deliveries.for_event("approval.escalated", changed_row, occurrence=now)
        if await self._store.move(changed_row, "pending", previous=row, act=act, deliveries=deliveries):
            self._runtime.deliveries.wake(deliveries)

    async def _move(
        self, row: ApprovalRow, expected: ApprovalStatus, *, previous: ApprovalRow, act: ActEntry | None = None
    ) -> bool:
        """Replace a request if it is unchanged since it was read, and notify channels if that ends it."""
        deliveries = self._runtime.deliveries
        if row.status != "pending":  # unmasked arguments are kept only while an approver may need to see them
            row = replace(row, unmasked=None)
        notices = deliveries.for_ending(row) if expected == "pending" else ()
        is_moved = await self._store.move(row, expected, previous=previous, act=act, deliveries=notices)
        if is_moved:
            deliveries.wake(notices)
        return is_moved

    def _act(self, row: ApprovalRow, answer: Answer, actor: Actor) -> ActEntry:
        about: dict[str, Any] = {"id": row.id, "call": row.call, "principal": row.principal}
        if answer.approved:
            about |= {"scope": answer.scope, "modified": row.modified is not None}
        if answer.approved and (needed := ApprovalNeeds.of_row(row).approvals) > 1:
            about |= {"approval": len(approvals_of(row)), "of": needed, "round": round_of(row)}
        return self._act_of("approval.approve" if answer.approved else "approval.reject", about, row, actor)

    def _act_of(self, name: ActName, about: Mapping[str, Any], row: ApprovalRow, actor: Actor) -> ActEntry:
        return act_entry(
            self._runtime.ids,
            name,
            about,
            by=actor,
            redact=self._runtime.redactor,
            org=row.org,
            session=row.session,
            agent=row.agent,
            tool=row.tool,
            approval=row.id,
        )

    def _now(self) -> str:
        return iso(self._runtime.clock.time_ns())


def rejection(row: ApprovalRow) -> str:
    """Return the reason for a rejection, with the name of its decider."""
    return f"rejected by {row.decided_by}" + (f": {row.note}" if row.note else "")


def to_event_data(row: ApprovalRow) -> Mapping[str, Any]:
    """Return a request as the data of the event ``approval.requested``: everything an approver needs to know."""
    code = known_code(row.code_hash)
    return {
        "id": row.id,
        "tool": row.tool,
        "arguments": read(row.arguments),
        "reason": row.reason,
        "principal": row.principal,
        "code_hash": row.code_hash,
        "code": code and {"kind": code.kind, "name": code.name, "version": code.version},
        "expires_at": row.expires_at,
        "needs": None if row.needs is None else ApprovalNeeds.of_row(row).summary(),
        "connect": needed_connection(row),
        "masked": row.unmasked is not None,
        "files": [asdict(file) for file in files_of(row)],
    }
