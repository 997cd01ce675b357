"""Approval: a call that needs one waits for it, or is refused and made again once approved (spec 4, G16–G18)."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import cast

from typing_extensions import TypeVar

from capset.composition.installation import InstalledTool
from capset.definitions.calls.messages import Json
from capset.definitions.governance.approvals import ApprovalRow
from capset.definitions.governance.policies import Decision, Policy, ask
from capset.errors import (
    ApprovalExpired,
    ApprovalRejected,
    ApprovalRequired,
    PermissionDenied,
)
from capset.evaluation.policies import Ruling, evaluate_all, rule
from capset.fingerprint.canonical import as_json
from capset.kernel.call.compiled_tools import Step
from capset.kernel.call.invocation import Invocation
from capset.kernel.call.stages.arguments import request_of, within_deadline
from capset.kernel.call.stages.rechecks import recheck, void_error
from capset.kernel.governance.approval_needs import ApprovalNeeds, has_enough_approvals, needed_connection
from capset.kernel.governance.approval_requests import (
    existing_request,
    has_different_code,
    needs_of,
    open_request,
    own_request,
    read_named_files,
)
from capset.kernel.governance.approvals import ApprovalService, rejection, to_event_data
from capset.kernel.governance.audit import digest_of
from capset.kernel.governance.file_arguments import are_unchanged
from capset.kernel.governance.limits import CallLimits
from capset.kernel.streams.emission import announce
from capset.schemas.json_schema import graph_of
from capset.schemas.json_schema_graph import SchemaNode

T = TypeVar("T")


def approval(installed: InstalledTool) -> Step | None:
    """Ask for the approval of a call if its tool requires it or a policy has asked for it."""
    tool, approval_rule = installed.tool, installed.tool.approval
    if not installed.may_ask:
        return None
    limits = CallLimits(installed)
    schema = graph_of(tool.arguments) if tool.arguments.takes_files else None
    always = ask(f"every call of {installed.name!r} has to be approved")
    tool_policy = (
        None
        if isinstance(approval_rule, str)
        else Policy("approval", lambda request: _as_policy_answer(approval_rule(request)))
    )

    async def question(call: Invocation) -> Ruling | None:
        if tool_policy is None:
            return Ruling("ask", [(_ALWAYS, always)]) if approval_rule == "ask" else call.decision.question
        asking = evaluate_all((tool_policy,), request_of(call, tool))
        ruling = rule(await within_deadline(call, asking))
        if ruling.kind == "deny":
            call.deny(ruling.detail)
            raise PermissionDenied(f"Permission denied: {ruling.reason}")
        return ruling if ruling.kind == "ask" else call.decision.question

    async def check_again(call: Invocation, row: ApprovalRow) -> None:
        """Check a call that has waited: credential, policies and arguments may have changed."""
        modified = None if row.modified is None else Json(as_json(row.modified).encode())
        await recheck(call, tool, row.digest, modified=modified)
        await question(call)  # only because it may deny: an approval has been given
        await _read_named_files(call, schema)
        _check_files(call, row)

    async def require_approval(call: Invocation) -> None:
        ruling = await question(call)
        if ruling is None:
            return
        policies_question = call.decision.question
        if policies_question is not None and ruling is not policies_question:
            ruling = Ruling("ask", [*policies_question.determining, *ruling.determining])
        needs = needs_of(call.context.runtime.governance.approvers, call, installed)
        await _read_named_files(call, schema)
        row, has_waited = await _obtain_approval(call, ruling, limits, needs)
        if has_waited or row.modified is not None:
            await check_again(call, row)
        if call.named_files:
            call.approved_files = call.context.files.as_approved({file.path: file.sha256 for file in call.named_files})
        call.approved_request = row
        call.decision = call.decision._replace(reason=f"approved by {row.decided_by}", approval=row.id)

    def step(call: Invocation) -> Awaitable[None] | None:
        if approval_rule == "auto" and call.decision.question is None:
            return None
        return require_approval(call)

    return step


async def _read_named_files(call: Invocation, schema: SchemaNode | None) -> None:
    """Set ``named_files`` of a call to their current state; ``schema`` is ``None`` if its arguments name no files."""
    if schema is not None:
        call.named_files = await read_named_files(call, schema)


def _check_files(call: Invocation, row: ApprovalRow) -> None:
    """Raise ``ApprovalVoid`` if the files that a call names are not those that were approved."""
    if not are_unchanged(call.named_files, row):
        raise void_error(call, "a file that its arguments name has changed since the approval was requested")


_ALWAYS = Policy("approval", lambda request: False)
"""The policy in whose name a tool with ``approval="ask"`` asks."""


async def _as_policy_answer(answer: object) -> Decision | bool:
    """Convert the answer of a tool's own rule, where ``True`` means that approval is needed, to a policy's answer."""
    if isinstance(answer, Awaitable):
        answer = await cast("Awaitable[object]", answer)
    if isinstance(answer, bool):
        return ask("its own rule asks for an approval") if answer else True
    if isinstance(answer, Decision):
        return answer
    raise TypeError(f"an approval rule must return a bool or a Decision, not {type(answer).__name__}")


async def _obtain_approval(
    call: Invocation, ruling: Ruling, limits: CallLimits, needs: ApprovalNeeds | None
) -> tuple[ApprovalRow, bool]:
    """Return the approval of a call, and whether the call has waited for it."""
    service = call.context.runtime.approvals
    digest = digest_of(call)
    if call.options.approval is not None:
        named = await own_request(call.context, call.options.approval)
        if named is None or needed_connection(named) is None:  # a connection is no approval
            return _named_approval(call, service, named, digest, needs), False
    call.decision = call.decision._replace(reason=ruling.detail)
    has_waited = False
    while True:
        row = await _within_deadline(call, existing_request(call, digest, needs))
        if row is None:
            await limits.check(call)  # a call that is over its limit opens no request
            row = await _within_deadline(call, open_request(call, ruling, digest, needs))
        call.decision = call.decision._replace(approval=row.id)
        if service.should_consult(row):
            row = await _within_deadline(call, service.consult(row))
            has_waited = True
        if row.status == "pending":
            if call.options.defers_approval:
                call.deny(ruling.detail)
                raise _required_error(row, f"this needs an approval first: {ruling.reason}")
            announce_request = partial(announce, call, "approval.requested", to_event_data(row))
            row = await _within_deadline(call, service.wait(row, announce_request))
            has_waited = True
        if row.status == "approved" and not has_enough_approvals(row):
            await _within_deadline(call, service.expire_incomplete(row))
            continue
        if row.status != "used":  # otherwise an equal call was faster, and this one needs its own approval
            return _check_approved(call, row, service), has_waited


def _within_deadline(call: Invocation, asking: Awaitable[T]) -> Awaitable[T]:
    return within_deadline(call, asking, "there was no approval in time for")


def _required_error(row: ApprovalRow, reason: str) -> ApprovalRequired:
    end = "" if reason.endswith((".", "?", "!")) else "."
    needed = "" if row.needs is None else f" It needs {ApprovalNeeds.of_row(row).summary()}."
    then = f"The request is {row.id}; once it is approved, make the same call again."
    message = f"Permission denied: {reason}{end}{needed} {then}"
    return ApprovalRequired(message, approval=row.id, hint=f"have it approved: capset approvals approve {row.id}")


def _named_approval(
    call: Invocation, service: ApprovalService, row: ApprovalRow | None, digest: str, needs: ApprovalNeeds | None
) -> ApprovalRow:
    """Return the approval that a caller names, if it is for exactly this call (G17).

    Raises ``ApprovalVoid`` if it is for another call or was used. The error does not reveal whether an approval of
    another session or principal exists.
    """
    context = call.context
    if row is None:
        raise void_error(call, "there is no such approval of this session")
    call.decision = call.decision._replace(approval=row.id)
    if (row.tool_hash, row.tool, row.agent) != (call.compiled.hash, call.compiled.name, context.block.name):
        raise void_error(call, "it was given for another tool, or the tool has changed since")
    if has_different_code(row, call):
        raise void_error(call, "it was given for another version of the tool's code")
    if row.digest != digest:
        raise void_error(call, "it was given for other arguments, or a file that they name has changed since")
    if row.needs != (needs and needs.to_json()):
        raise void_error(call, "the rules for its approvers have changed since")
    if row.status == "used":
        raise void_error(call, "it was already used")
    if row.status == "approved" and not has_enough_approvals(row):
        raise void_error(call, "it lacks some of the approvals that it needs")
    if row.status == "pending" and not service.is_overdue(row):
        call.deny(call.decision.reason)
        raise _required_error(row, "the request has no answer yet")
    return _check_approved(call, row, service)


def _check_approved(call: Invocation, row: ApprovalRow, service: ApprovalService) -> ApprovalRow:
    if row.status == "approved" and not service.is_overdue(row):
        return row
    if row.status == "rejected":
        reason = rejection(row)
        call.deny(reason)
        raise ApprovalRejected(
            f"Permission denied: the request was {reason}",
            hint=f"the same call gets this answer until {row.expires_at}",
        )
    call.deny("no answer in time")
    raise ApprovalExpired("Permission denied: the approval request was not answered in time.")
