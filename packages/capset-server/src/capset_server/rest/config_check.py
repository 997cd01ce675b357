"""``/v1/config/check``: validation of a configuration before it is served (spec 5, P12)."""

from __future__ import annotations

from fastapi import APIRouter, Request

from capset.wire.operations import ConfigCheckShape, ConfigInput
from capset_server.http.bodies import DisconnectWatch
from capset_server.rest.routing import Reads, Served, StrictRoute, problems

router = APIRouter(prefix="/config", tags=["configuration"], route_class=StrictRoute)


@router.post(
    "/check",
    responses=problems(400, 413, 415, 422),
    operation_id="check_config",
    response_model_exclude_unset=True,  # a null is data
)
async def check_config(service: Served, caller: Reads, body: ConfigInput, request: Request) -> ConfigCheckShape:
    """Check the text of a configuration file, as `capset check` does, but without loading its handlers and policies.

    Nothing is stored, no code is imported and no path is followed. A valid configuration has a warning for each
    handler, policy and file in `agents`, for `workspace` and for `audit.key`.
    """
    with DisconnectWatch(request.receive):
        return await service.checker.check(caller.principal, body.content, body.format, service.registry)
