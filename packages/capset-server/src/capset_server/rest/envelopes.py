"""``/v1/envelopes``: complete evaluations, as they were stored (spec 2, F27; spec 5, P12).

An envelope is visible to callers that can see its link. Without a link, it requires the scope ``capset:audit``.
"""

from __future__ import annotations

from fastapi import APIRouter

from capset.wire.lineage import EnvelopeShape, envelope_shape
from capset_server.rest import lineage
from capset_server.rest.routing import Id, Looks, Served, StrictRoute, problems

router = APIRouter(prefix="/envelopes", tags=["envelopes"], route_class=StrictRoute)


@router.get("/{id}", responses=problems(404, 422), operation_id="get_envelope")
async def get_envelope(service: Served, caller: Looks, id: Id) -> EnvelopeShape:
    """Return one envelope."""
    return envelope_shape(await lineage.envelope(service, caller, id))
