"""Policies at a call: asked again, all of them, with the arguments; what fails denies (spec 2, F15–F20)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from capset import Decision, Policy, Request, Tool, allow, deny, policy, tool
from capset.errors import CapsetError, PermissionDenied
from tests.helpers.kernel.support import Desk, desk, turns


class Basket(BaseModel):
    items: list[str]


def at_calls(answer: Callable[[Request], Any], id: str = "gate") -> Policy:
    """Return a policy that lets a snapshot be taken, and answers so at calls."""
    return Policy(id, lambda request: allow() if request.tool is None else answer(request))


def gated(*policies: Policy, effect: Any = "read") -> Tool[[int], int]:
    async def work(number: int) -> int:
        """Work."""
        return number

    return tool(name="work", effect=effect, policies=policies)(work)


async def refusal(opened: Desk, work: Tool[[int], int]) -> CapsetError:
    with pytest.raises(PermissionDenied) as raised:
        await opened.session.call(work, 1)
    assert raised.value.status == 403
    return raised.value


@pytest.mark.spec("F19")
async def test_policies_are_asked_again_at_every_call_with_tool_and_arguments() -> None:
    requests: list[Request] = []

    @policy
    def remember(request: Request) -> bool:
        requests.append(request)
        return True

    work = gated(remember)
    async with desk(work, env={"tier": "pro"}) as opened:
        for number in (1, 2):
            await opened.session.call(work, number)
        assert [(request.tool, dict(request.arguments or {})) for request in requests] == [
            (None, {}),
            (work, {"number": 1}),
            (work, {"number": 2}),
        ]
        assert requests[0].arguments is None
        assert {request.env["tier"] for request in requests} == {"pro"}
        assert {request.principal.id for request in requests} == {"user-1"}
        record = (await opened.records())[0]
        assert (record.decision, record.policies) == ("allow", '["remember"]')


@pytest.mark.spec("F20")
@settings(max_examples=40, deadline=None)
@given(answers=st.lists(st.booleans(), min_size=1, max_size=5))
async def test_deny_wins_in_any_order_and_everyone_who_denied_is_named(answers: list[bool]) -> None:
    def gate(index: int, allowed: bool) -> Policy:
        return at_calls(lambda _: allow() if allowed else deny(f"no {index}"), f"gate-{index}")

    work = gated(*(gate(index, allowed) for index, allowed in enumerate(answers)))
    async with desk(work) as opened:
        result = await opened.session.try_call(work, 1)
        record = await opened.record()
        denied = [index for index, allowed in enumerate(answers) if not allowed]
        assert result.success is not bool(denied)
        assert record.decision == ("deny" if denied else "allow")
        assert json.loads(record.policies) == [f"gate-{index}" for index in denied or range(len(answers))]
        assert record.reason == ("; ".join(f"no {index}" for index in denied) or None)


@pytest.mark.spec("F15")
async def test_all_are_asked_even_after_one_denied() -> None:
    gate_numbers: list[int] = []
    work = gated(*(at_calls(lambda _, n=n: gate_numbers.append(n) or deny("no"), f"gate-{n}") for n in range(3)))
    async with desk(work) as opened:
        await refusal(opened, work)
        assert gate_numbers == [0, 1, 2]


class Hostile:
    def __bool__(self) -> bool:
        raise RuntimeError("secret-of-the-policy")

    def __await__(self) -> Any:
        raise RuntimeError("secret-of-the-policy")


async def raising() -> Decision:
    await asyncio.sleep(0)
    raise RuntimeError("secret-of-the-policy")


async def answering(value: object) -> Any:
    await asyncio.sleep(0)
    return value


@pytest.mark.spec("F15", "T5")
@pytest.mark.parametrize(
    "answer",
    [
        lambda: 1 / 0,
        lambda: None,
        lambda: 1,
        lambda: "allow",
        lambda: {"kind": "allow"},
        Hostile,
        lambda: object,
        raising,
        lambda: answering(None),
        lambda: answering(1),
        lambda: answering("allow"),
        lambda: answering(Hostile()),
        lambda: answering(raising),
    ],
    ids=range(13),
)
async def test_what_raises_or_answers_nonsense_denies(
    answer: Callable[[], Any], caplog: pytest.LogCaptureFixture, store: str
) -> None:
    work = gated(at_calls(lambda _: answer()), effect="write")
    async with desk(work, store=store) as opened:
        error = await refusal(opened, work)
        assert error.message == "Permission denied: the policy failed, so it denies"
        record = await opened.record()
        assert (record.outcome, record.policies) == ("denied", '["gate"]')
        assert str(record.reason).endswith("(RuntimeError)") == (answer in (Hostile, raising))
        assert "secret" not in repr(record) + error.message + repr(error.hint)
    assert [log_record.levelname for log_record in caplog.records if log_record.name == "capset.policies"] == ["ERROR"]


@pytest.mark.parametrize(
    "answer",
    [
        lambda: True,
        allow,
        lambda: answering(True),
        lambda: answering(allow()),
        lambda: asyncio.ensure_future(answering(True)),
        lambda: asyncio.to_thread(allow),
    ],
    ids=range(6),
)
async def test_policies_may_be_sync_async_or_suspend(answer: Callable[[], Any]) -> None:
    work = gated(at_calls(lambda _: answer()))
    async with desk(work) as opened:
        assert await opened.session.call(work, 7) == 7


@pytest.mark.spec("F17")
async def test_a_policy_that_does_not_suspend_needs_no_task_and_no_turn_of_the_loop() -> None:
    async def quick(request: Request) -> bool:
        return asyncio.current_task() is mine

    mine = asyncio.current_task()
    work = gated(at_calls(quick))
    async with desk(work) as opened:
        call = opened.session.call(work, 3)
        with pytest.raises(StopIteration) as ended:
            call.send(None)
        assert ended.value.value == 3


async def test_nothing_that_a_policy_does_to_the_arguments_reaches_the_handler_or_the_record() -> None:
    request_arguments: list[dict[str, Any]] = []

    def meddle(request: Request) -> bool:
        arguments: Any = request.arguments
        request_arguments.append(dict(arguments))
        with pytest.raises(TypeError):
            arguments["name"] = "evil"
        with pytest.raises(TypeError):
            del arguments["name"]
        arguments["names"].append("evil")
        arguments["by"]["evil"] = [1]
        arguments["by"]["a"].append(2)
        arguments["basket"].items.append("evil")
        return True

    @tool(policies=[at_calls(meddle)])
    async def work(name: str, names: list[str], by: dict[str, list[int]], basket: Basket) -> object:
        """Work."""
        return [name, names, by, basket.items]

    async with desk(work) as opened:
        basket = Basket(items=["x"])
        assert await opened.session.call(work, "n", ["a"], {"a": [1]}, basket) == ["n", ["a"], {"a": [1]}, ["x"]]
        assert basket.items == ["x"]
        assert "evil" not in (await opened.record()).arguments
    assert request_arguments[0]["names"] == ["a", "evil"]


async def test_policies_of_concurrent_calls_do_not_mix() -> None:
    waiting: dict[int, asyncio.Event] = {number: asyncio.Event() for number in range(50)}

    async def odd(request: Request) -> Decision:
        assert request.arguments
        number = request.arguments["number"]
        await waiting[number].wait()
        return deny(f"{number} is even") if number % 2 == 0 else allow()

    work = gated(at_calls(odd), effect="write")
    async with desk(work) as opened:
        calls = [asyncio.create_task(opened.session.try_call(work, number)) for number in waiting]
        await turns()
        for number in reversed(waiting):
            waiting[number].set()
            await turns(2)
        results = await asyncio.gather(*calls)
        for number, result in enumerate(results):
            assert result.data == (None if number % 2 == 0 else number)
            assert result.success or f"Permission denied: {number} is even" == str(result.error)
        records = {json.loads(record.arguments)["number"]: record.decision for record in await opened.records()}
        assert records == {number: "allow" if number % 2 else "deny" for number in waiting}


async def test_a_call_that_is_cancelled_in_a_policy_never_ran_and_has_no_decision() -> None:
    def stuck(request: Request) -> Awaitable[bool]:
        return asyncio.get_running_loop().create_future()

    work = gated(at_calls(stuck), effect="write")
    async with desk(work) as opened:
        call = asyncio.create_task(opened.session.call(work, 1))
        await turns()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        record = await opened.record()
        assert (record.outcome, record.decision) == ("cancelled", None)


@pytest.mark.spec("F15", "F20")
async def test_what_one_policy_does_to_the_arguments_the_next_does_not_see() -> None:
    def clear(request: Request) -> bool:
        (request.arguments or {})["paths"].clear()
        return True

    def no_secrets(request: Request) -> bool:
        return "/etc" not in (request.arguments or {})["paths"]

    @tool(effect="read", policies=[at_calls(clear, "clear"), at_calls(no_secrets, "no-secrets")])
    async def look(paths: list[str]) -> list[str]:
        """Look."""
        return paths

    async with desk(look) as opened:
        result = await opened.session.try_call(look, ["/etc"])
        assert isinstance(result.error, PermissionDenied)
        assert await opened.session.call(look, ["/home"]) == ["/home"]


@pytest.mark.spec("F15", "K13")
@pytest.mark.parametrize(
    "error", [SystemExit(0), BaseExceptionGroup("x", [asyncio.CancelledError()]), asyncio.CancelledError()], ids=repr
)
async def test_a_policy_that_ends_what_is_not_its_own_denies(error: BaseException) -> None:
    def end(_: Request) -> bool:
        raise error

    work = gated(at_calls(end))
    async with desk(work) as opened:
        assert "the policy failed" in (await refusal(opened, work)).message
        assert (await opened.record()).outcome == "denied"


@pytest.mark.spec("G19")
async def test_a_policy_that_hangs_ends_with_the_calls_deadline() -> None:
    async def hang(_: Request) -> bool:
        await asyncio.sleep(30)
        return True

    work = gated(at_calls(hang))
    async with desk(work) as opened:
        result = await opened.session.options(timeout=0.02).try_call(work, 1)
        assert result.error is not None
        assert result.error.status == 504
        assert (await opened.record()).outcome == "timed_out"
