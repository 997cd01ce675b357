"""Submission of runs to workers, and their cancellation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import to_json

from capset.errors import Conflict, LimitExceeded, NotFound, PermissionDenied
from capset.stores.base import RunKind, RunQuery, RunRow, SessionRow
from capset.stores.base.runs import UNFINISHED, RunsFull
from capset.wire.pages import PAGE_BYTES
from capset.wire.turns import cancelled_event
from capset_server.auth.callers import Caller
from capset_server.runs.observation import is_own

if TYPE_CHECKING:
    from capset_server.service import Service

UNFINISHED_RUNS: Final = 10_000
"""The maximum number of unfinished runs of an organisation."""
_TRIES: Final = 20


def described(service: Service, caller: Caller) -> str:
    """Return a description of a caller, by which workers find it again, as JSON text.

    Raises ``PermissionDenied`` for a caller with a token, which workers cannot present.
    """
    if caller.key is not None and caller.key_id is None:
        raise PermissionDenied(
            "Permission denied: a run continues without its caller, and a worker cannot present the caller's token",
            hint="queue it with an API key: capset key create NAME --principal WHO",
        )
    return to_json(service.turns.described(caller)).decode()


async def submit(
    service: Service,
    caller: Caller,
    session: SessionRow,
    kind: RunKind,
    content: Any,  # any JSON
    *,
    queue: str,
    correlation: str,
) -> RunRow:
    """Store a run of a caller's session for the workers of a queue, and return it.

    Raises ``LimitExceeded`` if the organisation has the maximum number of unfinished runs.
    """
    row = new_run(service, caller, session, kind, to_json(content).decode(), queue=queue, correlation=correlation)
    try:
        await service.kernel.store.runs.add(row, max_unfinished=UNFINISHED_RUNS)
    except RunsFull:
        raise too_many() from None
    return row


def new_run(
    service: Service,
    caller: Caller,
    session: SessionRow,
    kind: RunKind,
    content: str,
    *,
    queue: str,
    correlation: str,
) -> RunRow:
    """Return the row of a run to queue now. ``content`` is JSON text."""
    principal, now = caller.principal, service.kernel.now()
    return RunRow(
        id=service.kernel.new_id(),
        org=principal.org,
        principal=principal.id,
        principal_kind=principal.kind,
        kind=kind,
        queue=queue,
        session=session.id,
        agent=session.agent,
        caller=described(service, caller),
        content=content,
        correlation=correlation,
        created_at=now,
        due_at=now,
    )


def too_many() -> LimitExceeded:
    """Return the error for an organisation with too many unfinished runs."""
    return LimitExceeded(
        f"Rate limit exceeded: {UNFINISHED_RUNS} runs of this organisation are unfinished (runs). Nothing was queued.",
        hint="wait until some have ended, or cancel some",
    )


async def find_run(service: Service, caller: Caller, id: str) -> RunRow:
    """Return a run of the caller. Raises ``NotFound``, also for another caller's run."""
    row = await service.kernel.store.runs.get(id)
    if row is None or not is_own(caller, row):
        raise NotFound(f"there is no run {id!r}")
    return row


async def cancel_run(service: Service, caller: Caller, id: str) -> RunRow:
    """Cancel a run of the caller, and return it. A run that has ended stays as it is.

    Raises ``Conflict`` for a call that has begun, since its tool runs to the end.
    """
    kernel, by = service.kernel, caller.principal.id
    for _ in range(_TRIES):
        row = await find_run(service, caller, id)
        if row.state not in UNFINISHED:
            return row
        if row.state == "queued" or row.kind == "call":
            if row.state == "running":
                raise Conflict(f"the run {id!r} is a call that has begun: its tool runs to the end")
            outcome = cancelled_event(by).data
            ended = replace(row, state="cancelled", due_at=None, ended_at=kernel.now(), outcome=outcome)
            if await kernel.store.runs.change(row, ended):
                if row.approval is not None and not await _is_shared(service, ended):
                    await kernel.approvals.withdraw((row.approval,), org=row.org, by=by)
                return ended
            continue  # it has just begun
        try:
            await service.turns.turns.cancel(await service.session_row(caller, row.session), id, by=by)
        except (NotFound, Conflict):  # it has just ended, or was renewed at the same time
            continue
    raise Conflict(f"the run {id!r} is being changed by others all the time: try again")


async def _is_shared(service: Service, row: RunRow) -> bool:
    """Return whether another unfinished run has the same approval request, for an equal call."""
    for state in UNFINISHED:
        query = RunQuery(row.org, row.principal, row.principal_kind, state=state, limit=1000, max_bytes=PAGE_BYTES)
        while True:
            page = await service.kernel.store.runs.list(query)
            if any(run.approval == row.approval for run in page.items):
                return True
            if page.next is None:
                break
            query = replace(query, before=page.next)
    return False


def content_of_call(tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a run that is a call."""
    return {"tool": tool, "arguments": dict(arguments)}
