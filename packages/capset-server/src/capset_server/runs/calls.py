"""Runs that are calls: each is made with the run's id as its idempotency key, so that no effect happens twice."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Final

from pydantic_core import from_json, to_json

from capset.definitions.calls.messages import Json, Meta
from capset.definitions.calls.records import UNTOUCHED
from capset.errors import CapsetError, Conflict, Interrupted, StoreError
from capset.stores.base import Attempt, RunRow, RunState
from capset.wire.calls import approval_of, call_data
from capset.wire.errors import error_shape
from capset_server.auth.callers import Caller
from capset_server.http.idempotency import Idempotency
from capset_server.service import Service

_PAUSE_SECONDS: Final = 0.5


async def do_call(service: Service, run: RunRow) -> bool:
    """Make the call of a run unless it was made before. Return ``False`` if the run is open and must be checked again.

    The call's correlation is the run's id, by which its record is found. An interrupted call is repeated only if its
    tool only reads or is idempotent, or had not begun.
    """
    kernel = service.kernel
    caller = await service.turns.find_caller(from_json(run.caller))
    begun = replace(run, state="running", begun_at=run.begun_at or kernel.now())
    if run.state == "queued" and not await kernel.store.runs.change(run, begun):
        return False
    idempotency = Idempotency(service, caller, run.session, run.id, run.content.encode(), run.id, is_bounded=False)
    try:
        stored_reply = await idempotency.begin()
    except Conflict:
        past = await _begun(service, begun)
        return past is not None and await _resume(service, caller, begun, idempotency, past)
    if stored_reply is not None:
        return await _end(idempotency, begun, from_json(stored_reply[1]))
    if run.state == "running":  # its key is forgotten after a day, but its record stays
        try:
            past = await _begun(service, begun)
        except Exception:
            await _free(idempotency)
            raise
        if past is not None:
            return await _resume(service, caller, begun, idempotency, past)
    return await _make(service, caller, begun, idempotency)


async def _make(service: Service, caller: Caller, run: RunRow, idempotency: Idempotency) -> bool:
    """Make a call. Raises ``StoreError`` if the store was unavailable before the tool was started."""
    content = from_json(run.content)
    try:
        session = (await service.session(caller, run.session)).options(approvals="defer")
        message = session.message(content["tool"], Json(to_json(content["arguments"])))
    except Exception:
        await _free(idempotency)
        raise
    # Calls made by its tool have the same correlation; only this one has the run's id as its causation, too.
    result = await session.try_message(replace(message, meta=Meta(run.id, service.kernel.now(), run.id)))
    if isinstance(result.error, StoreError) and result.error.retryable:
        await _free(idempotency)
        raise result.error
    data = call_data(result, result.data, run.session)
    if result.refused:
        await _free(idempotency)
    else:
        await idempotency.end(result, to_json(data))
    if (approval := approval_of(result.error)) is not None:
        return await _store(service, run, "waiting", None, approval=approval)
    return await _end(idempotency, run, data)


async def _free(idempotency: Idempotency) -> None:
    """Release the key of a call that is not made now, however long the store is unavailable.

    Otherwise, the key would keep every worker from making the call as long as this process lives.
    """
    while True:
        try:
            return await idempotency.release()
        except StoreError:
            await asyncio.sleep(_PAUSE_SECONDS)


async def _resume(service: Service, caller: Caller, run: RunRow, idempotency: Idempotency, begun: Attempt) -> bool:
    """Continue a call that began before, depending on the outcome in its record, if it has one."""
    if begun.outcome is None:
        return False  # another process is making it, or has just died
    if begun.outcome == "succeeded":
        return await _end(idempotency, run, {"success": True, "record": begun.record, "session": run.session})
    session = await service.session(caller, run.session)
    tool = session.snapshot.tools.get(from_json(run.content)["tool"].rpartition(".")[2])
    if tool is not None and (not tool.tool.has_side_effects or tool.tool.idempotent):
        return await _make(service, caller, run, idempotency)
    error = Interrupted("The call was interrupted: it may have had effects, and is not made again")
    return await _end(idempotency, run, _failed(run, begun.record, error))


async def _begun(service: Service, run: RunRow) -> Attempt | None:
    """Return the attempt at a run's call that decides how to continue, among those whose handler may have started.

    An attempt that has not ended comes first, then one that succeeded.
    """
    attempts = await service.kernel.store.audit.attempts(run.org, run.id)
    own_attempts = [attempt for attempt in attempts if attempt.causation == run.id and attempt.outcome not in UNTOUCHED]
    if not own_attempts:  # calls that only read have no intent; this one was interrupted if its tool has made calls
        own_attempts = [replace(attempt, outcome="interrupted") for attempt in attempts if attempt.causation != run.id]
    return min(
        own_attempts, key=lambda attempt: (attempt.outcome is not None, attempt.outcome != "succeeded"), default=None
    )


def _failed(run: RunRow, record: str, error: CapsetError) -> dict[str, Any]:
    return {"success": False, "error": error_shape(error).plain(), "record": record, "session": run.session}


async def _end(idempotency: Idempotency, run: RunRow, data: Any) -> bool:  # JSON data
    await _store(idempotency.service, run, "succeeded" if data["success"] else "failed", to_json(data).decode())
    await idempotency.release()  # no longer needed: the run has the outcome
    return True


async def _store(
    service: Service, run: RunRow, state: RunState, outcome: str | None, *, approval: str | None = None
) -> bool:
    """Store the new state of a run, unless another process has changed the run since."""
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
