"""The server as one ASGI application, on a kernel that the host keeps open."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import cache, partial
from importlib import import_module
from importlib.metadata import version
from pkgutil import iter_modules
from typing import BinaryIO, Final, cast

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from fastapi.telemetry import TelemetryConfig
from pydantic import BaseModel
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from capset.errors import CapsetError, InternalError, NotFound
from capset.kernel.governance.redaction import redactor_of
from capset.schemas.validation_errors import pydantic_fields
from capset_connect.notifications.worker import DeliveryWorker
from capset_server import rest
from capset_server.approvals.decisions import page_of
from capset_server.approvals.page import ApprovalEndpoint
from capset_server.approvals.slack import SlackEndpoint
from capset_server.auth.resources import WELL_KNOWN
from capset_server.auth.signing_keys import StoredKeys
from capset_server.console.app import Console
from capset_server.http.bodies import ClientLeft
from capset_server.http.idempotency import keep_swept
from capset_server.http.middleware import ServerMiddleware
from capset_server.http.paths import APPROVAL_PAGE, CALLS_PATH, METADATA_PATHS, PROTOCOL_PATHS, SLACK_INTERACTIONS
from capset_server.http.request_context import CLIENT_LEFT, note_refusal, path_of, request_context
from capset_server.http.request_rules import AllowedHosts, HttpRefusal
from capset_server.http.responses import misfit, problem_response
from capset_server.http.root_path import check_root_path
from capset_server.http.routes import DirectRoutes, Routes
from capset_server.mcp.mounts import mcp_endpoints
from capset_server.observability.log_writer import AccessLog, LogWriter
from capset_server.observability.metrics import Exposition, Metrics
from capset_server.observability.requests import Telemetry
from capset_server.openapi import describe, methods_by_path
from capset_server.protocols import front_ends, openai
from capset_server.rest import calls
from capset_server.service import Service
from capset_server.shield.guard import Shield

_PROTOCOLS: Final = (openai, front_ends)
"""Listed by hand, not discovered: other modules of their package import what only an extra installs. Their paths are
not in the OpenAPI document, because others specify these protocols."""

# If the host has set up an OpenTelemetry SDK, FastAPI would add its own spans to every request, with query and Host.
_NO_TELEMETRY: Final[TelemetryConfig] = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}


@asynccontextmanager
async def open_app(
    service: Service, names: AllowedHosts, *, log: BinaryIO | LogWriter | None = None
) -> AsyncGenerator[ASGIApp]:
    """Yield the application. The caller must keep the service's kernel open while it runs.

    ``log`` receives one line of JSON per request; it defaults to stderr. Raises ``DefinitionError`` if the root path
    begins like one of the server's own paths.
    """
    app = make_api()
    writer = log if isinstance(log, LogWriter) else LogWriter(log or sys.stderr.buffer)
    access = AccessLog(writer)
    tally = Metrics(service, writer)
    state = {"service": service, "exposition": Exposition(tally)}
    telemetry = partial(_telemetry, app, service, tally)
    answer_call, signing_keys = partial(calls.answer_call, service), StoredKeys(service.kernel)
    rest = DirectRoutes(_with_state(app, state), {("POST", CALLS_PATH): answer_call})
    console = Console(service, signing_keys, rest, Routes(app.state.document["paths"]))
    check_root_path(service.root_path, _templates(app, console.paths))
    slack = SlackEndpoint(service)
    shield = Shield(service.limits)
    background = [asyncio.create_task(keep_swept(service.kernel))]
    if service.kernel.deliveries.channels:
        background.append(asyncio.create_task(DeliveryWorker(service.kernel, page_of(service)).run()))
    if service.kernel.generator is not None:
        background.append(asyncio.create_task(service.turns.turns.watch()))
    try:
        with shield.timing(), service.kernel.observe(tally):
            async with (
                service.turns.bell.watching(service.kernel.store),
                mcp_endpoints(service) as endpoints,
            ):
                approval_page = ApprovalEndpoint(service, signing_keys, console.identify)
                direct_routes = {("POST", CALLS_PATH): answer_call, (None, APPROVAL_PAGE): approval_page}
                direct_routes |= {(None, SLACK_INTERACTIONS): slack}
                pages = {(None, path): console for path in console.paths}
                routes = DirectRoutes(_with_state(app, state), {**direct_routes, **pages, **endpoints})
                yield ServerMiddleware(routes, service, names, access, telemetry(console.paths), console, shield)
    finally:
        for task in background:
            task.cancel()
        await asyncio.wait(background)
        await slack.close()
        await service.checker.close()
        await service.store_probe.close()
        access.flush()
        await asyncio.to_thread(writer.drain)


def _with_state(app: ASGIApp, state: Mapping[str, object]) -> ASGIApp:
    """Wrap an application so that its requests also carry ``state``. Several servers may share the application."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"] = {**scope.get("state", {}), **state}
        await app(scope, receive, send)

    return call


def _templates(app: FastAPI, pages: Iterable[str]) -> tuple[str, ...]:
    """Return the path templates of the whole server."""
    others = ("/openapi.json", APPROVAL_PAGE, SLACK_INTERACTIONS)
    return (*app.state.document["paths"], *others, *METADATA_PATHS, *PROTOCOL_PATHS, *pages)


