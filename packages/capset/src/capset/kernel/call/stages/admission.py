"""Admission: takes limits, budgets, the approval and the intent together, as the handler starts (spec 4, G3)."""

from __future__ import annotations

from collections.abc import Awaitable

from capset.composition.installation import InstalledTool
from capset.definitions.calls.messages import Json
from capset.errors import ApprovalVoid, TurnLost
from capset.kernel.call.compiled_tools import Step
from capset.kernel.call.invocation import NOT_ADMITTED, Admitted, Invocation
from capset.kernel.call.stages.approval import approval
from capset.kernel.call.stages.arguments import refresh_recorded
from capset.kernel.governance.audit import digest_of, intent_of
from capset.kernel.governance.limits import CallLimits, refusal_error
from capset.kernel.named_tuples import new_tuple
from capset.stores.base import AdmissionRefused, QuotaExhausted, TurnTaken, WindowFull


def admission(installed: InstalledTool) -> Step | None:
    """Refuse a call beyond a limit or a budget; otherwise count it, use up its approval, and record its intent.

    The store takes everything that it counts in one transaction, together with the intent. A call that counts nowhere
    needs only the intent, and if it only reads, not even that. In a turn, the intent is taken only while this process
    holds the turn: a process that was frozen and presumed dead finds out before it has another effect.
    """
    limits, ask_again = CallLimits(installed), approval(installed)
    tool = installed.tool
    has_intent, may_change = tool.has_side_effects, tool.contract is None and not tool.arguments.only_scalars

    def step(call: Invocation) -> Awaitable[None] | None:
        if (
            call.context.limits is not None
            or call.options.quota is not None
            or call.approved_request is not None
            or (has_intent and call.options.hold is not None)
            or limits.is_shared
        ):
            return admit(call)
        if limits.is_limited:
            call.admitted = new_tuple(Admitted, (limits.reserve(call), None))
        return record_intent(call) if has_intent else None

    def check_unchanged(call: Invocation) -> None:
        """Raise ``ApprovalVoid`` if an in-process caller has changed the arguments since they were approved."""
        request = call.approved_request
        if request is None or request.modified is not None or not may_change or isinstance(call.raw_arguments, Json):
            return
        refresh_recorded(call, tool)
        if digest_of(call) != request.digest:
            call.deny("approval void: the arguments have changed since the approval was requested")
            raise ApprovalVoid("Approval void: the arguments have changed since the approval was requested.")

    async def record_intent(call: Invocation) -> None:
        """Record the intent of a call before its handler starts. Raises ``StoreError`` (503) if that fails (G23)."""
        await call.context.runtime.audit.commit(intent_of(call))

    async def admit(call: Invocation) -> None:
        while True:
            call.admitted = new_tuple(Admitted, (limits.reserve(call), None))
            request = call.approved_request
            approved = request if request is not None and request.scope == "once" else None
            claim, claimed_limits = limits.claim(call, approved, call.options.hold if has_intent else None)
            if claim is None:
                if has_intent:
                    await record_intent(call)
                return check_unchanged(call)
            call.admitted = Admitted(call.admitted.reservation, claim)
            try:
                await call.context.runtime.store.admissions.admit(claim, intent_of(call) if has_intent else None)
            except AdmissionRefused as refused:
                _release_reservation(call)
                if isinstance(refused, QuotaExhausted | WindowFull):
                    raise refusal_error(call, refused, claimed_limits) from None
                if isinstance(refused, TurnTaken):
                    call.deny("another process holds the turn now, or it has ended")
                    raise TurnLost("The turn has ended, or another process holds it now; no call was made.") from None
                # Otherwise another call has used the approval.
                if call.options.approval is not None or ask_again is None or (request and request.modified is not None):
                    call.deny("approval void: it was already used")
                    raise ApprovalVoid("Approval void: it was already used.") from None
            else:
                return check_unchanged(call)
            # An equal call has used it, so this one needs its own approval.
            call.approved_request = None
            if (pending := ask_again(call)) is not None:
                await pending

    return step


def _release_reservation(call: Invocation) -> None:
    """Release what was reserved for a call that the store has refused; the store wrote nothing."""
    reservation, call.admitted = call.admitted.reservation, NOT_ADMITTED
    if reservation is not None:
        reservation.release()
