"""How an evaluation asks: each policy object once, in traversal order, at once where nothing suspends."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset import Agent, Capability, Policy, Preset, Request, Toolkit, allow, ask, compose, deny
from capset.definitions.tools.toolkits import Member
from tests.helpers.evaluation.things import Trace, later, make, of, says, seen


@pytest.mark.spec("F15")
@pytest.mark.parametrize("suspends", [False, True])
@pytest.mark.parametrize("answer", [None, 1, 0, "allow", "", [], {}, {"kind": "allow"}, object(), allow], ids=range(10))
async def test_what_is_no_answer_denies(answer: Any, suspends: bool, caplog: pytest.LogCaptureFixture) -> None:
    gate = Policy("gate", lambda request: later(answer) if suspends else answer)
    snapshot = await seen(of(make("tool", gate), make("free")))
    assert set(snapshot.tools) == {"free"}
    assert snapshot.explain("tool").reason == "the policy failed, so it denies"
    assert list(snapshot.decisions) == ["gate"]
    assert "'gate'" in caplog.text


@pytest.mark.spec("F15", "F23")
@pytest.mark.parametrize("error", [RuntimeError, KeyError, TimeoutError, StopIteration, StopAsyncIteration, SystemExit])
@pytest.mark.parametrize("suspends", [None, False, True])
async def test_what_a_policy_raises_reaches_hooks_and_the_log_and_nobody_else(
    error: type[BaseException], suspends: bool | None, caplog: pytest.LogCaptureFixture
) -> None:
    raised = error("password=hunter2")

    async def raises(request: Request) -> bool:
        if suspends:
            await asyncio.sleep(0)
        raise raised

    trace = Trace()
    gate = says("gate", raised) if suspends is None else Policy("gate", raises)
    snapshot = await seen(of(make("tool", gate)), hooks=trace.hooks("run"))
    verdict = snapshot.explain("tool")
    assert (verdict.in_play, verdict.reason, verdict.policies) == (False, "the policy failed, so it denies", ("gate",))
    assert "hunter2" not in repr(snapshot.decisions["gate"].reason)
    (event,) = trace.asked
    reported = event.error
    assert reported is raised or (isinstance(reported, RuntimeError) and reported.__cause__ is raised), (
        "PEP 479 wraps StopIteration"
    )
    assert event.decision.kind == "deny"
    assert [record.levelno for record in caplog.records if record.name == "capset.policies"] == [logging.ERROR]
    assert "hunter2" in caplog.text


async def test_a_value_that_the_host_has_not_given_is_named_for_the_record() -> None:
    gate = Policy("gate", lambda request: bool(request.env["tier"]))
    snapshot = await seen(of(make("tool", gate), make("free")))
    assert snapshot.failures == ("gate",)
    verdict = snapshot.explain("tool")
    assert verdict.reason == "the policy failed, so it denies"
    assert verdict.detail == "the policy failed, so it denies (KeyError 'tier')"


@pytest.mark.spec("F16")
async def test_the_environment_is_frozen_and_the_hosts_own() -> None:
    seen_by: list[Any] = []

    def look(request: Request) -> bool:
        seen_by.append(request.env["flags"])
        request.env["more"] = 1  # pyright: ignore[reportIndexIssue]
        return True

    flags = {"a": 1}
    env = {"flags": flags}
    snapshot = await seen(of(make("tool", Policy("look", look))), env=env)
    assert seen_by[0] is flags
    env["late"] = {}
    assert dict(snapshot.env) == {"flags": flags}
    assert not snapshot.explain("tool").in_play


@pytest.mark.spec("F17")
async def test_what_does_not_suspend_needs_no_turn_of_the_loop() -> None:
    tasks: set[Any] = set()

    async def quick(request: Request) -> bool:
        tasks.add(asyncio.current_task())
        return True

    gates = [Policy(f"gate-{number}", quick) for number in range(4)]
    waiting = seen(of(*(make(f"tool_{number}", gate) for number, gate in enumerate(gates))))
    with pytest.raises(StopIteration) as done:
        waiting.send(None)
    assert len(done.value.value.tools) == 4
    assert tasks == {asyncio.current_task()}


@pytest.mark.spec("F17")
async def test_what_suspends_is_waited_for_in_the_evaluations_own_task() -> None:
    tasks: set[Any] = set()
    order: list[int] = []

    def gate(number: int) -> Policy:
        async def slow(request: Request) -> bool:
            tasks.add(asyncio.current_task())
            for _ in range(5 - number):
                await asyncio.sleep(0)
            order.append(number)
            tasks.add(asyncio.current_task())
            return True

        return Policy(f"gate-{number}", slow)

    before = asyncio.all_tasks()
    await seen(of(make("tool", *map(gate, range(5)))))
    assert order == [0, 1, 2, 3, 4], "one after the other"
    assert tasks == {asyncio.current_task()}
    assert asyncio.all_tasks() == before


@pytest.mark.spec("F17")
@pytest.mark.parametrize(
    "answer",
    [lambda: asyncio.ensure_future(later()), lambda: asyncio.to_thread(allow), lambda: asyncio.gather(later())],
    ids=["task", "thread", "list"],
)
async def test_any_awaitable_will_do(answer: Any) -> None:
    snapshot = await seen(of(make("tool", Policy("gate", lambda request: answer()))))
    assert snapshot.decisions["gate"].kind == ("deny" if isinstance(await answer(), list) else "allow")


PARTS = st.recursive(
    st.lists(st.integers(0, 4), max_size=3).map(tuple),
    lambda inner: st.tuples(st.lists(st.integers(0, 4), max_size=2), st.lists(inner, max_size=3)),
    max_leaves=8,
)


@pytest.mark.spec("F17", "F23")
@given(
    st.lists(PARTS, max_size=3), st.lists(PARTS, max_size=2), st.lists(PARTS, max_size=2), st.lists(st.integers(0, 4))
)
def test_each_policy_is_asked_once_over_all_nesting_in_traversal_order(
    agent_tools: list[Any], base: list[Any], preset: list[Any], outer: list[int]
) -> None:
    policy_ids: list[str] = []
    suspending = {1, 3}

    def gate(number: int) -> Policy:
        def answer(request: Request) -> Any:
            policy_ids.append(f"p{number}")
            return later() if number in suspending else True

        return Policy(f"p{number}", answer)

    gates = [gate(number) for number in range(5)]
    names = iter(range(1000))

    def build(part: Any) -> Member:
        if isinstance(part, tuple) and len(part) == 2 and isinstance(part[0], list):
            kit, inside = part
            return Toolkit(
                f"kit_{next(names)}",
                [build(element) for element in inside],
                policies=[gates[element] for element in kit],
            )
        return make(f"tool_{next(names)}", *dict.fromkeys(gates[number] for number in part))

    def met(around: list[int], parts: list[Any]) -> list[int]:
        numbers: list[int] = []
        for part in parts:
            is_kit = len(part) == 2 and isinstance(part[0], list)
            numbers += [*around, *(part[0] if is_kit else part)]
            numbers += met([], part[1]) if is_kit else []
        return numbers

    capability = Capability(
        "kit",
        tools=[build(shape) for shape in base],
        policies=[gates[4]] if base or preset else [],
        presets={"more": Preset(tools=[build(shape) for shape in preset])},
        default=["more"],
    )
    agent = Agent(
        "agent",
        uses=[capability],
        tools=[build(shape) for shape in agent_tools],
        policies=list(dict.fromkeys(gates[number] for number in outer)),
    )
    expected = list(dict.fromkeys([*met([*outer, 4], base), *met([*outer, 4], preset), *met([*outer], agent_tools)]))
    trace = Trace()
    snapshot = asyncio.run(seen(compose(agent), hooks=trace.hooks("run")))
    assert policy_ids == [f"p{number}" for number in expected]
    assert len(set(policy_ids)) == len(policy_ids)
    assert list(snapshot.decisions) == policy_ids
    assert [event.policy.id for event in trace.asked] == policy_ids


@pytest.mark.spec("F20")
@given(st.permutations(["a+", "b-", "c?", "d-", "e?", "f+"]), st.integers(0, 6), st.sets(st.integers(0, 5)))
def test_deny_before_ask_before_allow_in_every_order(order: list[str], count: int, late: set[int]) -> None:
    answers = {"+": allow(), "-": deny("no"), "?": ask("may I?")}
    chosen = order[:count]

    def gate(place: int, name: str) -> Policy:
        answer = answers[name[1]]
        return Policy(name[0], lambda request: later(answer) if place in late else answer)

    gates = [gate(place, name) for place, name in enumerate(chosen)]
    tool = make("tool", *gates[1:])
    kit = Toolkit("around", [tool], policies=gates[:1])
    verdict = asyncio.run(seen(of(kit))).explain("tool")
    for kind in "-?+":
        if named := tuple(name[0] for name in chosen if name[1] == kind):
            assert verdict.policies == named
            assert verdict.in_play is (kind != "-")
            break
    else:
        assert verdict.in_play
