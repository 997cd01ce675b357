"""Shared parts of the routes: authorization, request parsing, and their description in the OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Final, cast

from fastapi import Depends, Path, Query, Request
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from pydantic import ConfigDict
from pydantic_core import from_json
from starlette.responses import Response
from starlette.types import Scope as HttpScope

from capset.definitions.principals import Principal
from capset.errors import InvalidArguments, PermissionDenied
from capset.kernel.governance.acts import Actor, acting
from capset.schemas.schema import is_finite
from capset.wire.errors import MEDIA_TYPE, Problem
from capset.wire.shapes import Shape
from capset_server.auth.callers import Caller
from capset_server.auth.keys import Scope
from capset_server.http.request_context import body_of, caller_of, request_context
from capset_server.http.request_rules import MAX_ID, HttpRefusal
from capset_server.service import Service

ANYONE: Final = Principal.anonymous()
"""The principal of requests that need no key."""
_bearer: Final = HTTPBearer(
    auto_error=False, description="An API key, created by `capset key create NAME --principal WHO`, or a token."
)
_SAYINGS: Final = {
    400: "The request is malformed",
    401: "No valid API key",
    403: "This key, principal or Origin may not do this",
    404: "It does not exist, or is not visible to this caller",
    409: "The current state does not allow this",
    412: "Its version is not the one in If-Match",
    413: "The body is too large",
    415: "The body does not have the required media type",
    422: "The input is invalid; every invalid field is listed",
    429: "A limit is reached; Retry-After is the number of seconds to wait, if known",
    501: "This server is not set up to do this",
    503: "The store is not available",
}


def problems(*codes: int) -> dict[int | str, dict[str, Any]]:  # as FastAPI types responses
    """Return the OpenAPI responses for the problems of a route, including those of every route."""
    content = {MEDIA_TYPE: {"schema": {"$ref": f"#/components/schemas/{Problem.__name__}"}}}
    responses: dict[int | str, dict[str, Any]] = {
        code: {"description": _SAYINGS[code], "content": content} for code in (401, 403, *codes, 429, 503)
    }
    return {**responses, "default": {"description": "Any other problem", "content": content}}


class CallerCheck:
    """A dependency that returns the caller unless ``check`` raises. Routes also run it before reading a large body."""

    def __init__(self, check: Callable[[Caller], None]) -> None:
        self.check = check

    async def __call__(self, request: Request, _: Annotated[Any, Depends(_bearer)]) -> Caller:
        """Return the caller."""
        caller = caller_of(request.scope)
        self.check(caller)
        return caller


def needs(*scopes: Scope) -> CallerCheck:
    """Return a dependency that requires one of these scopes."""
    return CallerCheck(lambda caller: caller.check(*scopes))


def check_operator(caller: Caller, deed: str) -> None:
    """Raise ``PermissionDenied`` for a caller of an organisation, who may not do what ``deed`` says."""
    if caller.principal.org is not None:
        raise PermissionDenied(
            f"Permission denied: this key belongs to {caller.principal.org!r}; "
            f"only operators, whose keys belong to no organisation, may {deed}"
        )


def _accept(_: Caller) -> None:
    """Accept any scopes."""


def _check_reads_runs(caller: Caller) -> None:
    """Raise ``InsufficientScope`` unless the caller may read all runs, or call tools, and so read its own runs."""
    if not caller.has("capset:observe"):
        caller.check_calls()


async def _service(request: Request) -> Service:
    return request.state.service


Served = Annotated[Service, Depends(_service)]
Reads = Annotated[Caller, Depends(needs("capset:read"))]
Calls = Annotated[Caller, Depends(needs("capset:call"))]
CallsSome = Annotated[Caller, Depends(CallerCheck(Caller.check_calls))]
"""A caller that may call at least one tool. It may also create sessions, and see its own."""
Writes = Annotated[Caller, Depends(needs("capset:write"))]
Audits = Annotated[Caller, Depends(needs("capset:audit"))]
Looks = Annotated[Caller, Depends(needs("capset:call", "capset:audit"))]
"""A caller that may read its own sessions, or all of its organisation."""
Approves = Annotated[Caller, Depends(needs("capset:approve"))]
Measures = Annotated[Caller, Depends(needs("capset:metrics"))]
"""A caller that may read metrics: of its own organisation, or of the server if it has none."""
Known = Annotated[Caller, Depends(CallerCheck(_accept))]
"""Any caller with a valid credential."""
Administers = Annotated[Caller, Depends(needs("capset:admin"))]
Observes = Annotated[Caller, Depends(CallerCheck(_check_reads_runs))]
"""A caller that may read its own runs, or all of its organisation."""
ObservesTurns = Annotated[Caller, Depends(needs("capset:call", "capset:observe"))]
"""A caller that may read its own turns, or all of its organisation; not one that may call single tools only."""
Asks = Annotated[Caller, Depends(needs("capset:call", "capset:approve"))]
"""A caller that may see the approval requests of its own sessions, or all of its organisation."""
Id = Annotated[str, Path(min_length=1, max_length=MAX_ID)]


class Asked(Shape):
    """The query parameters of a request. Unknown ones are refused."""

    model_config = ConfigDict(extra="forbid")


class Paged(Asked):
    """A page of a list. ``limit`` is 1–200, and ``cursor`` the ``next`` of the previous page."""

    limit: Annotated[int, Query(ge=1, le=200)] = 50
    cursor: Annotated[str | None, Query(min_length=1, max_length=200, pattern="^[0-9a-f-]+$")] = None


class StrictRequest(Request):
    """A request that parses JSON as strictly as all other interfaces: an object of bounded depth, no NaN, no 1e999."""

    async def json(self) -> Any:  # any JSON
        parsed = parse_json(await self.body())
        if not is_finite(parsed):
            raise InvalidArguments("The body has a number that is out of range, such as 1e999: send finite numbers")
        return parsed


class StrictRoute(APIRoute):
    """A route that parses JSON bodies by ``parse_json``, and refuses other content types and unexpected queries.

    A body with a default may be omitted.
    """

    def get_route_handler(self) -> Callable[[Request], Any]:
        """Return FastAPI's handler, wrapped to use ``StrictRequest``."""
        handle, takes_body = super().get_route_handler(), self.body_field is not None
        needs_body = self.body_field is not None and self.body_field.field_info.is_required()
        takes_query = bool(self.dependant.query_params)
        checks = [
            dependency.call.check
            for dependency in self.dependant.dependencies
            if isinstance(dependency.call, CallerCheck)
        ]

        async def strictly(request: Request) -> Response:
            strict = StrictRequest(request.scope, request.receive)
            if not takes_query:
                refuse_query(request.scope)
            if takes_body and body_of(request.scope).is_large:
                await _check_first(request, checks)
            if takes_body and (needs_body or await strict.body()):
                check_json_type(request.headers.get("content-type", ""))
                if not await strict.body():
                    parse_json(b"")  # FastAPI would report a missing parameter
            with acting(_actor(request)):
                return await handle(strict)

        return strictly


