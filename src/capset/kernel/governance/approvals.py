"""Approvals: requests are opened, met by equal calls, decided and waited for (spec 4, G16–G18)."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from weakref import WeakValueDictionary

from capset.clock import iso
from capset.definitions.approvals import Answer, ApprovalRow, EqualCall
from capset.definitions.principals import Principal
from capset.errors import (
    Conflict,
    DefinitionError,
    InvalidArguments,
    LimitExceeded,
    NotFound,
    PermissionDenied,
)
from capset.evaluation.code import code_of, known_code
from capset.evaluation.error_mapping import is_contained
from capset.evaluation.policies import Ruling
from capset.fingerprint.canonical import PROFILE, NotCanonical, canonical
from capset.fingerprint.payloads import tool_payload
from capset.kernel.call.invocation import Invocation
from capset.kernel.governance.audit import masked_arguments
from capset.kernel.runtime import KernelRuntime
from capset.kernel.streams.emission import emit_event
from capset.schemas.json_schema import compile_json_schema
from capset.schemas.validation_errors import SchemaMismatch
from capset.stores.base import ApprovalPage, ApprovalQuery, ApprovalStore, PayloadRow

LOOK_SECONDS: Final = (0.05, 1.0)
"""How soon, and then how seldom, a call that waits looks whether another process has decided."""
_HOST: Final = "host:approver"
_REMEMBERED: Final = 1_000
_log = logging.getLogger("capset.kernel")


class ApprovalService:
    """The requests of one kernel's store: who may decide lists and decides them here; calls ask and wait."""

    def __init__(self, runtime: KernelRuntime) -> None:
        self._runtime = runtime
        self._decided: WeakValueDictionary[str, asyncio.Event] = WeakValueDictionary()
        """Of those that calls of this process wait for."""
        self._consulted: dict[str, None] = {}
        """Those that the host's own approver was asked about, the oldest first."""

    @property
    def _store(self) -> ApprovalStore:
        return self._runtime.store.approvals

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
        the governance allows that; ``InvalidArguments`` for other arguments that do not fit the tool's schema;
        ``Conflict`` for one that was decided already, or whose time is up.
        """
        row = await self.get(id, org=by.org)
        if answer.approved and not self._runtime.governance.own_approvals and _is_own(row, by):
            raise PermissionDenied("Permission denied: nobody approves their own request.")
        if answer.arguments is not None and row.status == "pending":
            await self._check_arguments(row, answer.arguments)
        return await self._decide(row, answer, _named(by))

    async def sweep(self) -> None:
        """End the requests whose time is up: each counts as rejected (G17)."""
        now = self._now()
        while rows := await self._store.overdue(now):
            for row in rows:
                await self._store.move(replace(row, status="expired"), row.status)

    async def standing(self, call: Invocation, digest: str) -> ApprovalRow | None:
        """Return the request that stands for a call: that of an equal one, until it expires (G17, G18)."""
        context, tool = call.context, call.compiled
        who = context.principal
        equal = EqualCall(
            org=who.org,
            session=context.id,
            agent=context.block.name,
            principal=_named(who),
            on_behalf_of=who.on_behalf_of,
            tool=tool.name,
            tool_hash=tool.hash or "",
            digest=digest,
            code_hash=(code_hash_of(call) or "") if self._runtime.governance.code_voids_approvals else None,
        )
        return await self._store.standing(equal, self._now())

    async def ask(self, call: Invocation, question: Ruling, digest: str) -> ApprovalRow:
        """Open a request for the approval of a call, or meet the one of an equal call, and return it.

        Raises ``LimitExceeded`` where too many of the principal's are open.
        """
        runtime, context, tool = self._runtime, call.context, call.compiled
        now = runtime.clock.time_ns()
        row = ApprovalRow(
            id=runtime.ids.new(),
            call=call.id,
            org=context.principal.org,
            session=context.id,
            agent=context.block.name,
            principal=_named(context.principal),
            on_behalf_of=context.principal.on_behalf_of,
            tool=tool.name,
            tool_hash=tool.hash or "",
            runtime_hash=context.snapshot.runtime_hash,
            arguments=masked_arguments(call),
            digest=digest,
            reason=question.reason,
            policies=json.dumps(question.policies),
            created_at=iso(now),
            expires_at=iso(now + round(runtime.governance.approval_seconds * 1e9)),
            code_hash=code_hash_of(call),
        )
        if tool.tool is not None and tool.hash is not None:
            # By its schema, whoever decides in another process can tell whether other arguments fit.
            payloads = [PayloadRow(row.org, tool.hash, PROFILE, "tool", canonical(tool_payload(tool.tool)).decode())]
            code = code_of(tool.tool)
            if code.hash is not None and code.covers is not None:
                payloads.append(PayloadRow(row.org, code.hash, PROFILE, "code", code.covers))
            await runtime.store.lineage.record_payloads(payloads)
        most = runtime.governance.pending_approvals
        found = await self._store.open(row, most=most, by_code=runtime.governance.code_voids_approvals)
        if found is None:
            call.decision, call.reason = "deny", f"{most} requests for approvals are open"
            raise LimitExceeded(
                f"Rate limit exceeded: {most} requests of this principal wait for approvals already.",
                hint="have some of them decided, or wait until they expire",
            )
        return found

    async def wait(self, call: Invocation, row: ApprovalRow) -> ApprovalRow:
        """Return a request once it is decided, or its time is up, which a call's deadline ends too.

        Whoever reads the call's messages is told by an event. The request outlives a call that waits no more.
        """
        decided = self._decided.setdefault(row.id, asyncio.Event())
        await emit_event(call, "approval.requested", shown(row))
        while row.status == "pending":
            row = await self._look(row, decided)
            if row.status == "pending":  # whoever asked the host's approver has left
                row = await self.consult(row)
        return row

    async def find(self, id: str, org: str | None) -> ApprovalRow | None:
        """Return a request of an org, as it is, or ``None``."""
        return await self._store.get(org, id) if id.isprintable() else None

    def is_of_other_code(self, row: ApprovalRow, call: Invocation) -> bool:
        """Whether a request was for other code than a call has, where that counts (G17)."""
        return self._runtime.governance.code_voids_approvals and row.code_hash != code_hash_of(call)

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
            if self.is_to_consult(found):
                return found
            pause = min(2 * pause, LOOK_SECONDS[1])

    def is_to_consult(self, row: ApprovalRow) -> bool:
        """Whether the host's own approver is to be asked about a request: it is open, and was not asked yet."""
        return (
            self._runtime.governance.approver is not None and row.status == "pending" and row.id not in self._consulted
        )

    async def consult(self, row: ApprovalRow) -> ApprovalRow:
        """Ask the host's own approver about an open request, and return it as it is then."""
        self._consulted[row.id] = None
        try:
            answer = await self._ask_host(row)
        except BaseException:
            self._consulted.pop(row.id, None)  # somebody else may ask again
            raise
        if len(self._consulted) > _REMEMBERED:
            del self._consulted[next(iter(self._consulted))]
        if answer is None:
            return row
        try:
            return await self._decide(row, answer, _HOST)
        except Conflict:  # somebody else was quicker
            return await self._get(row.id, row.org)

    async def _check_arguments(self, row: ApprovalRow, arguments: Mapping[str, Any]) -> None:
        """Raise ``InvalidArguments`` for arguments that do not fit the schema of a request's tool as it was.

        What a schema cannot say, and the tool of a request that an earlier version opened, is left to the call.
        """
        kept = await self._runtime.store.lineage.payload(row.org, row.tool_hash)
        if kept is None:
            return
        try:
            schema = compile_json_schema(f"the tool {row.tool!r}", json.loads(kept.payload)["schema"])
        except DefinitionError:  # beyond what is checked of schemas that others wrote
            return
        try:
            schema.check(dict(arguments))
        except SchemaMismatch as misfit:
            listed = "; ".join(map(str, misfit.fields))
            raise InvalidArguments(f"Invalid arguments for {row.tool!r}: {listed}", fields=misfit.fields) from None

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
            raise NotFound(f"there is no request for an approval {id!r}")
        return row

    async def _decide(self, row: ApprovalRow, answer: Answer, by: str) -> ApprovalRow:
        if row.status != "pending":
            told = f"it was {row.status}" + (f" by {row.decided_by}" if row.decided_by else "")
            raise Conflict(f"the request {row.id!r} is not open any more: {told}")
        now = self._runtime.clock.time_ns()
        moved = replace(
            row,
            status="approved" if answer.approved else "rejected",
            scope=answer.scope,
            modified=None if answer.arguments is None else _written(answer.arguments),
            note=answer.note,
            decided_by=by,
            decided_at=iso(now),
            expires_at=iso(now + round(self._runtime.governance.approval_seconds * 1e9)),
        )
        if not await self._store.move(moved, "pending"):
            raise Conflict(f"the request {row.id!r} is not open any more: somebody else has just decided it")
        if (event := self._decided.get(row.id)) is not None:
            event.set()
        return moved

    def _now(self) -> str:
        return iso(self._runtime.clock.time_ns())


def code_hash_of(call: Invocation) -> str | None:
    """Return the hash of the code that a call has, if there is one."""
    return None if call.compiled.tool is None else code_of(call.compiled.tool).hash


def rejection(row: ApprovalRow) -> str:
    """Return why a request was rejected, and by whom."""
    return f"rejected by {row.decided_by}" + (f": {row.note}" if row.note else "")


def shown(row: ApprovalRow) -> Mapping[str, Any]:
    """Return a request as the data of the event ``approval.requested``: what whoever decides has to know."""
    code = known_code(row.code_hash)
    return {
        "id": row.id,
        "tool": row.tool,
        "arguments": json.loads(row.arguments),
        "reason": row.reason,
        "principal": row.principal,
        "code_hash": row.code_hash,
        "code": code and {"kind": code.kind, "name": code.name, "version": code.version},
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
