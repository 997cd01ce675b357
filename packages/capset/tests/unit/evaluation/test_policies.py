"""Asking policies: each once, in order, and whatever goes wrong denies."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any

import pytest

from capset import Decision, Policy, Principal, Request, allow, deny
from capset.evaluation.policies import ask_each, rule

REQUEST = Request({"tier": "pro"}, Principal("p"))


def says(answer: Any) -> Policy:
    return Policy("one", lambda request: answer)


async def later(answer: Any) -> Any:
    await asyncio.sleep(0)
    return answer


async def kind_of(policy: Policy) -> str:
    ((asked_policy, decision),) = await ask_each([policy], REQUEST)
    assert asked_policy is policy
    return decision.kind


class OwnDecision(Decision):
    pass


class Unasked:
    """Is true, like most things."""

    def __bool__(self) -> bool:
        return True


@pytest.mark.spec("F15")
@pytest.mark.parametrize(
    ("answer", "kind"),
    [(True, "allow"), (allow(), "allow"), (OwnDecision("allow"), "allow"), (False, "deny"), (deny("no"), "deny")],
)
async def test_a_decision_or_a_bool_will_do_now_or_later(answer: Any, kind: str) -> None:
    assert await kind_of(says(answer)) == kind
    assert await kind_of(Policy("one", lambda request: later(answer))) == kind


@pytest.mark.spec("F15")
@pytest.mark.parametrize("answer", [None, 1, 0, "allow", "", [], ["x"], {"kind": "allow"}, allow, Unasked(), Decision])
async def test_any_other_answer_denies(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert await kind_of(says(answer)) == "deny"
    assert await kind_of(Policy("one", lambda request: later(answer))) == "deny"
    assert "'one'" in caplog.text


@pytest.mark.spec("F15")
async def test_an_answer_that_must_be_awaited_twice_denies() -> None:
    inner = later(True)
    try:
        assert await kind_of(Policy("one", lambda request: later(inner))) == "deny"
    finally:
        inner.close()


@pytest.mark.spec("F15")
@pytest.mark.parametrize("error", [RuntimeError, ValueError, KeyError, TimeoutError, RecursionError, StopIteration])
async def test_raising_denies_and_only_the_log_knows_why(
    error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    def now(request: Request) -> bool:
        raise error("secret-detail")

    async def then(request: Request) -> bool:
        await asyncio.sleep(0)
        raise error("secret-detail")

    for evaluate in (now, then):
        caplog.clear()
        ((_, decision),) = await ask_each([Policy("broken", evaluate)], REQUEST)
        assert decision.kind == "deny"
        assert "secret-detail" not in str(decision.reason)
        assert "secret-detail" in caplog.text
        assert "'broken'" in caplog.text
        assert caplog.records[0].levelno == logging.ERROR


@pytest.mark.spec("F15")
async def test_one_that_raises_does_not_keep_the_others_from_being_asked() -> None:
    def broken(request: Request) -> bool:
        raise RuntimeError

    answers = await ask_each([says(True), Policy("broken", broken), Policy("last", lambda request: False)], REQUEST)
    assert [decision.kind for _, decision in answers] == ["allow", "deny", "deny"]


async def test_a_cancellation_is_not_swallowed() -> None:
    started = asyncio.Event()

    async def stuck(request: Request) -> bool:
        started.set()
        await asyncio.sleep(60)
        return True

    task = asyncio.create_task(ask_each([Policy("stuck", stuck)], REQUEST))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.spec("F17")
async def test_policies_are_asked_in_order_in_the_callers_own_task() -> None:
    names: list[str] = []
    tasks = {asyncio.current_task()}

    def named(name: str, *, suspends: bool) -> Policy:
        def now(request: Request) -> bool | Awaitable[bool]:
            assert request is REQUEST
            names.append(name)
            tasks.add(asyncio.current_task())
            return later(True) if suspends else True

        return Policy(name, now)

    policies = [named(f"p{number}", suspends=number % 2 == 0) for number in range(6)]
    answers = await ask_each(policies, REQUEST)
    assert [policy for policy, _ in answers] == policies
    assert names == [policy.id for policy in policies]
    assert len(tasks) == 1


async def test_policies_that_do_not_suspend_do_not_make_the_caller_suspend() -> None:
    async def answer(request: Request) -> bool:
        return True

    answers = ask_each([Policy("a", answer), says(True)], REQUEST)
    with pytest.raises(StopIteration) as done:
        answers.send(None)
    assert len(done.value.value) == 2


@pytest.mark.spec("F20")
def test_every_denial_decides() -> None:
    first, two, three = says(1), says(2), says(3)
    answers = [(first, deny("a")), (two, allow()), (three, deny("b"))]
    assert rule(answers) == ("deny", [(first, deny("a")), (three, deny("b"))])
    assert rule([(two, allow())]) == ("allow", [(two, allow())])
