"""Policies at a call: who is asked, with what, and what their answers come to; what fails denies (spec 2, F15–F20)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from capset import Agent, Capability, Decision, Hooks, Kernel, Policy, Principal, Request, Tool, allow, ask, deny, tool
from capset.definitions.governance.hooks import PolicyEvaluated
from capset.errors import ApprovalRequired, CapsetError, DeadlineExceeded, NotFound, PermissionDenied
from capset.evaluation.policies import gate_tool
from capset.evaluation.snapshot.capture import capture
from capset.evaluation.snapshot.hydrate import hydrate
from tests.helpers.kernel.support import Desk, desk, records_of, turns
from tests.helpers.kernel.support import ask as ask_tool

WHO = Principal("user-1")


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
    work = gated(Policy("remember", lambda request: requests.append(request) is None))
    async with desk(work, env={"tier": "pro"}) as opened:
        for number in (1, 2):
            await opened.session.call(work, number)
        asked = [(request.tool, request.arguments) for request in requests]
        assert asked == [(None, None), (work, {"number": 1}), (work, {"number": 2})]
        assert {(request.env["tier"], request.principal.id) for request in requests} == {("pro", "user-1")}
        record = (await opened.records())[0]
        assert (record.decision, record.policies) == ("allow", '["remember"]')


@pytest.mark.spec("F15", "F20")
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


def throw(error: BaseException) -> Any:
    raise error


@pytest.mark.spec("F15", "K13", "T5")
@pytest.mark.parametrize(
    "answer",
    [
        *(lambda: 1 / 0, lambda: throw(SystemExit(0)), lambda: throw(asyncio.CancelledError())),
        lambda: throw(BaseExceptionGroup("x", [asyncio.CancelledError()])),
        *(lambda: None, lambda: 1, lambda: "allow", lambda: {"kind": "allow"}, lambda: object),
        *(lambda: answering(None), lambda: answering(1), lambda: answering("allow"), lambda: answering(raising)),
        *(Hostile, lambda: answering(Hostile()), raising),
    ],
    ids=range(16),
)
async def test_errors_or_nonsense_deny(answer: Callable[[], Any], caplog: pytest.LogCaptureFixture, store: str) -> None:
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
        *(lambda: True, allow, lambda: answering(True), lambda: answering(allow())),
        *(lambda: asyncio.ensure_future(answering(True)), lambda: asyncio.to_thread(allow)),
    ],
    ids=range(6),
)
async def test_policies_may_be_sync_async_or_suspend(answer: Callable[[], Any]) -> None:
    work = gated(at_calls(lambda _: answer()))
    async with desk(work) as opened:
        assert await opened.session.call(work, 7) == 7


@pytest.mark.spec("F15", "F20")
async def test_nothing_that_a_policy_does_to_the_arguments_reaches_the_next_or_the_handler_or_the_record() -> None:
    def meddle(request: Request) -> bool:
        arguments: Any = request.arguments
        with pytest.raises(TypeError):
            arguments["name"] = "evil"
        with pytest.raises(TypeError):
            del arguments["name"]
        for items in (arguments["names"], arguments["by"]["a"], arguments["basket"].items):
            items.append("evil")
        arguments["by"]["evil"] = [1]
        return arguments["names"] == ["a", "evil"]

    def is_unchanged(request: Request) -> bool:
        return "evil" not in repr(request.arguments)

    @tool(policies=[at_calls(meddle, "meddle"), at_calls(is_unchanged, "next")])
    async def work(name: str, names: list[str], by: dict[str, list[int]], basket: Basket) -> object:
        """Work."""
        return [name, names, by, basket.items]

    async with desk(work) as opened:
        basket = Basket(items=["x"])
        assert await opened.session.call(work, "n", ["a"], {"a": [1]}, basket) == ["n", ["a"], {"a": [1]}, ["x"]]
        assert basket.items == ["x"]
        assert "evil" not in (await opened.record()).arguments


async def test_policies_of_concurrent_calls_do_not_mix() -> None:
    waiting = {number: asyncio.Event() for number in range(50)}

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
        decisions = {json.loads(record.arguments)["number"]: record.decision for record in await opened.records()}
        assert decisions == {number: "allow" if number % 2 else "deny" for number in waiting}


@pytest.mark.spec("G19")
async def test_a_call_that_ends_in_a_policy_that_hangs_never_ran_and_has_no_decision() -> None:
    def hang(request: Request) -> Awaitable[bool]:
        return asyncio.get_running_loop().create_future()

    work = gated(at_calls(hang), effect="write")
    async with desk(work) as opened:
        call = asyncio.create_task(opened.session.call(work, 1))
        await turns()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        with pytest.raises(DeadlineExceeded):
            await opened.session.options(timeout=0.02).call(work, 1)
        records = [(record.outcome, record.decision) for record in await opened.records()]
        assert records == [("cancelled", None), ("timed_out", None)]


class Asked:
    """A policy that notes each time that it is asked."""

    def __init__(self, id: str = "gate", **options: Any) -> None:
        self.at: list[str] = []
        self.answers: dict[str, Any] = {}
        self.policy = Policy(id, self.answer, **options)

    def answer(self, request: Request) -> Any:
        when = "evaluate" if request.tool is None else "call"
        self.at.append(when)
        return self.answers.get(when, True)


@pytest.mark.spec("F15", "F19")
@pytest.mark.parametrize(
    ("binding", "phase", "first_answer", "expected", "outcome"),
    [
        ("live", "both", True, ["evaluate", "call", "call"], "succeeded"),
        ("live", "evaluate", True, ["evaluate"], "succeeded"),
        ("live", "call", True, ["call", "call"], "succeeded"),
        ("snapshot", "both", True, ["evaluate"], "succeeded"),
        ("snapshot", "evaluate", True, ["evaluate"], "succeeded"),
        ("snapshot", "both", False, ["evaluate"], "denied"),
        ("live", "both", ask("may I?"), ["evaluate", "call", "call"], "succeeded"),
    ],
)
async def test_binding_and_phase_say_when_a_policy_is_asked_and_which_answer_holds(
    binding: Any, phase: Any, first_answer: Any, expected: list[str], outcome: str
) -> None:
    gate = Asked(binding=binding, phase=phase)
    gate.answers = {"evaluate": first_answer}
    work = gated(gate.policy)
    async with desk(work) as opened:
        for number in (1, 2):
            await opened.session.try_call(work, number)
        assert gate.at == expected
        records = [(record.outcome, record.policies) for record in await opened.records()]
        assert records == [(outcome, '["gate"]')] * 2, "on record whoever asked it"


@pytest.mark.spec("F15")
async def test_a_policy_of_calls_gates_each_call_and_leaves_the_tool_in_play() -> None:
    gate = Policy("small", lambda request: (request.arguments or {})["number"] < 10, phase="call")
    work = gated(gate)
    async with desk(work) as opened:
        assert opened.session.snapshot.explain("work").reason == "each call asks small"
        assert await opened.session.call(work, 9) == 9
        with pytest.raises(PermissionDenied, match="policy 'small' says no"):
            await opened.session.call(work, 10)


@pytest.mark.spec("F19", "F20")
@pytest.mark.parametrize(
    ("binding", "phase"), [("snapshot", "both"), ("live", "evaluate"), ("live", "both"), ("live", "call")]
)
@pytest.mark.parametrize("effect", ["read", "write"])
async def test_a_question_keeps_the_tool_and_is_put_at_the_call(binding: Any, phase: Any, effect: Any) -> None:
    gate = Policy("spend", lambda request: ask("may user-1 spend?"), binding, phase)
    work = gated(gate, effect=effect)
    async with desk(work) as opened:
        assert set(opened.session.snapshot.tools) == {"work"}
        with pytest.raises(ApprovalRequired, match="this needs an approval first: may user-1 spend") as refused:
            await opened.session.options(approvals="defer").call(work, 1)
        assert (refused.value.status, refused.value.code) == (403, "approval_required")
        record = await opened.record()
        assert (record.outcome, record.decision, record.policies) == ("pending", "deny", '["spend"]')
        assert (record.code, record.reason) == ("approval_required", "may user-1 spend?")


@pytest.mark.spec("F20")
@given(
    st.permutations(["allow", "allow", "ask", "ask", "deny", "deny"]),
    st.integers(1, 6),
    st.lists(st.booleans(), min_size=6, max_size=6),
)
async def test_deny_wins_before_ask_before_allow(order: list[str], count: int, in_snapshot: list[bool]) -> None:
    """Denials come from live policies only: those of a snapshot would have pruned the tool."""
    kinds = order[:count]
    answers = {"allow": allow(), "ask": ask("may I?"), "deny": deny("no")}

    def gate(number: int, kind: str) -> Policy:
        is_snapshot = kind != "deny" and in_snapshot[number]
        options: dict[str, Any] = {"binding": "snapshot"} if is_snapshot else {"phase": "call"}
        return Policy(f"{kind}-{number}", lambda request: answers[kind], **options)

    gates = [gate(number, kind) for number, kind in enumerate(kinds)]
    work = gated(*gates)
    async with desk(work) as opened:
        result = await opened.session.options(approvals="defer").try_call(work, 1)
        record = await opened.record()
    wins = next(kind for kind in ("deny", "ask", "allow") if kind in kinds)
    assert json.loads(record.policies) == [gate_policy.id for gate_policy in gates if gate_policy.id.startswith(wins)]
    assert record.outcome == {"deny": "denied", "ask": "pending", "allow": "succeeded"}[wins]
    assert type(result.error) is {"deny": PermissionDenied, "ask": ApprovalRequired, "allow": type(None)}[wins]


@pytest.mark.spec("F19", "F23")
@pytest.mark.parametrize("mode", ["authoritative", "hint"])
async def test_without_a_result_authoritative_denies_and_hint_asks_the_policy_with_the_arguments(mode: Any) -> None:
    gate, events = Asked(binding="snapshot"), list[PolicyEvaluated]()
    work = gated(gate.policy)
    agent = Agent("tester", uses=[Capability("kit", tools=[work])])
    envelope = (await capture(agent, principal=WHO, policy_mode=mode)).envelope
    bare = envelope.model_copy(update={"policy": envelope.policy.model_copy(update={"results": ()})})
    snapshot = await hydrate(bare, agent, principal=WHO, hooks=Hooks(on_policy_evaluated=events.append))
    assert snapshot.policy_mode == mode
    gate.at.clear()
    async with Kernel(store="memory://") as kernel:
        session = kernel.resume(kernel.new_session(agent, WHO), snapshot)
        if mode == "authoritative":
            with pytest.raises(PermissionDenied, match="is missing from the snapshot, so it denies"):
                await session.call(work, 1)
            assert (gate.at, events) == ([], [])
            assert [json.loads(record.policies) for record in await records_of(kernel.audit)] == [["gate"]]
        else:
            assert await session.call(work, 1) == 1
            gate.answers = {"call": False}
            with pytest.raises(PermissionDenied, match="policy 'gate' says no"):
                await session.call(work, 1)
            assert gate.at == ["call", "call"]
            assert [(event.policy.id, event.request.arguments) for event in events] == [("gate", {"number": 1})] * 2


@pytest.mark.spec("F27")
async def test_a_hydrated_session_has_the_tools_that_were_in_play_and_no_others() -> None:
    work, barred = gated(), tool(name="barred", description="D.", permissions=["a:b"])(gated().handler)
    agent = Agent("tester", uses=[Capability("kit", tools=[work, barred], aliases=["other"])])
    envelope = (await capture(agent, principal=WHO)).envelope
    snapshot = await hydrate(envelope, agent, principal=WHO)
    async with Kernel(store="memory://") as kernel:
        session = kernel.resume(kernel.new_session(agent, WHO), snapshot)
        for name in ("work", "kit.work", "other.work"):
            assert (await session.try_message(session.message(name, {"number": 1}))).data == 1
        assert isinstance((await session.try_message(session.message("kit.barred", {"number": 1}))).error, NotFound)
        assert len(await records_of(kernel.audit)) == 4


@pytest.mark.spec("F15", "F21")
@pytest.mark.parametrize("phase", ["call", "both"])
async def test_an_error_of_a_policy_is_on_record_and_told_to_hooks_and_to_nobody_else(store: str, phase: Any) -> None:
    events: list[PolicyEvaluated] = []

    def broken(request: Request) -> bool:
        raise RuntimeError("password=hunter2")

    work = gated(Policy("broken", broken, phase=phase))
    agent = Agent("tester", uses=[Capability("kit", tools=[work])])
    hooks = Hooks(on_policy_evaluated=events.append)
    async with Kernel(store=store) as kernel, kernel.open(agent, principal=WHO, hooks=hooks) as session:
        result = await session.try_call(work, 1)
        assert result.error is not None
        messages = await ask_tool(session, "work", {"number": 1})
        told = [result, result.error.message, result.error.hint, messages, session.snapshot.explain("work")]
        records = await records_of(kernel.audit)
        assert "hunter2" not in repr([*told, records])
        assert [str(record.reason).endswith("(RuntimeError)") for record in records] == [True, True]
        assert [type(event.error) for event in events] == [RuntimeError] * (2 if phase == "call" else 1)


@pytest.mark.spec("F17", "F19", "F30")
async def test_gate_tool_decides_as_a_call_does() -> None:
    live = Policy("live", lambda request: (request.arguments or {})["n"] < 3)
    snapshot_policy = Policy("held", lambda request: asyncio.sleep(0, False), "snapshot")
    work = gated(live, snapshot_policy)
    request = Request({}, WHO, work, {"n": 1})
    both, allowed = [live, snapshot_policy], {snapshot_policy: allow()}
    assert (await gate_tool(both, request, allowed)).kind == "allow"
    assert (await gate_tool(both, request, {snapshot_policy: ask("?")})).policies == ("held",)
    assert (await gate_tool(both, request, {})).kind == "deny"
    assert (await gate_tool(both, request, {}, mode="hint")).reason == "policy 'held' says no"
    assert (await gate_tool([live], request._replace(arguments={"n": 5}), {})).policies == ("live",)
    assert (await gate_tool([], request, {})).kind == "allow"
    events: list[PolicyEvaluated] = []
    await gate_tool(both, request, allowed, hooks=Hooks(on_policy_evaluated=events.append))
    assert [(event.policy, event.owner) for event in events] == [(live, "live")]
