"""Evaluation of policies, and the outcome of their answers (spec 2, F15–F20)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from capset.definitions.environments import MissingValue
from capset.definitions.governance.hooks import NO_HOOKS, Hooks, PolicyEvaluated
from capset.definitions.governance.policies import Answer, Decision, DecisionKind, Policy, Request, allow, deny
from capset.evaluation.containment import dispatch_hooks, is_contained

PolicyMode = Literal["authoritative", "hint"]
"""What a call does without the result of a ``snapshot`` policy: deny (``authoritative``) or evaluate it (``hint``)."""

_log = logging.getLogger("capset.policies")
_MISSING: Final = deny("the policy's result is missing from the snapshot, so it denies")
_ALLOWED: Final = allow()
"""The shared answer of policies that allow."""
LATE: Final = deny("the policy did not answer in time, so it denies")


@dataclass(frozen=True, slots=True)
class FailedDecision(Decision):
    """A denial because the policy raised ``error``, or, if that is ``None``, returned an invalid answer."""

    kind: DecisionKind = "deny"
    reason: str | None = "the policy failed, so it denies"
    error: BaseException | None = None

    @property
    def detail(self) -> str:
        """The reason for the record, not for the model: it adds the error's type, or the name of a missing value.

        The error's own text is only for hooks and the log.
        """
        return self.reason or "" if self.error is None else f"{self.reason} ({_error_label(self.error)})"


class Ruling(NamedTuple):
    """The outcome of several answers, and those that determined it. Deny takes precedence over ask, ask over allow."""

    kind: DecisionKind
    determining: Sequence[tuple[Policy, Decision]]

    @property
    def policies(self) -> tuple[str, ...]:
        """The ids of the policies that determined it."""
        return tuple(policy.id for policy, _ in self.determining)

    @property
    def reason(self) -> str:
        """The reason, safe for a model to read."""
        return "; ".join(decision.reason or policy.id for policy, decision in self.determining)

    @property
    def detail(self) -> str:
        """The reason with the error types of failed policies, for the record only."""
        return "; ".join(
            decision.detail if isinstance(decision, FailedDecision) else decision.reason or policy.id
            for policy, decision in self.determining
        )


async def evaluate_all(policies: Iterable[Policy], request: Request) -> list[tuple[Policy, Decision]]:
    """Evaluate every policy for a request, in order and in the current task.

    A policy that raises, or that answers with neither a ``Decision`` nor a bool, denies. Raises only a cancellation
    from outside.
    """
    policies = tuple(policies)
    pending = evaluate_eagerly(policies, request)
    return [(policy, _ALLOWED) for policy in policies] if pending is None else await pending


def evaluate_eagerly(policies: Sequence[Policy], request: Request) -> Awaitable[list[tuple[Policy, Decision]]] | None:
    """Evaluate every policy as ``evaluate_all`` does. Return ``None`` if all allow the request without being awaited.

    Otherwise return an awaitable of all answers. The policies up to the first that did not simply allow have already
    been called.
    """
    for policy in policies:
        try:
            answer = policy.evaluate(request)
        except BaseException as error:
            if not is_contained(error):
                raise
            answer = failed_decision(policy, error)
        if answer is not True and answer is not _ALLOWED:
            return _evaluate_rest(policies, request, policies.index(policy), answer)  # each policy occurs once
    return None


async def _evaluate_rest(
    policies: Sequence[Policy], request: Request, start: int, answer: Answer
) -> list[tuple[Policy, Decision]]:
    """Evaluate the policies after ``start``. All before it allowed; its own raw ``answer`` may have to be awaited."""
    answers = [(policy, _ALLOWED) for policy in policies[:start]]
    for index in range(start, len(policies)):
        policy = policies[index]
        try:
            if index > start:
                answer = policy.evaluate(request)
            if type(answer) is not Decision and not isinstance(answer, (Decision, bool)):
                answer = await answer
        except BaseException as error:
            if not is_contained(error):
                raise
            answer = failed_decision(policy, error)
        answers.append((policy, answer if type(answer) is Decision else decision_of(policy, answer)))
    return answers


async def evaluate_policy(
    policy: Policy, request: Request, *, hooks: Hooks = NO_HOOKS, owner: str | None = None
) -> Decision:
    """Evaluate one policy as ``evaluate_all`` does, and notify the hooks.

    ``owner`` is the first definition with the policy.
    """
    ((_, decision),) = await evaluate_all((policy,), request)
    if hooks.on_policy_evaluated:
        await notify_evaluated(policy, decision, request, hooks, owner)
    return decision


async def notify_evaluated(
    policy: Policy, decision: Decision, request: Request, hooks: Hooks, owner: str | None = None
) -> None:
    """Notify the hooks that a policy was evaluated."""
    error = decision.error if isinstance(decision, FailedDecision) else None
    await dispatch_hooks(
        hooks.on_policy_evaluated,
        PolicyEvaluated(policy, decision, request, policy.id if owner is None else owner, error),
    )


async def gate_tool(
    policies: Iterable[Policy],
    request: Request,
    results: Mapping[Policy, Decision],
    *,
    mode: PolicyMode = "authoritative",
    hooks: Hooks = NO_HOOKS,
) -> Ruling:
    """Decide on one call: evaluate live policies again, and use the ``results`` of the others.

    ``request`` has the tool and its arguments. ``mode`` says what to do if a result is missing.
    """
    answers: list[tuple[Policy, Decision]] = []
    for policy in policies:
        answer = None if policy.is_live else stored_answer(policy, results, mode)
        answers.append((policy, answer or await evaluate_policy(policy, request, hooks=hooks)))
    return rule(answers)


def stored_answer(policy: Policy, results: Mapping[Policy, Decision], mode: PolicyMode) -> Decision | None:
    """Return a policy's answer from the evaluation of the snapshot, or ``None`` if it must be evaluated now."""
    answer = results.get(policy)
    return _MISSING if answer is None and mode == "authoritative" else answer


def rule(answers: Sequence[tuple[Policy, Decision]]) -> Ruling:
    """Return the outcome of some answers; their order does not matter."""
    denials = [answer for answer in answers if answer[1].kind == "deny"]
    if denials:
        return Ruling("deny", denials)
    questions = [answer for answer in answers if answer[1].kind == "ask"]
    return Ruling("ask", questions) if questions else Ruling("allow", answers)


def failed_decision(policy: Policy, error: BaseException) -> Decision:
    """Log the error that a policy raised, and return its denial."""
    _log.error("policy %r failed: %s", policy.id, _error_label(error), exc_info=error)
    return FailedDecision(error=error)


def _error_label(error: BaseException) -> str:
    return error.description if isinstance(error, MissingValue) else type(error).__name__


def decision_of(policy: Policy, answer: object) -> Decision:
    """Return the decision for a policy's answer. Anything but a ``Decision`` or a bool is logged, and denies."""
    if isinstance(answer, Decision):
        return answer
    if isinstance(answer, bool):
        return allow() if answer else deny(f"policy {policy.id!r} says no")
    _log.error("policy %r answered with %s, not a Decision or a bool", policy.id, type(answer).__name__)
    return FailedDecision()
