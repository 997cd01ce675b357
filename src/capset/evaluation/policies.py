"""Asking policies, and deciding between their answers (spec 2, F15–F20)."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from capset.definitions.policies import Decision, Policy, Request, allow, deny
from capset.evaluation.containment import is_contained

_log = logging.getLogger("capset.policies")
_FAILED = deny("the policy failed, so it denies")


async def ask_each(policies: Iterable[Policy], request: Request) -> list[tuple[Policy, Decision]]:
    """Put one request to every policy, in order, without a task for those that do not suspend (F17).

    A policy that raises, or that answers with neither a ``Decision`` nor a bool, denies (F15). Raises only a
    cancellation from outside.
    """
    answers: list[tuple[Policy, Decision]] = []
    for policy in policies:
        try:
            answer = policy.evaluate(request)
            if type(answer) is not Decision and not isinstance(answer, (Decision, bool)):
                answer = await answer
        except BaseException as error:
            if not is_contained(error):
                raise
            _log.exception("policy %r failed", policy.id)
            answer = _FAILED
        answers.append((policy, answer if type(answer) is Decision else _decided(policy, answer)))
    return answers


def denials(answers: Iterable[tuple[Policy, Decision]]) -> list[tuple[Policy, Decision]]:
    """Return the answers that deny: any one of them decides, whatever the order (F20)."""
    return [answer for answer in answers if answer[1].kind == "deny"]


def _decided(policy: Policy, answer: object) -> Decision:
    if isinstance(answer, Decision):
        return answer
    if isinstance(answer, bool):
        return allow() if answer else deny(f"policy {policy.id!r} says no")
    _log.error("policy %r answered with %s, not a Decision or a bool", policy.id, type(answer).__name__)
    return _FAILED
