"""Approval: a call that needs one waits for it, or is refused and made again once approved (spec 4, G16–G18)."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import cast

from typing_extensions import TypeVar

from capset.composition.installation import Installed
from capset.definitions.calls.messages import Json
from capset.definitions.governance.approvals import ApprovalRow
from capset.definitions.governance.policies import Decision, Policy, ask
from capset.errors import (
    ApprovalExpired,
    ApprovalRejected,
    ApprovalRequired,
    ApprovalVoid,
    PermissionDenied,
)
from capset.evaluation.policies import Ruling, ask_each, rule
from capset.fingerprint.canonical import as_json
from capset.kernel.call.compiled_tools import REPEATED_PHASES, Step, run_phases
from capset.kernel.call.invocation import NOT_VALIDATED, Invocation
from capset.kernel.call.stages.arguments import in_time, record_again, request_of
from capset.kernel.governance.approval_needs import ApprovalNeeds, has_enough_approvals
from capset.kernel.governance.approval_requests import (
    is_of_other_code,
    look_at_files,
    needs_of,
    open_request,
    standing_request,
)
from capset.kernel.governance.approvals import ApprovalService, rejection, to_event_data
from capset.kernel.governance.audit import digest_of
from capset.kernel.governance.file_arguments import are_unchanged
from capset.kernel.governance.limits import CallLimits
from capset.kernel.streams.emission import announce
from capset.schemas.json_schema import graph_of
from capset.schemas.json_schema_graph import SchemaNode

T = TypeVar("T")


def approval(installed: Installed) -> Step | None:
    """Ask for the approval of a call if its tool requires it or a policy has asked for it."""
    tool, approval_rule = installed.tool, installed.tool.approval
    if not installed.may_ask:
        return None
    limits = CallLimits(installed)
    schema = graph_of(tool.arguments) if tool.arguments.takes_files else None
    always = ask(f"every call of {installed.name!r} has to be approved")
    tool_policy = (
        None if isinstance(approval_rule, str) else Policy("approval", lambda request: _decided(approval_rule(request)))
    )

    async def question(call: Invocation) -> Ruling | None:
        if tool_policy is None:
            return Ruling("ask", [(_ALWAYS, always)]) if approval_rule == "ask" else call.decided.question
        asking = ask_each((tool_policy,), request_of(call, tool))
        ruling = rule(await (asking if call.options.deadline is None else in_time(call, asking)))
        if ruling.kind == "deny":
            call.deny(ruling.detail)
            raise PermissionDenied(f"Permission denied: {ruling.reason}")
        return ruling if ruling.kind == "ask" else call.decided.question

    async def recheck(call: Invocation, row: ApprovalRow) -> None:
        """Check the call again: its credential, the policies' answers and its arguments may have changed."""
        credential = call.options.credential
        if credential is not None:
            await credential.check(afresh=True)
        if row.modified is not None:
            call.given = Json(as_json(row.modified).encode())
            call.arguments = NOT_VALIDATED
        elif tool.contract is None and not tool.arguments.only_scalars and not isinstance(call.given, Json):
            # An in-process caller still holds the arguments, and may have changed them since.
            record_again(call, tool)
            if digest_of(call) != row.digest:
                raise _void(call, "the arguments have changed since the approval was requested")
        call.decided = call.decided._replace(question=None)
        await run_phases(call, REPEATED_PHASES)
        await question(call)  # only because it may deny: an approval has been given
        await _look_at_files(call, schema)
        _check_files(call, row)

    async def settle(call: Invocation) -> None:
        ruling = await question(call)
        if ruling is None:
            return
        question_of_policies = call.decided.question
        if question_of_policies is not None and ruling is not question_of_policies:
            ruling = Ruling("ask", [*question_of_policies.determining, *ruling.determining])
        needs = needs_of(call.context.runtime.governance.approvers, call, installed)
        await _look_at_files(call, schema)
        row, has_waited = await _granted(call, ruling, limits, needs)
        if has_waited or row.modified is not None:
            await recheck(call, row)
        if call.named_files:
            call.approved_files = call.context.files.as_approved({file.path: file.sha256 for file in call.named_files})
        call.ticket = row
        call.decided = call.decided._replace(reason=f"approved by {row.decided_by}", approval=row.id)

    def step(call: Invocation) -> Awaitable[None] | None:
        if approval_rule == "auto" and call.decided.question is None:
            return None
        return settle(call)

    return step


async def _look_at_files(call: Invocation, schema: SchemaNode | None) -> None:
    """Set ``named_files`` of a call to their current state; ``schema`` is ``None`` if its arguments name no files."""
    if schema is not None:
        call.named_files = await look_at_files(call, schema)


def _check_files(call: Invocation, row: ApprovalRow) -> None:
    """Raise ``ApprovalVoid`` if the files that a call names are not those that were approved."""
    if not are_unchanged(call.named_files, row):
        raise _void(call, "a file that its arguments name has changed since the approval was requested")


