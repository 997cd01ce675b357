"""What a caller may see of which exact version ran (spec 2, F29; spec 5, P12, P14).

All of it belongs to an organisation, and nothing of another is there. Within one, a key with the scope ``capset:audit``
sees everything, as it sees every record; any other sees what is of the caller's own sessions, and the rest is not there
either: a link of no session, and one of a session that was deleted, among it.
"""

from __future__ import annotations

from collections.abc import Sequence

from capset.errors import NotFound, PermissionDenied
from capset.evaluation.compare.comparison import diff_sides
from capset.evaluation.compare.differences import Diff
from capset.evaluation.compare.sides import stored_side
from capset.server.auth.callers import Caller
from capset.server.service import Service
from capset.stores.base import EnvelopeRow, LinkPage, LinkQuery, LinkRow, TransitionRow


async def link(service: Service, caller: Caller, id: str) -> LinkRow:
    """Return a link. Raises ``NotFound``."""
    row = await service.kernel.store.lineage.link(caller.principal.org, id)
    if row is None or not await _is_seen(service, caller, row.session):
        raise NotFound(f"there is no link {id!r}")
    return row


async def links(service: Service, caller: Caller, query: LinkQuery) -> LinkPage:
    """Return links of the caller's organisation, newest first.

    Without the scope ``capset:audit``, those of one session of the caller's own: raises ``PermissionDenied`` where none
    is named, and ``NotFound`` for another's.
    """
    if not caller.has("capset:audit"):
        if query.session is None:
            raise PermissionDenied(
                "Permission denied: the links of a whole organisation need the scope capset:audit; "
                "name a session of your own: session_id=ID"
            )
        await service.session_row(caller, query.session)
    return await service.kernel.store.lineage.links(query)


async def envelope(service: Service, caller: Caller, id: str) -> EnvelopeRow:
    """Return an envelope. Raises ``NotFound``."""
    row = await service.kernel.store.lineage.envelope(caller.principal.org, id)
    if row is None or not await _is_seen(service, caller, await _session_of(service, row)):
        raise NotFound(f"there is no envelope {id!r}")
    return row


async def envelope_of(service: Service, caller: Caller, id: str) -> EnvelopeRow:
    """Return the envelope of a link, the latest if there are several. Raises ``NotFound``."""
    whose = await link(service, caller, id)
    row = await service.kernel.store.lineage.envelope_of(whose.org, whose.id)
    if row is None:
        raise NotFound(f"the link {id!r} was kept without an envelope")
    return row


async def transitions(service: Service, caller: Caller, session: str) -> Sequence[TransitionRow]:
    """Return how a session's runtime hash moved. Raises ``NotFound`` for a session that is not there for the caller."""
    rows = await service.kernel.store.lineage.transitions(caller.principal.org, session)
    if caller.has("capset:audit"):
        found = await service.kernel.find_session(session)
        if rows or (found is not None and found.org == caller.principal.org):
            return rows
    await service.session_row(caller, session)
    return rows


async def diff(service: Service, caller: Caller, before: str, after: str) -> Diff:
    """Compare two versions by the ids of their links or envelopes. Raises ``NotFound``."""
    await _check(service, caller, before)
    await _check(service, caller, after)
    store, org = service.kernel.store.lineage, caller.principal.org
    return diff_sides(await stored_side(store, org, before), await stored_side(store, org, after))


async def _check(service: Service, caller: Caller, id: str) -> None:
    """Raise ``NotFound`` unless there is a link, or else an envelope, of this id that the caller may see."""
    store, org = service.kernel.store.lineage, caller.principal.org
    found = await store.link(org, id)
    if found is None and (kept := await store.envelope(org, id)) is not None:
        if await _is_seen(service, caller, await _session_of(service, kept)):
            return
    elif found is not None and await _is_seen(service, caller, found.session):
        return
    raise NotFound(f"there is no link and no envelope {id!r}")


async def _session_of(service: Service, row: EnvelopeRow) -> str | None:
    found = await service.kernel.store.lineage.link(row.org, row.link) if row.link is not None else None
    return found.session if found else None


async def _is_seen(service: Service, caller: Caller, session: str | None) -> bool:
    """Whether a caller may see what is of a session of his organisation."""
    if caller.has("capset:audit"):
        return True
    if session is None:
        return False
    try:
        await service.session_row(caller, session)
    except NotFound:
        return False
    return True
