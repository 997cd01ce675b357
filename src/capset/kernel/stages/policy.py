"""Policy: every policy of the tool is asked again, now with the arguments (spec 2, F19, F20)."""

from __future__ import annotations

from copy import deepcopy
from types import MappingProxyType

from capset.definitions.capabilities import AnyTool
from capset.definitions.policies import Request
from capset.errors import PermissionDenied
from capset.evaluation.policies import ask_each, denials
from capset.kernel.invocation import Invocation, Step


def policy(tool: AnyTool) -> Step | None:
    """Refuse a call that any policy denies; all are asked, so that the record names everyone who decided."""
    if not tool.policies:
        return None
    policies = tool.policies
    ids = tuple(one.id for one in policies)
    only_scalars = tool.arguments.only_scalars

    async def step(call: Invocation) -> None:
        place = call.place
        # What a policy does to a list or a model that it is shown must not reach the handler: it is not on record.
        seen = call.arguments if only_scalars else deepcopy(call.arguments)
        request = Request(place.snapshot.env, place.principal, tool, MappingProxyType(seen))
        if refused := denials(await ask_each(policies, request)):
            call.decision, call.policies = "deny", tuple(one.id for one, _ in refused)
            call.reason = "; ".join(decision.reason or one.id for one, decision in refused)
            raise PermissionDenied(f"Permission denied: {call.reason}")
        call.policies = ids

    return step
