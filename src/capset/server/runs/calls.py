"""Calls that are runs: each is made under the run's id as its idempotency key, so that no effect comes twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic_core import from_json, to_json

from capset.definitions.messages import Json
from capset.errors import CapsetError, Conflict, Interrupted
from capset.server.auth.callers import Caller
from capset.server.http.idempotency import Idempotency
from capset.server.service import Service
from capset.stores.base import AuditQuery, RunRow, RunState
from capset.wire.calls import approval_of, call_data
from capset.wire.errors import error_shape


async def do_call(service: Service, run: RunRow) -> bool:
    """Make the call of a run if it is not made yet; return whether the run has ended or waits, or is another's now.

    Its correlation is the run's id, by which its record is found. One that was broken off is made again only if its
    tool reads or is idempotent, or had not begun.
    """
    kernel = service.kernel
    begun = replace(run, state="running", begun_at=run.begun_at or kernel.now())
    if run.state == "queued" and not await kernel.store.runs.change(run, begun):
        return False
    caller = await service.turns.find_caller(from_json(run.caller))
    content = from_json(run.content)
    caller.check_tool(content["tool"])
    once = Idempotency(service, caller, run.session, run.id, run.content.encode(), run.id)
    try:
        kept = await once.begin()
    except Conflict:
        return await _resume(service, caller, begun, once)
    if kept is not None:
        return await _end(service, begun, from_json(kept[1]))
    return await _make(service, caller, begun, once)


async def _make(service: Service, caller: Caller, run: RunRow, once: Idempotency) -> bool:
    content = from_json(run.content)
    session = (await service.session(caller, run.session)).options(approvals="defer")
    message = session.message(content["tool"], Json(to_json(content["arguments"])), correlation=run.id)
    result = await session.try_message(message)
    data = call_data(result, result.data, run.session)
    await once.end(result, to_json(data))
    if (approval := approval_of(result.error)) is not None:
        return await _store(service, run, "waiting", None, approval=approval)
    return await _end(service, run, data)


async def _resume(service: Service, caller: Caller, run: RunRow, once: Idempotency) -> bool:
    """Go on with a call that began before: its record says how it ended, or that it has not ended yet."""
    query = AuditQuery(session=run.session, correlation=run.id, limit=1)
    found = (await service.kernel.store.audit.query(query)).items
    if not found:
        return False  # another process makes it, or has just died
    record = found[0]
    if record.outcome == "succeeded":
        return await _end(service, run, {"success": True, "record": record.id, "session": run.session})
    session = await service.session(caller, run.session)
    tool = session.snapshot.tools.get(from_json(run.content)["tool"].rpartition(".")[2])
    if tool is not None and (not tool.tool.has_side_effects or tool.tool.idempotent):
        return await _make(service, caller, run, once)
    error = Interrupted("The call was interrupted: it may have had effects, and is not made again")
    return await _end(service, run, _failed(run, record.id, error))


def _failed(run: RunRow, record: str, error: CapsetError) -> dict[str, Any]:
    return {"success": False, "error": error_shape(error).plain(), "record": record, "session": run.session}


async def _end(service: Service, run: RunRow, data: Any) -> bool:  # JSON data
    return await _store(service, run, "succeeded" if data["success"] else "failed", to_json(data).decode())


async def _store(
    service: Service, run: RunRow, state: RunState, outcome: str | None, *, approval: str | None = None
) -> bool:
    """Store how a run stands now, unless another process has stored that, or something newer."""
    has_ended = outcome is not None
    then = replace(
        run,
        state=state,
        due_at=None,
        outcome=outcome,
        approval=approval or run.approval,
        ended_at=service.kernel.now() if has_ended else None,
        attempts=run.attempts + (not has_ended),
    )
    await service.kernel.store.runs.change(run, then)
    return True
