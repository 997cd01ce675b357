"""Checks of a call that has waited for somebody: what was true before may have changed (spec 4, G17)."""

from __future__ import annotations

from capset.definitions.calls.messages import Json
from capset.definitions.tools.definition import AnyTool
from capset.errors import ApprovalVoid
from capset.kernel.call.compiled_tools import REPEATED_PHASES, run_phases
from capset.kernel.call.invocation import NOT_VALIDATED, Invocation
from capset.kernel.call.stages.arguments import refresh_recorded
from capset.kernel.governance.audit import digest_of


async def recheck(
    call: Invocation, tool: AnyTool, digest: str, *, modified: Json | None = None, with_approval: bool = False
) -> None:
    """Check the caller's credential, the arguments and the policies' answers again.

    ``digest`` is that of the arguments before, and ``modified`` what an approver has replaced them with. With
    ``with_approval``, the approval is checked, too. Raises ``ApprovalVoid`` if an in-process caller has changed the
    arguments, and the errors of the phases.
    """
    credential = call.options.credential
    if credential is not None:
        await credential.check(bypass_cache=True)
    if modified is not None:
        call.raw_arguments = modified
        call.arguments = NOT_VALIDATED
    elif tool.contract is None and not tool.arguments.only_scalars and not isinstance(call.raw_arguments, Json):
        # An in-process caller still holds the arguments, and may have changed them since.
        refresh_recorded(call, tool)
        if digest_of(call) != digest:
            raise void_error(call, "the arguments have changed since the approval was requested")
    call.decision = call.decision._replace(question=None)
    await run_phases(call, REPEATED_PHASES)
    if with_approval:
        await _recheck_approval(call)


async def _recheck_approval(call: Invocation) -> None:
    """Check the approval that a call has, or obtain one if it needs one now."""
    service, request = call.context.runtime.approvals, call.approved_request
    if request is None:
        for step in call.compiled.approval_steps:
            pending = step(call)
            if pending is not None:
                await pending
        return
    current = await service.find(request.id, request.org)
    if current is None or current.status != "approved" or service.is_overdue(current):
        raise void_error(call, "it was used, or has ended since")


def void_error(call: Invocation, reason: str) -> ApprovalVoid:
    """Refuse a call because its approval is void, and return the error."""
    call.deny(f"approval void: {reason}")
    return ApprovalVoid(f"Approval void: {reason}.")
