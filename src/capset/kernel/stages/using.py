"""Using: an approval for one call is used up when its handler is about to start, and not before (spec 4, G3, G17)."""

from __future__ import annotations

from collections.abc import Awaitable

from capset.composition.installing import Installed
from capset.definitions.approvals import ApprovalRow
from capset.errors import ApprovalVoid
from capset.kernel.invocation import Invocation, Step


def using(installed: Installed) -> Step | None:
    """Use up the approval that a call has, if it needed one. Raises ``ApprovalVoid`` for one that is gone by now."""
    if installed.tool.approval == "auto" and not installed.gates:
        return None

    async def use(call: Invocation, row: ApprovalRow) -> None:
        if not await call.place.world.approvals.use(row):
            call.decision, call.reason = "deny", "approval void: it was used already"
            raise ApprovalVoid("Approval void: it was used already.")
        call.has_used = True

    def step(call: Invocation) -> Awaitable[None] | None:
        return None if call.ticket is None else use(call, call.ticket)

    return step
