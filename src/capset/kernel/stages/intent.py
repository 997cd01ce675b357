"""Intent: a side-effecting tool does not start before its intent is durable (spec 4, G23)."""

from __future__ import annotations

from capset.composition.installing import Installed
from capset.kernel.audit import Intent
from capset.kernel.invocation import Invocation, Step


def intent(installed: Installed) -> Step | None:
    """Put the call on record before its handler; reads need none. Raises ``StoreError`` (503) if that fails."""
    if not installed.tool.has_side_effects:
        return None

    async def step(call: Invocation) -> None:
        await call.place.world.audit.commit(Intent(call))

    return step
