"""The desk where approvals are asked for, given and waited for (spec 4, G16–G18)."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from capset.clock import iso
from capset.definitions.approvals import Answer, ApprovalRow
from capset.definitions.principals import Principal
from capset.errors import (
    Conflict,
    InvalidArguments,
    NotFound,
    PermissionDenied,
    StoreError,
)
from capset.evaluation.containment import is_contained
from capset.evaluation.policies import Ruling
from capset.fingerprint.canonical import NotCanonical, canonical
from capset.kernel.audit import digest_of, masked_arguments
from capset.kernel.emission import emit_event
from capset.kernel.invocation import Invocation
from capset.kernel.world import World
from capset.stores.base import ApprovalPage, ApprovalQuery, ApprovalStore

LOOK_SECONDS: Final = (0.05, 1.0)
"""How soon, and then how seldom, a call that waits looks whether another process has decided."""
_HOST: Final = "host:approver"
_log = logging.getLogger("capset.kernel")


class Approvals:
    """The requests of one kernel's store: who may decide lists and decides them here; calls ask and wait."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._decided: dict[str, asyncio.Event] = {}
        """Of those that calls of this process wait for."""

    @property
    def _store(self) -> ApprovalStore:
        return self._world.store.approvals

    async def list(self, query: ApprovalQuery) -> ApprovalPage:
        """Return requests of an org, newest first; those whose time is up are ``expired``."""
        await self.sweep()
        return await self._store.list(query)

    async def get(self, id: str, *, org: str | None) -> ApprovalRow:
        """Return a request. Raises ``NotFound`` for one that is not there, or another org's."""
        await self.sweep()
        return await self._get(id, org)

    async def decide(self, id: str, answer: Answer, *, by: Principal) -> ApprovalRow:
        """Answer a request of the decider's org, and return it as it is now (G17).

        Raises ``NotFound`` for one that is not there, or another org's; ``PermissionDenied`` for somebody's own, unless
        the governance allows that; ``Conflict`` for one that was decided already, or whose time is up.
        """
        row = await self.get(id, org=by.org)
        if answer.approved and not self._world.governance.own_approvals and _is_own(row, by):
            raise PermissionDenied("Permission denied: nobody approves their own request.")
        return await self._decide(row, answer, _named(by))

    async def sweep(self) -> None:
        """End the requests whose time is up: each counts as rejected (G17)."""
        now = self._now()
        while rows := await self._store.overdue(now):
            for row in rows:
                await self._store.move(replace(row, status="expired"), row.status)

    async def ask(self, call: Invocation, question: Ruling) -> ApprovalRow:
        """Keep a request for the approval of a call, and return it; the host's own approver may have answered it."""
        world, place, tool = self._world, call.place, call.road
        now = world.clock.time_ns()
        row = ApprovalRow(
            id=world.ids.new(),
            call=call.id,
            org=place.principal.org,
            session=place.id,
            agent=place.block.name,
            principal=_named(place.principal),
            on_behalf_of=place.principal.on_behalf_of,
            tool=tool.name,
            tool_hash=tool.hash or "",
            runtime_hash=place.snapshot.runtime_hash,
            arguments=masked_arguments(call),
            digest=digest_of(call),
            reason=question.reason,
            policies=json.dumps(question.policies),
            created_at=iso(now),
            expires_at=iso(now + round(world.governance.approval_seconds * 1e9)),
        )
        await self._store.create(row)
        try:
            answer = await self._ask_host(row)
        except BaseException:
            self._world.spawn(self._abandon(row))
            raise
        return row if answer is None else await self._decide(row, answer, _HOST)

    async def standing(self, call: Invocation, digest: str) -> ApprovalRow | None:
        """Return the approval that covers a call: of its session, its tool as it is now, and its arguments (G17)."""
        place, now = call.place, self._now()
        query = ApprovalQuery(
            place.principal.org, "approved", place.id, tool_hash=call.road.hash, digest=digest, limit=100
        )
        found = (await self._store.list(query)).items
        mine = _named(place.principal), place.principal.on_behalf_of
        return next(
            (
                row
                for row in found
                if row.scope == "session" and row.expires_at > now and (row.principal, row.on_behalf_of) == mine
            ),
            None,
        )

    async def wait(self, call: Invocation, row: ApprovalRow) -> ApprovalRow:
        """Return a request once it is decided, or its time is up, which a call's deadline ends too.

        Whoever reads the call's messages is told by an event.
        """
        decided = self._decided[row.id] = asyncio.Event()
        try:
            await emit_event(call, "approval.requested", shown(row))
            while row.status == "pending":
                row = await self._look(row, decided)
        except BaseException:
            # Nobody waits for the answer any more: it would come to nothing.
            self._world.spawn(self._abandon(row))
            raise
        finally:
            del self._decided[row.id]
        return row

    async def use(self, row: ApprovalRow) -> bool:
        """Use up an approval for one call; return whether it was there to be used."""
        return row.scope == "session" or await self._store.move(replace(row, status="used"), "approved")

    async def give_back(self, row: ApprovalRow) -> None:
        """Let an approval be used again whose call never started (G3)."""
        if row.scope == "once":
            await self._store.move(replace(row, status="approved"), "used")

    async def find(self, id: str, org: str | None) -> ApprovalRow | None:
        """Return a request of an org, as it is, or ``None``."""
        return await self._store.get(org, id) if id.isprintable() else None

    def is_overdue(self, row: ApprovalRow) -> bool:
        """Whether a request's time is up."""
        return row.expires_at <= self._now()

    async def _look(self, row: ApprovalRow, decided: asyncio.Event) -> ApprovalRow:
        pause = LOOK_SECONDS[0]
        while True:
            try:
                async with asyncio.timeout(pause):
                    await decided.wait()
            except TimeoutError:
                pass
            found = await self._store.get(row.org, row.id)
            if found is None:
                return replace(row, status="expired")
            if found.status != "pending":
                return found
            if self.is_overdue(found) and await self._store.move(replace(found, status="expired"), "pending"):
                return replace(found, status="expired")
            pause = min(2 * pause, LOOK_SECONDS[1])

    async def _abandon(self, row: ApprovalRow) -> None:
        try:
            await self._store.move(replace(row, status="expired", note="the call waits no more"), "pending")
        except StoreError as error:
            _log.error("the request %s stays open until it expires: %s", row.id, error.message)

    async def _ask_host(self, row: ApprovalRow) -> Answer | None:
        approver = self._world.governance.approver
        if approver is None:
            return None
        try:
            return await approver.decide(row)
        except BaseException as error:
            if not is_contained(error):
                raise
            _log.error("the approver failed, request %s", row.id, exc_info=error)
            return Answer(approved=False, note="the approver failed")

    async def _get(self, id: str, org: str | None) -> ApprovalRow:
        row = await self.find(id, org)
        if row is None:
            raise NotFound(f"there is no request for an approval {id!r}")
        return row

    async def _decide(self, row: ApprovalRow, answer: Answer, by: str) -> ApprovalRow:
        if row.status != "pending":
            told = f"it was {row.status}" + (f" by {row.decided_by}" if row.decided_by else "")
            raise Conflict(f"the request {row.id!r} is not open any more: {told}")
        now = self._world.clock.time_ns()
        moved = replace(
            row,
            status="approved" if answer.approved else "rejected",
            scope=answer.scope,
            modified=None if answer.arguments is None else _written(answer.arguments),
            note=answer.note,
            decided_by=by,
            decided_at=iso(now),
            expires_at=iso(now + round(self._world.governance.approval_seconds * 1e9)),
        )
        if not await self._store.move(moved, "pending"):
            raise Conflict(f"the request {row.id!r} is not open any more: somebody else has just decided it")
        if (event := self._decided.get(row.id)) is not None:
            event.set()
        return moved

    def _now(self) -> str:
        return iso(self._world.clock.time_ns())


