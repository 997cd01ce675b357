"""``/v1/capabilities``: the installed capabilities (spec 5, P6)."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query

from capset.definitions.capabilities import AnyCapability, Status
from capset.definitions.names import CAPABILITY
from capset.wire.capabilities import (
    CapabilityDetail,
    CapabilityPageShape,
    capability_detail,
    capability_shape,
    readiness_of,
)
from capset_server.rest.routing import Asked, Id, Reads, Served, StrictRoute, problems

router = APIRouter(prefix="/capabilities", tags=["capabilities"], route_class=StrictRoute)


class CapabilityFilter(Asked):
    """Capabilities that match all given filters. ``text`` is searched in ids, aliases, titles and descriptions.

    ``cursor`` is the ``next`` of the previous page, its last id.
    """

    status: Status | None = None
    category: Annotated[str | None, Query(max_length=100)] = None
    permission: Annotated[str | None, Query(max_length=100)] = None
    text: Annotated[str | None, Query(max_length=200)] = None
    limit: Annotated[int, Query(ge=1, le=200)] = 200
    cursor: Annotated[str | None, Query(pattern=f"^{CAPABILITY.pattern}$")] = None

    def fits(self, capability: AnyCapability) -> bool:
        """Return whether a capability matches; a permission matches if one of its tools requires it."""
        text = " ".join((capability.name, *capability.aliases, capability.title, capability.description)).casefold()
        return (
            self.status in (None, capability.status)
            and self.category in (None, capability.category)
            and (self.permission is None or any(self.permission in tool.permissions for tool in capability.every_tool))
            and (self.text is None or self.text.casefold() in text)
        )


class DetailFilter(Asked):
    """Whether to determine what the capability works with on this machine, which may take a second."""

    readiness: bool = True


@router.get("", responses=problems(422), operation_id="list_capabilities")
async def list_capabilities(
    service: Served, _: Reads, params: Annotated[CapabilityFilter, Query()]
) -> CapabilityPageShape:
    """List the installed capabilities, by id."""
    fitting = [capability for capability in service.registry.capabilities.values() if params.fits(capability)]
    remaining = [capability for capability in fitting if params.cursor is None or capability.name > params.cursor]
    items = [capability_shape(capability) for capability in remaining[: params.limit]]
    following = items[-1].id if len(remaining) > params.limit else None
    return CapabilityPageShape(items=items, total=len(fitting), next=following)


@router.get("/{id}", responses=problems(404, 422), operation_id="get_capability")
async def get_capability(
    service: Served, _: Reads, id: Id, params: Annotated[DetailFilter, Query()]
) -> CapabilityDetail:
    """Return one capability, by its id or an alias, with its presets, its tools, and their schemas."""
    capability = service.registry.get(id)
    return capability_detail(
        capability, await asyncio.to_thread(readiness_of, capability) if params.readiness else None
    )
