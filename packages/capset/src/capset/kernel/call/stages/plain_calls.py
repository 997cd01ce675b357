"""Plain calls: the steps up to the handler in one function, if none of them refuses or suspends the call (ADR 82).

Most calls are plain, and a governed call spent most of its time on calling the steps as separate functions. The
decisions made here are those of the steps. Calls that are not plain are left to the steps.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from types import MappingProxyType
from typing import Any, Final

from capset.composition.installation import InstalledTool
from capset.definitions.calls.messages import Json
from capset.definitions.governance.policies import Decision, Policy, Request
from capset.evaluation.policies import evaluate_eagerly
from capset.kernel.call.compiled_tools import Phase, PlainCall, Step
from capset.kernel.call.invocation import ALLOWED, CallArguments, Invocation
from capset.kernel.call.stages.access import authentication, permission
from capset.kernel.call.stages.admission import admission
from capset.kernel.call.stages.approval import approval
from capset.kernel.call.stages.arguments import allowed_by, apply_answers, arguments_error, policy, validation
from capset.kernel.call.stages.credential import credential
from capset.kernel.call.stages.phases import Stage
from capset.kernel.call.stages.run import invoke, load_state
from capset.kernel.governance.limits import CallLimits
from capset.kernel.named_tuples import new_tuple
from capset.schemas.validation_errors import VALIDATION_ERRORS

_REPLACED_STAGES: Final[Mapping[Phase, tuple[Stage, ...]]] = {
    "identify": (authentication,),
    "authorize": (permission,),
    "arguments": (validation, policy),
    "admit": (approval, credential, load_state, admission),
    "run": (invoke,),
}
"""The stages that ``begin`` replaces."""


def plain_call(
    installed: InstalledTool, stages: Mapping[Phase, tuple[Stage, ...]], phases: Mapping[Phase, tuple[Step, ...]]
) -> PlainCall | None:
    """Return how plain calls of a tool begin, or ``None`` if it has none.

    A tool has none if it changes something, asks for approval itself, needs a credential of its user, takes a context
    or arguments that are not scalars, is counted by the store, has a retry or a timeout, is not a coroutine function,
    has policies that are not simple (``InstalledTool.has_simple_policies``), or has stages that this module does not
    know.
    """
    tool, limits = installed.tool, CallLimits(installed)
    if (
        any(stages[phase] != expected for phase, expected in _REPLACED_STAGES.items())
        or tool.shape != "async"
        or tool.has_side_effects
        or tool.approval != "auto"
        or tool.credential is not None
        or tool.takes_context
        or limits.is_shared
        or tool.retry is not None
        or tool.timeout is not None
        or not installed.has_simple_policies
    ):
        return None
    name, schema, check, handler = installed.name, tool.arguments, tool.arguments.check, tool.handler
    policies, is_limited, allowed_decision = installed.policies, limits.is_limited, allowed_by(installed.policies)
    final_decision = allowed_decision.allowed() if policies else ALLOWED

    def begin(call: Invocation) -> Awaitable[Any] | None:
        context, options, received = call.context, call.options, call.raw_arguments
        if (
            type(received) is Json
            or not context.allows_plain_calls
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
            raise arguments_error(call, schema, error) from None
        call.arguments = new_tuple(CallArguments, (values, values, received, None, None))
        if policies:
            snapshot = context.snapshot
            request = new_tuple(Request, (snapshot.env, snapshot.principal, tool, MappingProxyType(values)))
            pending = evaluate_eagerly(policies, request)
            if pending is not None:
                return finish_after_policies(call, pending)
            call.decision = allowed_decision  # recorded if a limit refuses the call
        if is_limited:
            limits.count(call)
        call.decision = final_decision
        call.attempts = 1
        return handler(**values)

    async def finish_after_policies(call: Invocation, asking: Awaitable[list[tuple[Policy, Decision]]]) -> Any:
        apply_answers(call, await asking, allowed_decision)
        for step in phases["admit"]:
            pending = step(call)
            if pending is not None:
                await pending
        call.decision = call.decision.allowed()
        call.attempts = 1
        return await handler(**call.arguments.values)  # they may be an approver's

    return PlainCall(phases, begin, phases["result"])
