"""Results of calls that wait for an approval: a form, a page or a task, as the client supports (spec 7, M19, M20)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, Literal

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult, InputRequiredResult
from pydantic import BaseModel, Field

from capset.definitions.calls.clients import ClientQuestion, question_of
from capset.definitions.governance.approvals import Answer, ApprovalRow
from capset.errors import Conflict, ConnectionRequired, NotFound, PermissionDenied
from capset.fingerprint.canonical import read
from capset.kernel.call.client_questions import has_forms
from capset.kernel.governance.approval_needs import round_of
from capset.kernel.governance.file_arguments import describe_file, files_of
from capset.wire.calls import approval_of
from capset_connect.legible_text import legible
from capset_server.mcp.calls import PREFIX, Ended, meta_of
from capset_server.mcp.exchanges import Exchange
from capset_server.mcp.questions import APPROVAL_KEY, McpClient
from capset_server.mcp.tasks import Tasks

DECIDED_SECONDS: Final = 45.0
"""How long a call waits for a person who has opened the page to decide."""
MAX_SHOWN: Final = 4_000
"""Maximum length of the arguments in a form: no decision should rest on truncated arguments."""

_DECIDE: Final = "Open the page to decide, or send its link to an approver."
Again = Callable[[], Awaitable[Ended]]
"""Makes the same call again."""


class DecisionForm(BaseModel):
    """The form for callers who may approve their own requests."""

    decision: Literal["approve", "reject"]
    note: Annotated[str, Field(max_length=1_000, description="The reason.")] | None = None


async def until_approved(
    ended: Ended, exchange: Exchange, client: McpClient | None, tasks: Tasks | None, retry: Again
) -> Ended | InputRequiredResult | dict[str, Any]:
    """Return a call as it ended, or if it waits for an approval, what its client can do about that.

    Callers who may approve it themselves get a form; others get the page, and then a task. A client that supports none
    of these gets the refusal, and can repeat the call later.
    """
    approval = approval_of(ended.error)
    if approval is None or client is None or not client.is_modern:
        return ended
    answer, access = client.approval_answer(approval), exchange.approvals
    if (question := await _question(exchange, client, approval)) is not None:
        if answer is None or (answer.action == "accept" and not _FORM.accepts(answer.content)):
            params = ElicitRequestFormParams(message=question, requested_schema=dict(_FORM.form))
            return client.approval_required(approval, params, _meta(ended, exchange, approval))
        if answer.action == "accept":
            await _decide(exchange, approval, answer)
            return await _then_connected(await retry(), approval, exchange, client, tasks, retry)
    elif (page := access.page(ended.error)) is not None and client.has_urls:
        if answer is None or answer.content is not None:  # to a form, whose arguments have changed since
            is_connection = isinstance(ended.error, ConnectionRequired)
            then = "Open the page to connect." if is_connection else _DECIDE
            params = ElicitRequestURLParams(message=f"{ended.error and ended.error.message} {then}", url=page)
            return client.approval_required(approval, params, _meta(ended, exchange, approval))
        if answer.action == "accept" and not client.has_tasks:
            if await (await exchange.session.suspended(approval)).wait_for_decision(DECIDED_SECONDS):
                return await _then_connected(await retry(), approval, exchange, client, tasks, retry)
            return ended
    if tasks is not None and client.has_tasks and (task := await tasks.create(ended, exchange, approval)) is not None:
        return task
    return ended


async def _then_connected(
    ended: Ended, approval: str, exchange: Exchange, client: McpClient, tasks: Tasks | None, retry: Again
) -> Ended | InputRequiredResult | dict[str, Any]:
    """Return a call that was made again; what its client can do if it waits for a connection now."""
    if not isinstance(ended.error, ConnectionRequired) or ended.error.approval == approval:
        return ended
    return await until_approved(ended, exchange, client, tasks, retry)


async def _decide(exchange: Exchange, approval: str, answer: ElicitResult) -> None:
    """Decide a request as the caller has answered the form. If it is decided already, the call shows that."""
    form_values = _FORM.read(answer.content or {})
    decide = exchange.approvals.decide
    if decide is None:
        return
    try:
        approved = form_values.decision == "approve"
        await decide(approval, Answer(approved=approved, note=form_values.note, round=0 if approved else None))
    except (Conflict, NotFound):
        pass
    except PermissionDenied as error:
        raise MCPError(INVALID_PARAMS, error.message) from None


async def _question(exchange: Exchange, client: McpClient, approval: str) -> str | None:
    """Return the question of the form, ``None`` if a page or another approver has to decide the request.

    The form shows the original arguments in full. If an approver has changed them, or a part of them is masked, the
    page is needed.
    """
    access = exchange.approvals
    if access.decide is None or not has_forms(client.capabilities):
        return None
    request = (await exchange.session.suspended(approval)).request
    is_whole = not round_of(request) and request.unmasked is None
    return _shown(request) if is_whole and access.refusal(request) is None else None


def _shown(request: ApprovalRow) -> str | None:
    """Return the question of the form, ``None`` if it would be too long to be read."""
    arguments = legible(json.dumps(read(request.arguments), indent=2, ensure_ascii=False))
    arguments += "".join(f"\n{legible(describe_file(file))}" for file in files_of(request))
    if len(arguments) > MAX_SHOWN:
        return None
    return f"{legible(request.tool)} is to be called with {arguments}\n{legible(request.reason)}"


def _meta(ended: Ended, exchange: Exchange, approval: str) -> dict[str, Any]:
    meta = {**meta_of(ended), f"{PREFIX}approval": approval}
    if (page := exchange.approvals.page(ended.error)) is not None:
        meta[f"{PREFIX}approval_url"] = page
    return meta


_FORM: Final[ClientQuestion[DecisionForm]] = question_of(APPROVAL_KEY, "Approve?", DecisionForm)
