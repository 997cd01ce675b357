"""Policy: every policy of the tool is asked again, now with the arguments (spec 2, F19, F20)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from copy import deepcopy
from types import MappingProxyType

from typing_extensions import TypeVar

from capset.composition.merge import Installed
from capset.definitions.policies import Decision, Policy, Request
from capset.errors import DeadlineExceeded, PermissionDenied
from capset.evaluation.policies import ask_each, denials
from capset.kernel.invocation import Invocation, Step

T = TypeVar("T")


def policy(installed: Installed) -> Step | None:
    """Refuse a call that any policy denies; all are asked, so that the record names everyone who decided."""
    tool, policies = installed.tool, installed.gates
    if not policies:
        return None
    ids = tuple(one.id for one in policies)
    only_scalars = tool.arguments.only_scalars

    async def answers_to(call: Invocation) -> list[tuple[Policy, Decision]]:
        env, principal, arguments = call.place.snapshot.env, call.place.principal, call.arguments
        if only_scalars:
            return await ask_each(policies, Request(env, principal, tool, MappingProxyType(arguments)))
        # What one policy does to a list or a model that it is shown reaches neither the next nor the handler.
        answers: list[tuple[Policy, Decision]] = []
        for one in policies:
            seen = MappingProxyType(deepcopy(arguments))
            answers += await ask_each((one,), Request(env, principal, tool, seen))
        return answers

    async def step(call: Invocation) -> None:
        if call.deadline is None:
            answers = await answers_to(call)
        else:
            answers = await _in_time(call, answers_to(call))
        if refused := denials(answers):
            call.decision, call.policies = "deny", tuple(one.id for one, _ in refused)
            call.reason = "; ".join(decision.reason or one.id for one, decision in refused)
            raise PermissionDenied(f"Permission denied: {call.reason}")
        call.policies = ids

    return step


async def _in_time(call: Invocation, asking: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout_at(call.deadline):
            return await asking
    except TimeoutError:
        raise DeadlineExceeded(f"Deadline exceeded: the policies of {call.road.name!r} took too long.") from None
