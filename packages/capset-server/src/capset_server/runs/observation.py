"""Reading of runs: the caller's own, and with the scope ``capset:observe`` all of its organisation (spec 5, P99).

Reading what another principal's run contains is on record, before anything is shown. Lists are not: they show who ran
which agent when, and what it cost, as records do.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Literal

from capset.errors import InvalidArguments, NotFound
from capset.stores.base import RunRow
from capset.wire.runs import Whose
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


async def read_run(service: Service, caller: Caller, id: str, *, part: RunPart) -> RunRow:
    """Return a run that the caller may read, and record that it reads another principal's.

    Raises ``NotFound``, also for another principal's run if the caller may not read it.
    """
    row = await service.kernel.store.runs.get(id) if id.isprintable() else None
    if row is None or row.org != caller.principal.org or not (is_own(caller, row) or caller.has("capset:observe")):
        raise NotFound(f"there is no run {id!r}")
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
    return row


def is_own(caller: Caller, row: RunRow) -> bool:
    """Return whether a run is the caller's own."""
    principal = caller.principal
    owner = (row.org, row.principal_kind, row.principal, row.on_behalf_of)
    return owner == (principal.org, principal.kind, principal.id, principal.on_behalf_of)


def first_id(time: datetime) -> str:
    """Return the smallest id of a run that is made at a time. Ids begin with their time in milliseconds (RFC 9562)."""
    milliseconds = max(0, int(time.timestamp() * 1000))
    return f"{milliseconds >> 16:08x}-{milliseconds & 0xFFFF:04x}-7000-8000-000000000000"
