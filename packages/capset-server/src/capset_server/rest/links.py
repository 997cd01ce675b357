"""``/v1/links``: the exact capabilities of each turn (spec 2, F26–F31; spec 5, P12).

A link belongs to an organisation. A caller with the scope ``capset:audit`` sees all links of its organisation. Any
other caller sees those of its own sessions, and gets 404 for the rest.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response

from capset.errors import LimitExceeded
from capset.evaluation.snapshot.capture import envelope_of
from capset.evaluation.snapshot.turns import store_turn
from capset.fingerprint.hashes import invocation_hash
from capset.stores.base import LinkQuery
from capset.stores.base.lineage import LinksFull
from capset.wire.diffs import DiffShape, diff_shape
from capset.wire.lineage import (
    EnvelopeShape,
    LinkInput,
    LinkPageShape,
    LinkShape,
    StoredLinkShape,
    envelope_shape,
    link_shape,
    stored_link_shape,
)
from capset.wire.pages import read_page
from capset.wire.sessions import context_of
from capset_server.rest import lineage
from capset_server.rest.routing import Asked, Calls, Id, Looks, Paged, Served, StrictRoute, problems

SESSION_LINKS: Final = 10_000
"""The maximum number of links, each with its envelope, that clients may record for one session."""
router = APIRouter(prefix="/links", tags=["links"], route_class=StrictRoute)


class LinkFilter(Paged):
    """Links that match all given filters."""

    agent_id: Annotated[str | None, Query(max_length=200)] = None
    session_id: Annotated[str | None, Query(max_length=200)] = None


class Both(Asked):
    """The ids of two links or envelopes."""

    before: Annotated[str, Query(min_length=1, max_length=200)]
    after: Annotated[str, Query(min_length=1, max_length=200)]


@router.post("", status_code=201, responses=problems(400, 404, 409, 413, 415, 422), operation_id="record_link")
async def record_link(
    service: Served, caller: Calls, body: LinkInput, request: Request, response: Response
) -> StoredLinkShape:
    """Record a link of the caller's session, with its envelope and the change of the runtime hash since the last link.

    Without an invocation in the body, the session's own is used. Members of the body's context override the session's.
    The server determines principal and environment; the body cannot set them.
    """
    row = await service.session_row(caller, body.session_id)
    session = await service.session(caller, body.session_id)
    snapshot = await session.current()
    if body.invocation is not None:
        snapshot = replace(snapshot, invocation_hash=invocation_hash(body.invocation))
    context = context_of(row)
    if context is not None or body.context is not None:
        context = {**(context or {}), **(body.context or {})}
    try:
        stored_link = await store_turn(
            service.kernel.store,
            envelope_of(snapshot, session_context=context, redact=service.kernel.redactor),
            session=session.id,
            org=caller.principal.org,
            metadata=body.metadata,
            reason=body.reason,
            clock=service.kernel.clock,
            max_links=SESSION_LINKS,
        )
    except LinksFull:
        raise LimitExceeded(
            f"Rate limit exceeded: a session has at most {SESSION_LINKS} links (session_links).",
            hint="continue in another session",
        ) from None
    response.headers["Location"] = f"{request.scope['root_path']}/v1/links/{stored_link.link.id}"
    return stored_link_shape(stored_link)


@router.get("", responses=problems(404, 422), operation_id="list_links")
async def list_links(service: Served, caller: Looks, params: Annotated[LinkFilter, Query()]) -> LinkPageShape:
    """List links, newest first. Without the scope ``capset:audit``, ``session_id`` must be one of the caller's own."""
    org = caller.principal.org
    query = LinkQuery(org, params.agent_id, params.session_id, limit=params.limit, before=params.cursor)
    items, following = await read_page(partial(lineage.links, service, caller), query, link_shape, attrgetter("id"))
    return LinkPageShape(items=items, next=following)


@router.get(
    "/diff",
    responses=problems(404, 422),
    operation_id="diff_links",
    response_model_exclude_unset=True,  # unknown members are omitted; a null is data
)
async def diff_links(service: Served, caller: Looks, params: Annotated[Both, Query()]) -> DiffShape:
    """Compare two links, or envelopes: which hashes changed, and why, as ``capset diff --json`` does."""
    return diff_shape(await lineage.diff(service, caller, params.before, params.after))


@router.get("/{id}", responses=problems(404, 422), operation_id="get_link")
async def get_link(service: Served, caller: Looks, id: Id) -> LinkShape:
    """Return one link."""
    return link_shape(await lineage.link(service, caller, id))


@router.get("/{id}/envelope", responses=problems(404, 422), operation_id="get_link_envelope")
async def get_link_envelope(service: Served, caller: Looks, id: Id) -> EnvelopeShape:
    """Return the envelope of a link: the complete evaluation, with the definition."""
    return envelope_shape(await lineage.envelope_of(service, caller, id))
