"""Access to links, envelopes and transitions: the exact versions that ran (spec 2, F29; spec 5, P12, P14).

Each belongs to an organisation and is visible only there. Within it, a caller with the scope ``capset:audit`` sees
everything, as it sees every record. Any other caller sees only its own sessions, and gets ``NotFound`` for the rest,
including links without a session and those of a deleted session.
"""

from __future__ import annotations

from collections.abc import Sequence

from capset.errors import NotFound, PermissionDenied
from capset.evaluation.compare.comparison import diff_sides
from capset.evaluation.compare.differences import Diff
from capset.evaluation.compare.sides import stored_side
from capset.stores.base import EnvelopeRow, LinkQuery, LinkRow, Page, TransitionRow
from capset_server.auth.callers import Caller
from capset_server.service import Service


async def link(service: Service, caller: Caller, id: str) -> LinkRow:
    """Return a link. Raises ``NotFound``."""
    row = await service.kernel.store.lineage.link(caller.principal.org, id)
    if row is None or not await _is_seen(service, caller, row.session):
        raise NotFound(f"there is no link {id!r}")
    return row


async def links(service: Service, caller: Caller, query: LinkQuery) -> Page[LinkRow]:
    """Return links of the caller's organisation, newest first.

    Without the scope ``capset:audit``, the query must name one of the caller's own sessions: raises
    ``PermissionDenied`` if none is named, and ``NotFound`` for another's.
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
    link_row = await link(service, caller, id)
    row = await service.kernel.store.lineage.envelope_of(link_row.org, link_row.id)
    if row is None:
        raise NotFound(f"the link {id!r} was stored without an envelope")
    return row


async def transitions(service: Service, caller: Caller, session: str) -> Sequence[TransitionRow]:
    """Return the transitions of a session's runtime hash. Raises ``NotFound`` for a session hidden from the caller."""
    rows = await service.kernel.store.lineage.transitions(caller.principal.org, session)
    if caller.has("capset:audit"):
        session_row = await service.kernel.find_session(session)
        if rows or (session_row is not None and session_row.org == caller.principal.org):
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
    """Raise ``NotFound`` unless the caller may see a link, or else an envelope, with this id."""
    store, org = service.kernel.store.lineage, caller.principal.org
    link_row = await store.link(org, id)
    if link_row is None and (envelope_row := await store.envelope(org, id)) is not None:
        if await _is_seen(service, caller, await _session_of(service, envelope_row)):
            return
    elif link_row is not None and await _is_seen(service, caller, link_row.session):
        return
    raise NotFound(f"there is no link and no envelope {id!r}")


async def _session_of(service: Service, row: EnvelopeRow) -> str | None:
    link_row = await service.kernel.store.lineage.link(row.org, row.link) if row.link is not None else None
    return link_row.session if link_row else None


async def _is_seen(service: Service, caller: Caller, session: str | None) -> bool:
    """Return whether a caller may see the lineage of a session of the same organisation."""
    if caller.has("capset:audit"):
        return True
    if session is None:
        return False
    try:
        await service.session_row(caller, session)
    except NotFound:
        return False
    return True