async def _check_first(request: Request, checks: Iterable[Callable[[Caller], None]]) -> None:
    """Check the caller's scopes and its session before the body is read, and raise as the route would afterwards."""
    caller, route = caller_of(request.scope), request_context(request.scope).route or ""
    for check in checks:
        check(caller)
    if route.startswith("/v1/sessions/{id}/"):
        await cast("Service", request.state.service).session_row(caller, request.path_params["id"])


def _actor(request: Request) -> Actor:
    """Return the caller of a request as the actor of its acts, with its address and the id of its key."""
    context = request_context(request.scope)
    principal = ANYONE if context.caller is None else context.caller.principal
    place = [f"rest {request.client.host}" if request.client else "rest"]
    if context.caller is not None and context.caller.key is not None:
        place.append(f"key {context.caller.key}")
    return Actor(
        principal.id, principal.kind, principal.org, " ".join(place), principal.on_behalf_of, context.correlation
    )


def refuse_query(scope: HttpScope) -> None:
    """Raise ``InvalidArguments`` if a request for a path without query parameters has a query."""
    if scope["query_string"]:
        raise InvalidArguments("Invalid request: this path takes no query")


def check_json_type(content_type: str) -> None:
    """Raise ``HttpRefusal`` unless a body is JSON."""
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type != "application/json" and not (
        media_type.startswith("application/") and media_type.endswith("+json")
    ):
        raise HttpRefusal(
            415, "unsupported_media_type", "The body must be JSON, with the Content-Type application/json"
        )


def parse_json(body: bytes) -> dict[str, Any]:  # members of any JSON
    """Parse the JSON object in a body.

    Raises ``HttpRefusal`` for invalid JSON, ``InvalidArguments`` for JSON that is too deep or is not an object.
    """
    try:
        parsed = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        if "recursion limit" in str(error):
            raise InvalidArguments("The body is nested too deeply") from None
        raise HttpRefusal(400, "invalid_json", f"The body is not JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise InvalidArguments("The body must be a JSON object")
    return cast("dict[str, Any]", parsed)
