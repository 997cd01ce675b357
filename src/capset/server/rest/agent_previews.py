"""``/v1/agents/preview`` and ``/v1/agents/{id}/preview``: what an agent would be, without keeping it (spec 5, P7)."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body

from capset.adapters.agent_shapes import shown_preview
from capset.server.rest.agents import author_of
from capset.server.rest.parts import Id, Reads, Served, StrictRoute, problems
from capset.wire.agent_previews import PreviewShape
from capset.wire.agents import AgentInput

router = APIRouter(prefix="/agents", tags=["agents"], route_class=StrictRoute)


@router.post("/preview", responses=problems(400, 413, 415, 422), operation_id="preview_agent")
async def preview_agent(service: Served, caller: Reads, given: AgentInput) -> PreviewShape:
    """Return what a new agent would be: its prompt, tools and hashes, or everything that is wrong with it.

    Nothing is kept, and nothing is on record.
    """
    preview = await service.agents.preview(given)
    return await shown_preview(
        service.kernel, preview, author=author_of(caller), principal=caller.principal, env=service.env
    )


@router.post("/{id}/preview", responses=problems(400, 404, 409, 413, 415, 422), operation_id="preview_agent_change")
async def preview_agent_change(
    service: Served,
    caller: Reads,
    id: Id,
    patch: Annotated[dict[str, Any], Body(description="A JSON merge patch (RFC 7396); {} shows it as it is.")],
) -> PreviewShape:
    """Return what a change would make of an agent. Nothing is kept, and nothing is on record."""
    preview = await service.agents.preview_change(caller.principal.org, id, patch)
    return await shown_preview(
        service.kernel, preview, author=author_of(caller), principal=caller.principal, env=service.env, id=id
    )