def rejection(row: ApprovalRow) -> str:
    """Return why a request was rejected, and by whom."""
    return f"rejected by {row.decided_by}" + (f": {row.note}" if row.note else "")


def shown(row: ApprovalRow) -> Mapping[str, Any]:
    """Return a request as the data of the event ``approval.requested``: what whoever decides has to know."""
    return {
        "id": row.id,
        "tool": row.tool,
        "arguments": json.loads(row.arguments),
        "reason": row.reason,
        "principal": row.principal,
        "expires_at": row.expires_at,
    }


def _is_own(row: ApprovalRow, by: Principal) -> bool:
    """Whether anybody who decides, or for whom that is done, asked, or is whom it was asked for."""
    return not _everybody(_named(by), by.on_behalf_of).isdisjoint(_everybody(row.principal, row.on_behalf_of))


def _everybody(principal: str, on_behalf_of: str | None) -> set[str]:
    # An id may have " for " in it: it is taken apart on both sides, so that nobody hides behind one.
    return {*f"{principal} for {on_behalf_of or ''}".split(" for ")} - {""}


def _named(principal: Principal) -> str:
    return f"{principal.kind}:{principal.id}"


def _written(arguments: Mapping[str, Any]) -> str:
    try:
        return canonical(dict(arguments)).decode()
    except (NotCanonical, ValueError, TypeError, RecursionError) as error:
        raise InvalidArguments(f"the arguments of an approval are JSON data: {error}") from None
