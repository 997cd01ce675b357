"""``/v1/healthz``, ``/v1/readyz`` and ``/v1/metrics``, for the server's operators (spec 5, P13)."""

from __future__ import annotations

import asyncio
from typing import Final, cast

from fastapi import APIRouter, Request, Response

from capset.errors import StoreError
from capset.wire.capabilities import readiness_of
from capset.wire.operations import HealthShape, ReadyShape, SigningShape
from capset_server.http.request_rules import HttpRefusal
from capset_server.observability.metrics import Exposition
from capset_server.rest.routing import Measures, Served, StrictRoute, problems
from capset_server.store_probe import PROBE_SECONDS

_OPEN: Final = {code: response for code, response in problems(422).items() if code not in (401, 503)}
router = APIRouter(tags=["health"], route_class=StrictRoute)


@router.get("/healthz", responses=_OPEN, operation_id="healthz")
async def healthz() -> HealthShape:
    """Report that the process is alive."""
    return HealthShape(status="ok")


@router.get("/readyz", responses={**_OPEN, 503: problems()[503]}, operation_id="readyz")
async def readyz(service: Served) -> ReadyShape:
    """Report that calls can be served: pending writes are done, the store answers, and no shutdown has begun.

    A server that does not sign the log is ready; ``signing`` says why it does not. For capabilities that depend on the
    machine, ``capabilities`` says what they work with here. ``sources`` says what MCP servers and APIs of the
    configuration need, such as an approval; the server is ready without them.
    """
    if service.is_draining:
        raise _draining()
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            await service.store_probe.check()
            sources = dict[str, str]()
            if service.sources is not None:
                sources |= await service.sources.public_needs()
    except TimeoutError:
        raise StoreError(f"the store did not answer within {PROBE_SECONDS:g} s") from None
    signing_state = service.kernel.signing
    signing = SigningShape(signs=signing_state.key is not None, key=signing_state.key, reason=signing_state.reason)
    dependent = [
        capability for capability in service.registry.capabilities.values() if capability.readiness is not None
    ]
    readiness = await asyncio.to_thread(lambda: {capability.name: readiness_of(capability) for capability in dependent})
    return ReadyShape(status="ok", signing=signing, capabilities=readiness, sources=sources)


def _draining() -> HttpRefusal:
    ending = HttpRefusal(503, "draining", "The server is shutting down: send requests to another one")
    ending.retryable = True
    return ending


@router.get(
    "/metrics",
    operation_id="metrics",
    response_class=Response,
    responses={
        **problems(422),
        200: {
            "description": "All metrics, in Prometheus' text format, or as OpenMetrics for clients that accept it",
            "content": {
                "text/plain": {"schema": {"type": "string"}},
                "application/openmetrics-text": {"schema": {"type": "string"}},
            },
        },
    },
)
async def metrics(request: Request, caller: Measures) -> Response:
    """Return how many calls and requests there were, and how long they took.

    A caller of an organisation reads only the metrics of that organisation. A caller without one is an operator, and
    reads those of all callers together, and those of the server and its process. No organisation is named.
    """
    exposition = cast("Exposition", request.state.exposition)
    body, media_type = exposition.written(request.headers.get("accept", ""), caller.principal.org)
    return Response(body, headers={"content-type": media_type})
