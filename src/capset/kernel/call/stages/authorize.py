"""Permission: what the snapshot pruned is 403, with the snapshot's reason (spec 4, G2, G8)."""

from __future__ import annotations

from capset.composition.installation import Installed
from capset.errors import PermissionDenied
from capset.kernel.call.compiled_tools import Step
from capset.kernel.call.invocation import Invocation


def permission(installed: Installed) -> Step:
    """Refuse a call of a tool that is not in play for this principal, here and now."""
    name = installed.name

    def step(call: Invocation) -> None:
        snapshot = call.context.snapshot
        if name not in snapshot.tools:
            verdict = snapshot.verdicts[name]
            call.deny(verdict.detail or verdict.reason, verdict.policies)
            raise PermissionDenied(f"Permission denied: {verdict.reason}")

    return step
