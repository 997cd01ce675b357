"""``/v1/healthz`` and ``/v1/readyz``, for whoever looks after the server; they need no key (spec 5, P13)."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter

from capset.server.rest.parts import Served, StrictRoute, problems
from capset.server.visit import Refused
from capset.wire.health import HealthShape

_OPEN: Final = {code: said for code, said in problems(422).items() if code not in (401, 503)}
router = APIRouter(tags=["health"], route_class=StrictRoute)


@router.get("/healthz", responses=_OPEN, operation_id="healthz")
async def healthz() -> HealthShape:
    """Say that the process answers."""
    return HealthShape(status="ok")


@router.get("/readyz", responses={**_OPEN, 503: problems()[503]}, operation_id="readyz")
async def readyz(service: Served) -> HealthShape:
    """Say that calls can be served: what was to be written is written, the store answers, and the server stays."""
    if service.is_draining:
        raise _draining()
    await service.kernel.audit.flush()
    await service.kernel.store.keys.find("")
    return HealthShape(status="ok")


def _draining() -> Refused:
    ending = Refused(503, "draining", "The server is ending: send requests to another")
    ending.retryable = True
    return ending
