"""Plain calls: the steps up to the handler in one function, if none of them refuses or suspends the call (ADR 82).

Most calls are plain, and a governed call spent most of its time on calling the steps as separate functions. The
decisions made here are those of the steps. Calls that are not plain are left to the steps.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from types import MappingProxyType
from typing import Any, Final

from capset.composition.installation import Installed
from capset.definitions.calls.messages import Json
from capset.definitions.governance.policies import Decision, Policy, Request
from capset.evaluation.policies import ask_at_once
from capset.kernel.call.compiled_tools import Phase, PlainCall, Step
from capset.kernel.call.invocation import ALLOWED, CallArguments, Invocation
from capset.kernel.call.stages.access import authentication, permission
from capset.kernel.call.stages.admission import admission
from capset.kernel.call.stages.approval import approval
from capset.kernel.call.stages.arguments import conclude, passed_by, policy, unfitting, validation
from capset.kernel.call.stages.phases import Stage
from capset.kernel.call.stages.run import invoke, load_state
from capset.kernel.governance.limits import CallLimits
from capset.kernel.named_tuples import new_tuple
from capset.schemas.validation_errors import VALIDATION_ERRORS

_KNOWN: Final[Mapping[Phase, tuple[Stage, ...]]] = {
    "identify": (authentication,),
    "authorize": (permission,),
    "arguments": (validation, policy),
    "admit": (approval, load_state, admission),
    "run": (invoke,),
}
"""The stages that ``begin`` replaces."""


def plain_call(
    installed: Installed, stages: Mapping[Phase, tuple[Stage, ...]], phases: Mapping[Phase, tuple[Step, ...]]
) -> PlainCall | None:
    """Return how plain calls of a tool begin, or ``None`` if it has none.

    A tool has none if it changes something, asks for approval itself, takes a context or arguments that are not
    scalars, is counted by the store, has a retry or a timeout, is not a coroutine function, has policies that cannot be
    asked plainly (``Installed.asks_plainly``), or has stages that this module does not know.
    """
    tool, limits = installed.tool, CallLimits(installed)
    if (
        any(stages[phase] != expected for phase, expected in _KNOWN.items())
        or tool.shape != "async"
        or tool.has_side_effects
        or tool.approval != "auto"
        or tool.takes_context
        or limits.is_shared
        or tool.retry is not None
        or tool.timeout is not None
        or not tool.arguments.only_scalars
        or not installed.asks_plainly
    ):
        return None
    name, schema, check, handler = installed.name, tool.arguments, tool.arguments.check, tool.handler
    policies, is_limited, passed = installed.gates, limits.is_limited, passed_by(installed.gates)
    decided = passed.allowed() if policies else ALLOWED

    def begin(call: Invocation) -> Awaitable[Any] | None:
        context, options, received = call.context, call.options, call.given
        if (
            type(received) is Json
            or not context.may_be_plain
            or name not in context.snapshot.tools
            or context.runtime.refusals.is_busy
            or options.deadline is not None
            or options.quota is not None
            or (options.credential is not None and not options.credential.admits_all)
        ):
            return None
        try:
            values = check(received)
        except VALIDATION_ERRORS as error:
            raise unfitting(call, schema, error) from None
        call.arguments = new_tuple(CallArguments, (values, values, received, None, None))
        if policies:
            snapshot = context.snapshot
            request = new_tuple(Request, (snapshot.env, snapshot.principal, tool, MappingProxyType(values)))
            pending = ask_at_once(policies, request)
            if pending is not None:
                return go_on(call, pending)
            call.decided = passed  # recorded if a limit refuses the call
        if is_limited:
            limits.count(call)
        call.decided = decided
        call.attempts = 1
        return handler(**values)

    async def go_on(call: Invocation, asking: Awaitable[list[tuple[Policy, Decision]]]) -> Any:
        conclude(call, await asking, passed)
        for step in phases["admit"]:
            pending = step(call)
            if pending is not None:
                await pending
        call.decided = call.decided.allowed()
        call.attempts = 1
        return await handler(**call.arguments.values)  # they may be an approver's

    return PlainCall(phases, begin, phases["result"])
