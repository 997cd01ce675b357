"""Loading: the state that a handler can see without waiting is read before it starts (spec 1, C33)."""

from __future__ import annotations

from collections.abc import Awaitable

from capset.composition.installing import Installed
from capset.kernel.execution import execution_of
from capset.kernel.invocation import Invocation, Step


def loading(installed: Installed) -> Step | None:
    """Read the state of every scope, where anything declares any and the handler can ask for it."""
    if not installed.tool.takes_context:
        return None

    def step(call: Invocation) -> Awaitable[None] | None:
        return execution_of(call).load() if call.place.data.states else None

    return step
