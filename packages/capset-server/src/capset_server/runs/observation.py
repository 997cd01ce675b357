"""Reading of runs: the caller's own, and with the scope ``capset:observe`` all of its organisation (spec 5, P99).

Reading what another principal's run contains is on record, before anything is shown, and its content is masked like the
arguments of a record. Lists are not on record: they show who ran which agent when, and what it cost, as records do.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from capset.errors import InvalidArguments, NotFound
from capset.kernel.governance.redaction import Redactor, fully_redacted
from capset.stores.base import EventRow, RunRow
from capset.stores.base.runs import UNFINISHED
from capset.wire.runs import RunShape, Whose, run_shape
from capset.wire.turns import EventShape, event_shape
from capset_server.auth.callers import Caller

if TYPE_CHECKING:
    from capset_server.service import Service

RunPart = Literal["outcome", "trace", "events"]
"""The part of a run that is read."""


def check_whose(caller: Caller, whose: Whose, principal: str | None) -> None:
    """Raise ``InsufficientScope`` unless the caller may list these.

    Raises ``InvalidArguments`` for a principal among the caller's own.
    """
    if whose == "all":
        caller.check("capset:observe")
    elif principal is not None:
        raise InvalidArguments("Invalid request: principal selects among all of an organisation: add whose=all")


async def find_readable(service: Service, caller: Caller, id: str) -> RunRow:
    """Return a run that the caller may read, before any of it is shown: call ``record_reading`` then.

    Raises ``NotFound``, also for another principal's run if the caller may not read it.
    """
    row = await service.kernel.store.runs.get(id) if id.isprintable() else None
    if row is None or row.org != caller.principal.org or not (is_own(caller, row) or caller.has("capset:observe")):
        raise NotFound(f"there is no run {id!r}")
    return row


async def find_followable(service: Service, caller: Caller, id: str) -> RunRow:
    """Return a run whose events the caller may read, as ``find_readable`` does.

    Raises ``InvalidArguments`` for a queued call, which has no events.
    """
    row = await find_readable(service, caller, id)
    if row.kind == "call":
        raise InvalidArguments(
            f"The run {id!r} is a queued call, which has no events: read its state and outcome instead",
            hint=f"GET /v1/runs/{id}, or capset runs show {id}",
        )
    return row


async def read_run(service: Service, caller: Caller, id: str, *, part: RunPart) -> RunRow:
    """Return a run as ``find_readable`` does, and record that the caller reads another principal's."""
    row = await find_readable(service, caller, id)
    await record_reading(service, caller, row, part=part)
    return row


async def record_reading(service: Service, caller: Caller, row: RunRow, *, part: RunPart) -> None:
    """Record that the caller reads a part of a run, unless the run is its own."""
    if not is_own(caller, row):
        act = service.kernel.act(
            "run.read",
            {"id": row.id, "part": part},
            by=caller.principal,
            org=row.org,
            session=row.session,
            agent=row.agent,
        )
        await service.kernel.audit.commit(act)  # first: what cannot be recorded is not shown


async def has_events_after(service: Service, row: RunRow, after: int) -> bool:
    """Return whether a run has events after a number, or may still have some."""
    if row.state in UNFINISHED:
        return True
    span = await service.kernel.store.events.event_span(row.session, row.id)
    return span is not None and after < span[1]


def shape_for(service: Service, caller: Caller, row: RunRow) -> RunShape:
    """Return a run for the caller: the outcome of another principal's is masked and cut."""
    shape = run_shape(row)
    return shape if is_own(caller, row) else masked_run(shape, service.kernel.redactor)


def masked_run(shape: RunShape, redact: Redactor | None) -> RunShape:
    """Return a run whose outcome is masked and cut."""
    return shape.model_copy(update={"outcome": fully_redacted(shape.outcome, redact)})


def event_shape_for(service: Service, caller: Caller, run: RunRow) -> Callable[[EventRow], EventShape]:
    """Return the function that converts the events of a run for the caller: another principal's are masked and cut."""
    if is_own(caller, run):
        return event_shape

    def masked_shape(row: EventRow) -> EventShape:
        shape = event_shape(row)
        return shape.model_copy(update={"data": fully_redacted(shape.data, service.kernel.redactor)})

    return masked_shape


def is_own(caller: Caller, row: RunRow) -> bool:
    """Return whether a run is the caller's own."""
    principal = caller.principal
    owner = (row.org, row.principal_kind, row.principal, row.on_behalf_of)
    return owner == (principal.org, principal.kind, principal.id, principal.on_behalf_of)


def first_id(time: datetime) -> str:
    """Return the smallest id of a run that is made at a time. Ids begin with their time in milliseconds (RFC 9562)."""
    milliseconds = max(0, int(time.timestamp() * 1000))
    return f"{milliseconds >> 16:08x}-{milliseconds & 0xFFFF:04x}-7000-8000-000000000000"
