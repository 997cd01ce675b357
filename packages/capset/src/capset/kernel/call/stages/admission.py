"""Admission: limits, budgets, the approval and the intent are taken together, as the handler starts (spec 4, G3)."""

from __future__ import annotations

from collections.abc import Awaitable

from capset.composition.installation import Installed
from capset.definitions.calls.messages import Json
from capset.errors import ApprovalVoid, TurnLost
from capset.kernel.call.compiled_tools import Step
from capset.kernel.call.invocation import NOT_ADMITTED, Admitted, Invocation
from capset.kernel.call.stages.approval import approval
from capset.kernel.call.stages.arguments import record_again
from capset.kernel.governance.audit import digest_of, intent_of
from capset.kernel.governance.limits import CallLimits, exceeded
from capset.kernel.named_tuples import new_tuple
from capset.stores.base import QuotaSpent, Refused, TurnTaken, WindowFull


def admission(installed: Installed) -> Step | None:
    """Refuse a call beyond a limit or a budget; else count it, use its approval up, and put its intent on record.

    What the store counts is taken in one transaction of it, with the intent. A call that counts nowhere needs only the
    intent, and none if it only reads. In a turn, the intent is taken only while this process holds that: one that was
    frozen, and taken for dead, finds out before it has another effect.
    """
    limits, ask_again = CallLimits(installed), approval(installed)
    tool = installed.tool
    has_intent, may_change = tool.has_side_effects, tool.contract is None and not tool.arguments.only_scalars

    def step(call: Invocation) -> Awaitable[None] | None:
        if (
            call.context.terms is not None
            or call.options.quota is not None
            or call.ticket is not None
            or (has_intent and call.options.hold is not None)
            or limits.is_shared
        ):
            return admit(call)
        if limits.is_limited:
            call.admitted = new_tuple(Admitted, (limits.reserve(call), None))
        return intend(call) if has_intent else None

    def check_unchanged(call: Invocation) -> None:
        """Raise ``ApprovalVoid`` for arguments that their caller, in process, has changed since they were approved."""
        ticket = call.ticket
        if ticket is None or ticket.modified is not None or not may_change or isinstance(call.given, Json):
            return
        record_again(call, tool)
        if digest_of(call) != ticket.digest:
            call.deny("approval void: the arguments have changed since it was asked for")
            raise ApprovalVoid("Approval void: the arguments have changed since it was asked for.")

    async def intend(call: Invocation) -> None:
        """Put a call on record before its handler. Raises ``StoreError`` (503) if that fails (G23)."""
        await call.context.runtime.audit.commit(intent_of(call))

    async def admit(call: Invocation) -> None:
        while True:
            call.admitted = new_tuple(Admitted, (limits.reserve(call), None))
            ticket = call.ticket
            approved = ticket if ticket is not None and ticket.scope == "once" else None
            claim, counted = limits.claim(call, approved, call.options.hold if has_intent else None)
            if claim is None:
                if has_intent:
                    await intend(call)
                return check_unchanged(call)
            call.admitted = Admitted(call.admitted.reserved, claim)
            try:
                await call.context.runtime.store.admissions.admit(claim, intent_of(call) if has_intent else None)
            except Refused as refused:
                _forget(call)
                if isinstance(refused, QuotaSpent | WindowFull):
                    raise exceeded(call, refused, counted) from None
                if isinstance(refused, TurnTaken):
                    call.deny("the turn is another process's now, or has ended")
                    raise TurnLost("The turn is another process's now, or has ended: the call was not made.") from None
                # Else the approval is taken, by another call.
                if call.options.approval is not None or ask_again is None or (ticket and ticket.modified is not None):
                    call.deny("approval void: it was used already")
                    raise ApprovalVoid("Approval void: it was used already.") from None
            else:
                return check_unchanged(call)
            # That was an equal call: this one needs an approval of its own.
            call.ticket = None
            if (pending := ask_again(call)) is not None:
                await pending

    return step


def _forget(call: Invocation) -> None:
    """Let go of what was reserved for a call that the store does not let through: it wrote nothing."""
    reserved, call.admitted = call.admitted.reserved, NOT_ADMITTED
    if reserved is not None:
        reserved.give_back()
