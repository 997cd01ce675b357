"""``/v1/metrics``, for Prometheus; it counts what everybody does, so it needs a scope of its own (spec 5, P13)."""

from __future__ import annotations

from typing import cast

from fastapi import APIRouter, Request, Response

from capset.server.exposition import Exposition
from capset.server.rest.parts import Measures, StrictRoute, problems

router = APIRouter(tags=["health"], route_class=StrictRoute)


@router.get(
    "/metrics",
    operation_id="metrics",
    response_class=Response,
    responses={
        **problems(422),
        200: {
            "description": "Every metric, in Prometheus' text format, or as OpenMetrics for whoever accepts that",
            "content": {
                "text/plain": {"schema": {"type": "string"}},
                "application/openmetrics-text": {"schema": {"type": "string"}},
            },
        },
    },
)
async def metrics(request: Request, caller: Measures) -> Response:
    """Say how many calls and requests there were and how long they took: of all organisations, naming none."""
    exposition = cast("Exposition", request.app.state.exposition)
    body, media_type = exposition.written(request.headers.get("accept", ""))
    return Response(body, headers={"content-type": media_type})
