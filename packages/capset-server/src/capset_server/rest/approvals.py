"""``/v1/approvals``: listing and deciding approval requests (spec 4, G16–G18; spec 5, P12).

A request belongs to an organisation. A caller with the scope ``capset:approve`` sees all requests of its organisation.
Any other caller sees those of its own sessions, and gets 404 for the rest.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Body, Path, Query, Request, Response

from capset.definitions.governance.approvals import Answer, ApprovalRow, ApprovalStatus
from capset.errors import CapsetError, InvalidArguments, PermissionDenied
from capset.stores.base import ApprovalQuery
from capset.wire.approvals import (
    ApprovalArgumentsShape,
    ApprovalConversationShape,
    ApprovalPageShape,
    ApprovalShape,
    ApproveInput,
    DecisionOutcomeShape,
    DecisionsInput,
    DecisionsShape,
    PendingSummaryShape,
    RejectInput,
    approval_page_shape,
    approval_shape,
    pending_summary_shape,
)
from capset.wire.errors import error_shape
from capset_server.approvals.conversations import read_conversation
from capset_server.approvals.decisions import decide_approval, find_approval, refusal_for
from capset_server.auth.callers import Caller
from capset_server.http.request_context import request_context
from capset_server.http.responses import hide_store_details
from capset_server.rest.files import FileDownload
from capset_server.rest.routing import Approves, Asks, Id, Paged, Served, StrictRoute, problems
from capset_server.service import Service

router = APIRouter(prefix="/approvals", tags=["approvals"], route_class=StrictRoute)
Approving = Annotated[ApproveInput, Body(default_factory=ApproveInput)]
Rejecting = Annotated[RejectInput, Body(default_factory=RejectInput)]
FileNumber = Annotated[int, Path(ge=0, le=1_000, description="The file's index in the request's `files`, from 0")]
_BYTES: Final[dict[str, Any]] = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}


class ApprovalFilter(Paged):
    """Requests that match all given filters."""

    status: ApprovalStatus | None = None
    session: Annotated[str | None, Query(max_length=200)] = None
    tool: Annotated[str | None, Query(max_length=200)] = None
    agent: Annotated[str | None, Query(max_length=200)] = None
    principal: Annotated[str | None, Query(max_length=200, description="With its kind: `user:ada`")] = None
    order: Annotated[Literal["newest", "oldest"], Query(description="Which comes first")] = "newest"


@router.get("", responses=problems(404, 422), operation_id="list_approvals")
async def list_approvals(
    service: Served, caller: Asks, params: Annotated[ApprovalFilter, Query()]
) -> ApprovalPageShape:
    """List approval requests. Without the scope ``capset:approve``, ``session`` must be one of the caller's own."""
    if not caller.has("capset:approve"):
        if params.session is None:
            raise PermissionDenied(
                "Permission denied: the requests of a whole organisation need the scope capset:approve; "
                "name a session of your own: session=ID"
            )
        await service.session_row(caller, params.session)
    query = ApprovalQuery(
        caller.principal.org,
        params.status,
        params.session,
        tool=params.tool,
        agent=params.agent,
        principal=params.principal,
        oldest_first=params.order == "oldest",
        limit=params.limit,
        before=params.cursor,
    )
    return await approval_page_shape(service.kernel.approvals.list, query, partial(refusal_for, service, caller))


@router.get("/summary", responses=problems(422), operation_id="summarize_approvals")
async def summarize_approvals(service: Served, caller: Approves) -> PendingSummaryShape:
    """Count the pending requests of the organisation, by age."""
    return pending_summary_shape(await service.kernel.approvals.summary(caller.principal.org))


@router.get("/{id}", responses=problems(404, 422), operation_id="get_approval")
async def get_approval(service: Served, caller: Asks, id: Id) -> ApprovalShape:
    """Return an approval request, with its status and decision."""
    return _shape(service, caller, await find_approval(service, caller, id))