def _telemetry(app: FastAPI, service: Service, tally: Metrics, pages: Iterable[str]) -> Telemetry:
    """Return the telemetry of requests. No OpenTelemetry module is imported unless calls are traced."""
    routes, kernel = Routes(_templates(app, pages)), service.kernel
    if not kernel.observers:
        return Telemetry(routes, tally, None)
    from capset.kernel.telemetry.tracing import tracing_of
    from capset_server.observability.requests import HttpTracing

    tracing = tracing_of(kernel.observers)
    redactor = redactor_of(kernel.governance.redact)
    return Telemetry(routes, tally, HttpTracing(tracing, redactor) if tracing else None)


@cache
def make_api() -> FastAPI:
    """Return the REST API, with its OpenAPI document in ``state.document``.

    Building it takes half a second, so all servers of a process share it. The service that answers a request is in
    the request's state.
    """
    app = FastAPI(
        title="capset",
        version=version("capset"),
        description="The capability layer for AI agents: what an agent can do, may do, did, and which exact version.",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry=_NO_TELEMETRY,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
    )
    api = APIRouter(prefix="/v1")
    for router in _rest_routers():
        api.include_router(router)
    app.include_router(api)
    document = app.state.document = describe(app)
    for protocol in _PROTOCOLS:
        app.include_router(protocol.router, prefix="/v1", include_in_schema=False)
    app.state.methods = methods_by_path(document, [protocol.router for protocol in _PROTOCOLS])
    app.add_route("/openapi.json", _document, include_in_schema=False)
    app.add_route(f"{WELL_KNOWN}{{resource:path}}", _resource_metadata, include_in_schema=False)
    app.add_exception_handler(CapsetError, _failed)
    app.add_exception_handler(Exception, _unexpected)
    app.add_exception_handler(RequestValidationError, _misfitting)
    app.add_exception_handler(HTTPException, _refused)
    return app


def _rest_routers() -> list[APIRouter]:
    """Return the routers of the REST API's modules, ordered by module name."""
    modules = (import_module(f"{rest.__name__}.{module_info.name}") for module_info in iter_modules(rest.__path__))
    return [module.router for module in modules if hasattr(module, "router")]


async def _document(request: Request) -> Response:
    """Return the OpenAPI document, with the root path that the server is mounted at."""
    servers = [{"url": request.scope["root_path"] or "/"}]
    return JSONResponse({**request.app.state.document, "servers": servers})


async def _resource_metadata(request: Request) -> Response:
    """Return the metadata of a protected resource, so that clients find its authorization server (RFC 9728)."""
    resource = cast("Service", request.state.service).callers.resource
    metadata = None if resource is None else resource.metadata(request.path_params["resource"])
    if metadata is None:
        raise NotFound("there is no OAuth resource metadata here")
    return JSONResponse(metadata)


async def _failed(request: Request, error: Exception) -> Response:
    request_info = request_context(request.scope)
    note_refusal(request_info, error)
    return problem_response(cast("CapsetError", error), request_info.correlation)


async def _unexpected(request: Request, error: Exception) -> Response:
    """Answer with a generic error. The middleware logs the original one."""
    if isinstance(error, ClientLeft):  # while its body was read
        return Response(status_code=CLIENT_LEFT)
    return await _failed(request, InternalError("Something went wrong; the log has the details."))


async def _misfitting(request: Request, error: Exception) -> Response:
    """List every field of a body, a query or a path that failed validation."""
    validation_error = cast("RequestValidationError", error)
    problems = cast("list[ErrorDetails]", validation_error.errors())
    for problem in problems:
        problem["loc"] = problem["loc"][1:]  # drop where the value is from, such as "body": its name is enough
    fields = pydantic_fields(problems, _known(request), validation_error.body)
    return await _failed(request, misfit("request", fields))


def _known(request: Request) -> list[str]:
    """Return the field names of the expected body, to suggest one for a mistyped field."""
    route = request.scope.get("route")
    field = route.body_field if isinstance(route, APIRoute) else None
    shape = field.field_info.annotation if field is not None else None
    return list(shape.model_fields) if isinstance(shape, type) and issubclass(shape, BaseModel) else []


async def _refused(request: Request, error: Exception) -> Response:
    """Answer an HTTP error of FastAPI: an unknown path or method, or an unreadable body."""
    http_error = cast("HTTPException", error)
    if isinstance(http_error.__cause__, CapsetError):
        return await _failed(request, http_error.__cause__)
    is_mcp = path_of(request.scope).startswith("/mcp")
    where = "MCP is at /mcp, /mcp/agents/ID and /mcp/sessions/ID" if is_mcp else "every path of REST begins with /v1"
    missing = f"There is no such path; {where}"
    answers = {404: ("not_found", missing), 405: ("method_not_allowed", "This path has no such method")}
    code, words = answers.get(http_error.status_code, ("http_error", str(http_error.detail)))
    response = await _failed(request, HttpRefusal(http_error.status_code, code, words))
    if http_error.status_code == 405:
        response.headers["Allow"] = ", ".join(request.app.state.methods(path_of(request.scope)))
    return response
