"""Policy: live policies are asked again, now with the arguments; the others hold to the snapshot (spec 2, F19, F20)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from copy import deepcopy
from types import MappingProxyType
from typing import Any

from typing_extensions import TypeVar

from capset.composition.installing import Gate, Installed
from capset.definitions.hooks import merge_hooks
from capset.definitions.policies import Decision, Policy, Request
from capset.errors import ApprovalRequired, DeadlineExceeded, PermissionDenied
from capset.evaluation.policies import Ruling, ask_each, held_answer, rule, tell_asked
from capset.kernel.invocation import Invocation, Step

T = TypeVar("T")
_Answer = tuple[Policy, Decision]


def policy(installed: Installed) -> Step | None:
    """Refuse a call that any policy denies; all are asked, so that the record names everyone who decided."""
    tool, policies = installed.tool, installed.gates
    if not policies:
        return None
    ids = tuple(one.id for one in policies)
    only_scalars = tool.arguments.only_scalars
    all_live = all(one.is_live for one in policies)
    gates: Mapping[Policy, Gate] = {gate.policy: gate for gate in installed.met}
    has_hooks = any(gate.hooks.on_policy_evaluated for gate in gates.values())

    def request(call: Invocation) -> Request:
        # What one policy does to a list or a model that it is shown reaches neither the next nor the handler.
        arguments: dict[str, Any] = call.arguments if only_scalars else deepcopy(call.arguments)
        return Request(call.place.snapshot.env, call.place.principal, tool, MappingProxyType(arguments))

    async def asked(call: Invocation) -> list[_Answer]:
        if all_live and only_scalars:
            return await ask_each(policies, request(call))
        snapshot, answers = call.place.snapshot, list[_Answer]()
        for one in policies:
            held = None if one.is_live else held_answer(one, snapshot.answers, snapshot.policy_mode)
            answers += [(one, held)] if held is not None else await ask_each((one,), request(call))
        return answers

    async def tell(call: Invocation, answers: list[_Answer]) -> None:
        snapshot = call.place.snapshot
        for one, decision in answers:
            if one.is_live or held_answer(one, snapshot.answers, snapshot.policy_mode) is None:
                gate = gates[one]
                await tell_asked(one, decision, request(call), merge_hooks(gate.hooks, snapshot.hooks), gate.owner)

    async def step(call: Invocation) -> None:
        answers = await (asked(call) if call.deadline is None else _in_time(call, asked(call)))
        if has_hooks or call.place.snapshot.hooks.on_policy_evaluated:
            await tell(call, answers)
        ruling = rule(answers)
        if ruling.kind == "allow":
            call.policies = ids
        else:
            _refuse(call, ruling)

    return step


def _refuse(call: Invocation, ruling: Ruling) -> None:
    call.decision, call.policies, call.reason = "deny", ruling.policies, ruling.detail
    if ruling.kind == "ask":
        raise ApprovalRequired(f"Permission denied: this needs an approval first: {ruling.reason}")
    raise PermissionDenied(f"Permission denied: {ruling.reason}")


async def _in_time(call: Invocation, asking: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout_at(call.deadline):
            return await asking
    except TimeoutError:
        raise DeadlineExceeded(f"Deadline exceeded: the policies of {call.road.name!r} took too long.") from None