@router.get("/{id}/arguments", responses=problems(404, 422), operation_id="get_approval_arguments")
async def get_approval_arguments(service: Served, caller: Approves, id: Id) -> ApprovalArgumentsShape:
    """Return the arguments of a pending request. Only secrets that the tool's schema declares are masked.

    Each view is recorded as an act.
    """
    row = await find_approval(service, caller, id)
    view = await service.kernel.approvals.show_arguments(row, by=caller.principal)
    return ApprovalArgumentsShape(arguments=view.arguments, modified=view.modified)


@router.get(
    "/{id}/files/{number}",
    responses={200: {"content": _BYTES, "description": "The file's bytes"}, **problems(404, 409, 422)},
    operation_id="get_approval_file",
    response_class=Response,
)
async def get_approval_file(
    service: Served, caller: Approves, id: Id, number: FileNumber, request: Request
) -> Response:
    """Return the bytes of a file that the arguments name, as the approval covers it; 409 if it has changed since.

    Each view is recorded as an act.
    """
    row = await find_approval(service, caller, id)
    file = await service.kernel.approvals.show_file(row, number, by=caller.principal)
    return FileDownload(file.read, file.stat, request_context(request.scope))


@router.get("/{id}/conversation", responses=problems(404, 422), operation_id="get_approval_conversation")
async def get_approval_conversation(service: Served, caller: Approves, id: Id) -> ApprovalConversationShape:
    """Return the last messages before a request, masked and truncated. Each view is recorded as an act."""
    return await read_conversation(service, caller, await find_approval(service, caller, id))


@router.post("/{id}/approve", responses=problems(400, 404, 409, 413, 415, 422), operation_id="approve")
async def approve(service: Served, caller: Approves, id: Id, body: Approving) -> ApprovalShape:
    """Approve a call, optionally with other arguments. A principal cannot approve its own request (403).

    If rules require several approvers, the request stays ``pending`` until enough of them have approved it.
    """
    row = await find_approval(service, caller, id)
    if body.arguments is not None and body.scope == "session":
        raise InvalidArguments("Invalid request: an approval with other arguments is for one call, not for the session")
    if body.arguments is not None and body.round is not None:
        raise InvalidArguments("Invalid request: round approves the arguments unchanged; leave out round or arguments")
    answer = Answer(True, body.scope, body.arguments, body.note, body.round)
    return _shape(service, caller, await decide_approval(service, caller, row.id, answer))


@router.post("/{id}/reject", responses=problems(400, 404, 409, 413, 415, 422), operation_id="reject")
async def reject(service: Served, caller: Approves, id: Id, body: Rejecting) -> ApprovalShape:
    """Reject a call. The note is shown to its caller."""
    decided = await decide_approval(service, caller, id, Answer(approved=False, note=body.note))
    return _shape(service, caller, decided)


@router.post("/decisions", responses=problems(400, 413, 415, 422), operation_id="decide_approvals")
async def decide_approvals(service: Served, caller: Approves, body: DecisionsInput, request: Request) -> DecisionsShape:
    """Approve or reject several requests with one reason. Each decision is recorded by itself, and may fail alone."""
    if body.answer == "reject" and any(selected.round is not None for selected in body.requests):
        raise InvalidArguments("Invalid request: round says what is approved; leave it out to reject")
    correlation = request_context(request.scope).correlation
    outcomes: list[DecisionOutcomeShape] = []
    for selected in body.requests:
        answer = Answer(body.answer == "approve", note=body.note, round=selected.round)
        try:
            row = await decide_approval(service, caller, selected.id, answer)
            outcomes.append(DecisionOutcomeShape(id=selected.id, approval=_shape(service, caller, row)))
        except CapsetError as error:
            public_error = error_shape(hide_store_details(error, correlation))
            outcomes.append(DecisionOutcomeShape(id=selected.id, error=public_error))
    return DecisionsShape(items=outcomes)


def _shape(service: Service, caller: Caller, row: ApprovalRow) -> ApprovalShape:
    return approval_shape(row, partial(refusal_for, service, caller))
