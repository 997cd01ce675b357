"""Approval requests as callers see and decide them over every interface (spec 4, G16–G18; spec 5, P12)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from pydantic import ValidationError

from capset.definitions.governance.approvals import Answer, ApprovalRow
from capset.errors import InvalidArguments, NotFound, PermissionDenied
from capset.wire.approvals import RejectInput
from capset_server.auth.callers import Caller
from capset_server.http.paths import APPROVAL_PAGE
from capset_server.service import Service

_REST: Final = "/v1/approvals"


async def find_approval(service: Service, caller: Caller, id: str) -> ApprovalRow:
    """Return a request that the caller may see. Raises ``NotFound``."""
    row = await service.kernel.approvals.get(id, org=caller.principal.org)
    principal = caller.principal
    mine = (principal.qualified_id, principal.on_behalf_of)
    if not caller.has("capset:approve") and (row.principal, row.on_behalf_of) != mine:
        raise NotFound(f"there is no approval request {id!r}")
    return row


def refusal_for(service: Service, caller: Caller, row: ApprovalRow) -> str | None:
    """Return why the caller may not approve a request, in one sentence; ``None`` if it may."""
    if not caller.has("capset:approve"):
        return "deciding needs the scope capset:approve"
    return service.kernel.approvals.refusal(row, caller.principal)


def checked_note(note: str | None) -> str | None:
    """Validate the reason of a decision as REST does, and return it. Raises ``InvalidArguments``."""
    try:
        return RejectInput(note=note).note
    except ValidationError:
        raise InvalidArguments("Invalid request: a reason has at most 1,000 characters, none of which is NUL") from None


def check_chat_answer(row: ApprovalRow, answer: Answer) -> None:
    """Raise ``PermissionDenied`` for an approval from a chat if a part of the request's arguments is masked.

    A chat never shows that part, because the chat would store it. Any request can be rejected from a chat.
    """
    if answer.approved and row.unmasked is not None:
        raise PermissionDenied(
            "Permission denied: a part of the arguments is masked here. Approve the request where they can be shown in "
            "full: on its page, in the console, over REST, or on the command line.",
            hint=f"show them: GET {_REST}/{row.id}/arguments, or capset approvals show {row.id} --unmasked",
        )


async def decide_approval(service: Service, caller: Caller, id: str, answer: Answer) -> ApprovalRow:
    """Decide a request as the caller, and return its new row.

    Raises ``InsufficientScope`` without the scope ``capset:approve``, and the errors of ``ApprovalService.decide``.
    """
    caller.check("capset:approve")
    decided = await service.kernel.approvals.decide(id, answer, by=caller.principal)
    service.turns.turns.wake()  # a turn may be waiting for it
    return decided


def may_approve_own(service: Service, caller: Caller) -> bool:
    """Return whether the caller may approve its own requests, by the same rules as over REST."""
    is_let = caller.has("capset:approve") and caller.is_for(_REST) and caller.principal.kind != "anonymous"
    return is_let and service.kernel.governance.own_approvals


def page_of(service: Service) -> Callable[[str], str] | None:
    """Return a function from a request's id to the URL of its page; ``None`` without a public URL."""
    public = service.public_url
    if public is None:
        return None
    return lambda request: public + APPROVAL_PAGE.format(id=quote(request, safe=""))


def connection_page_of(service: Service) -> Callable[[str], str] | None:
    """Return a function from a connection's name to the URL of its page; ``None`` without a public URL."""
    public = service.public_url
    if public is None:
        return None
    return lambda connection: f"{public}/connections/{quote(connection, safe='')}"
