"""``/v1/fingerprints``: the content behind hashes (spec 2, F1–F9; spec 5, P12).

All keys of an organisation with ``capset:read`` can read its recorded payloads and those of its agents, by their hash.
Invocations, which say who was served, are never stored. Payloads of what is installed here are visible to every
organisation.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from capset.wire.diffs import FingerprintDiffShape
from capset.wire.fingerprints import FingerprintShape, InstalledShape, SightingsShape, sightings_shape
from capset_server.rest.routing import Audits, Reads, Served, StrictRoute, problems

router = APIRouter(prefix="/fingerprints", tags=["fingerprints"], route_class=StrictRoute)
Hash = Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="SHA-256 in lower-case hexadecimal digits")]


@router.get("", responses=problems(422), operation_id="list_fingerprints")
async def list_fingerprints(service: Served, _: Reads) -> InstalledShape:
    """List the installed capabilities, with the hashes of the capabilities, their tools and their code."""
    return await service.fingerprints.installed()


@router.get("/{hash}", responses=problems(404, 422), operation_id="get_fingerprint")
async def get_fingerprint(service: Served, caller: Reads, hash: Hash) -> FingerprintShape:
    """Return what a hash covers: a payload recorded with a link, of what is installed, or of a stored agent.

    A hash of code covers the files of a distribution, each with the SHA-256 of its bytes.
    """
    return await service.fingerprints.resolve(caller.principal.org, hash)


@router.get("/{hash}/sightings", responses=problems(404, 422), operation_id="list_sightings")
async def list_sightings(service: Served, caller: Audits, hash: Hash) -> SightingsShape:
    """Return when and where the hash of an agent, a prompt, a tool or its code was live, by the links that name it.

    A known hash that was never live has none. ``GET /v1/links/diff`` says what changed between two links.
    """
    sightings = await service.kernel.store.lineage.sightings(caller.principal.org, hash)
    if not sightings.items:
        await service.fingerprints.resolve(caller.principal.org, hash)
    return sightings_shape(hash, sightings)


@router.get(
    "/{hash}/diff/{other}",
    responses=problems(404, 422),
    operation_id="diff_fingerprints",
    response_model_exclude_unset=True,  # a missing value is omitted; a null is data
)
async def diff_fingerprints(service: Served, caller: Reads, hash: Hash, other: Hash) -> FingerprintDiffShape:
    """Compare what two hashes of one kind cover, field by field: from the first to the other."""
    return await service.fingerprints.diff(caller.principal.org, hash, other)