_ALWAYS = Policy("approval", lambda request: False)
"""The policy in whose name a tool with ``approval="ask"`` asks."""


async def _decided(answer: object) -> Decision | bool:
    """Convert the answer of a tool's own rule, where ``True`` means that approval is needed, to a policy's answer."""
    if isinstance(answer, Awaitable):
        answer = await cast("Awaitable[object]", answer)
    if isinstance(answer, bool):
        return ask("its own rule asks for an approval") if answer else True
    if isinstance(answer, Decision):
        return answer
    raise TypeError(f"an approval rule must return a bool or a Decision, not {type(answer).__name__}")


async def _granted(
    call: Invocation, ruling: Ruling, limits: CallLimits, needs: ApprovalNeeds | None
) -> tuple[ApprovalRow, bool]:
    """Return the approval of a call, and whether the call has waited for it."""
    service = call.context.runtime.approvals
    digest = digest_of(call)
    if call.options.approval is not None:
        return await _presented(call, service, call.options.approval, digest, needs), False
    call.decided = call.decided._replace(reason=ruling.detail)
    has_waited = False
    while True:
        row = await _in_time(call, standing_request(call, digest, needs))
        if row is None:
            await limits.check(call)  # a call that is over its limit opens no request
            row = await _in_time(call, open_request(call, ruling, digest, needs))
        call.decided = call.decided._replace(approval=row.id)
        if service.is_to_consult(row):
            row = await _in_time(call, service.consult(row))
            has_waited = True
        if row.status == "pending":
            if call.options.defers:
                call.deny(ruling.detail)
                raise _required(row, f"this needs an approval first: {ruling.reason}")
            tell = partial(announce, call, "approval.requested", to_event_data(row))
            row = await _in_time(call, service.wait(row, tell))
            has_waited = True
        if row.status == "approved" and not has_enough_approvals(row):
            await _in_time(call, service.void(row))
            continue
        if row.status != "used":  # otherwise an equal call was faster, and this one needs its own approval
            return _approved(call, row, service), has_waited


async def _in_time(call: Invocation, asking: Awaitable[T]) -> T:
    return await (
        asking if call.options.deadline is None else in_time(call, asking, "there was no approval in time for")
    )


def _required(row: ApprovalRow, why: str) -> ApprovalRequired:
    end = "" if why.endswith((".", "?", "!")) else "."
    needed = "" if row.needs is None else f" It needs {ApprovalNeeds.read(row).summary()}."
    then = f"The request is {row.id}; once it is approved, make the same call again."
    message = f"Permission denied: {why}{end}{needed} {then}"
    return ApprovalRequired(message, approval=row.id, hint=f"have it approved: capset approvals approve {row.id}")


async def _presented(
    call: Invocation, service: ApprovalService, id: str, digest: str, needs: ApprovalNeeds | None
) -> ApprovalRow:
    """Return the approval that a caller names, if it is for exactly this call (G17).

    Raises ``ApprovalVoid`` if it is for another call or was used. The error does not reveal whether an approval of
    another session or principal exists.
    """
    context = call.context
    row = await service.find(id, context.principal.org)
    mine = (context.id, f"{context.principal.kind}:{context.principal.id}", context.principal.on_behalf_of)
    if row is None or (row.session, row.principal, row.on_behalf_of) != mine:
        raise _void(call, "there is no such approval of this session")
    call.decided = call.decided._replace(approval=row.id)
    if (row.tool_hash, row.tool, row.agent) != (call.compiled.hash, call.compiled.name, context.block.name):
        raise _void(call, "it was given for another tool, or the tool has changed since")
    if is_of_other_code(row, call):
        raise _void(call, "it was given for another version of the tool's code")
    if row.digest != digest:
        raise _void(call, "it was given for other arguments, or a file that they name has changed since")
    if row.needs != (needs and needs.written()):
        raise _void(call, "the rules for its approvers have changed since")
    if row.status == "used":
        raise _void(call, "it was used already")
    if row.status == "approved" and not has_enough_approvals(row):
        raise _void(call, "it lacks some of the approvals that it needs")
    if row.status == "pending" and not service.is_overdue(row):
        call.deny(call.decided.reason)
        raise _required(row, "the request has no answer yet")
    return _approved(call, row, service)


def _void(call: Invocation, why: str) -> ApprovalVoid:
    call.deny(f"approval void: {why}")
    return ApprovalVoid(f"Approval void: {why}.")


def _approved(call: Invocation, row: ApprovalRow, service: ApprovalService) -> ApprovalRow:
    if row.status == "approved" and not service.is_overdue(row):
        return row
    if row.status == "rejected":
        why = rejection(row)
        call.deny(why)
        raise ApprovalRejected(
            f"Permission denied: the request was {why}",
            hint=f"the same call gets this answer until {row.expires_at}",
        )
    call.deny("no answer in time")
    raise ApprovalExpired("Permission denied: the request for an approval was not answered in time.")
