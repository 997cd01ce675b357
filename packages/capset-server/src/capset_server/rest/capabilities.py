"""``/v1/capabilities``: what is installed here (spec 5, P6)."""

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
    """Only capabilities that fit everything given; ``text`` is looked for in ids, aliases, names and descriptions.

    ``cursor`` is the ``next`` of the page before: the id that it ended with.
    """

    status: Status | None = None
    category: Annotated[str | None, Query(max_length=100)] = None
    permission: Annotated[str | None, Query(max_length=100)] = None
    text: Annotated[str | None, Query(max_length=200)] = None
    limit: Annotated[int, Query(ge=1, le=200)] = 200
    cursor: Annotated[str | None, Query(pattern=f"^{CAPABILITY.pattern}$")] = None

    def fits(self, one: AnyCapability) -> bool:
        """Return whether a capability matches; a permission matches if one of its tools requires it."""
        said = " ".join((one.name, *one.aliases, one.title, one.description)).casefold()
        return (
            self.status in (None, one.status)
            and self.category in (None, one.category)
            and (self.permission is None or any(self.permission in tool.permissions for tool in one.every_tool))
            and (self.text is None or self.text.casefold() in said)
        )


class DetailFilter(Asked):
    """Whether to find out what it works with on this machine, which may take a second."""

    readiness: bool = True


@router.get("", responses=problems(422), operation_id="list_capabilities")
async def list_capabilities(
    service: Served, _: Reads, wanted: Annotated[CapabilityFilter, Query()]
) -> CapabilityPageShape:
    """List the capabilities that are installed, by id."""
    fitting = [one for one in service.registry.capabilities.values() if wanted.fits(one)]
    left = [one for one in fitting if wanted.cursor is None or one.name > wanted.cursor]
    items = [capability_shape(one) for one in left[: wanted.limit]]
    following = items[-1].id if len(left) > wanted.limit else None
    return CapabilityPageShape(items=items, total=len(fitting), next=following)


@router.get("/{id}", responses=problems(404, 422), operation_id="get_capability")
async def get_capability(
    service: Served, _: Reads, id: Id, wanted: Annotated[DetailFilter, Query()]
) -> CapabilityDetail:
    """Return one capability, by its id or an alias, with its presets, its tools, and their schemas."""
    found = service.registry.get(id)
    return capability_detail(found, await asyncio.to_thread(readiness_of, found) if wanted.readiness else None)
