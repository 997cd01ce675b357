"""Asking policies: each once, in order, and whatever goes wrong denies."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from capset import Decision, Policy, Principal, Request, allow, deny
from capset.evaluation.policies import evaluate_all, rule
from tests.helpers.evaluation.things import later, says

REQUEST = Request({"tier": "pro"}, Principal("p"))


async def kind_of(answer: Any) -> str:
    """Ask a policy that gives this answer now or, as a coroutine, later."""
    policy = says("one", answer)
    ((asked_policy, decision),) = await evaluate_all([policy], REQUEST)
    assert asked_policy is policy
    return decision.kind


class OwnDecision(Decision):
    pass


@pytest.mark.spec("F15")
@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        *((True, "allow"), (allow(), "allow"), (OwnDecision("allow"), "allow"), (False, "deny"), (deny("no"), "deny")),
        *((other, "deny") for other in (None, 1, 0, "allow", "", ["x"], {"kind": "allow"}, allow, object(), Decision)),
    ],
)
async def test_a_decision_or_a_bool_will_do_now_or_later_and_nothing_else(answer: Any, kind: str) -> None:
    assert (await kind_of(answer), await kind_of(later(answer))) == (kind, kind)


@pytest.mark.spec("F15")
async def test_an_answer_that_must_be_awaited_twice_denies() -> None:
    inner = later(True)
    try:
        assert await kind_of(later(inner)) == "deny"
    finally:
        inner.close()


@pytest.mark.spec("F15")
@pytest.mark.parametrize("error", [RuntimeError, ValueError, KeyError, TimeoutError, RecursionError, StopIteration])
async def test_raising_denies_and_only_the_log_knows_why(
    error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    async def then(request: Request) -> bool:
        await asyncio.sleep(0)
        raise error("secret-detail")

    for policy in (says("broken", error("secret-detail")), Policy("broken", then)):
        caplog.clear()
        answers = await evaluate_all([says("first", True), policy, says("last", True)], REQUEST)
        assert [decision.kind for _, decision in answers] == ["allow", "deny", "allow"], "the others are asked"
        assert "secret-detail" not in str(answers[1][1].reason)
        assert "secret-detail" in caplog.text
        assert "'broken'" in caplog.text
        assert caplog.records[0].levelno == logging.ERROR


async def test_a_cancellation_is_not_swallowed() -> None:
    started = asyncio.Event()

    async def stuck(request: Request) -> bool:
        started.set()
        await asyncio.sleep(60)
        return True

    task = asyncio.create_task(evaluate_all([Policy("stuck", stuck)], REQUEST))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.spec("F17")
async def test_policies_are_asked_in_order_in_the_callers_own_task() -> None:
    numbers: list[int] = []
    tasks = {asyncio.current_task()}

    def gate(number: int) -> Policy:
        async def evaluate(request: Request) -> bool:
            assert request is REQUEST
            if number % 2:
                await asyncio.sleep(0)
            numbers.append(number)
            tasks.add(asyncio.current_task())
            return True

        return Policy(f"p{number}", evaluate)

    policies = [gate(number) for number in range(6)]
    answers = await evaluate_all(policies, REQUEST)
    assert ([policy for policy, _ in answers], numbers) == (policies, [*range(6)])
    assert len(tasks) == 1


async def test_policies_that_do_not_suspend_do_not_make_the_caller_suspend() -> None:
    async def answer(request: Request) -> bool:
        return True

    answers = evaluate_all([Policy("a", answer), says("b", True)], REQUEST)
    with pytest.raises(StopIteration) as done:
        answers.send(None)
    assert len(done.value.value) == 2


@pytest.mark.spec("F20")
def test_every_denial_decides() -> None:
    first, two, three = (says(name, True) for name in ("first", "two", "three"))
    answers = [(first, deny("a")), (two, allow()), (three, deny("b"))]
    assert rule(answers) == ("deny", [(first, deny("a")), (three, deny("b"))])
    assert rule([(two, allow())]) == ("allow", [(two, allow())])
