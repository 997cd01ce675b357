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
    assert event.decision.kind == "deny"
    assert event.error is not None
    assert raised in (event.error, event.error.__cause__), "PEP 479 wraps StopIteration"
    assert [record.levelno for record in caplog.records if record.name == "capset.policies"] == [logging.ERROR]
    assert "hunter2" in caplog.text


async def test_a_value_that_the_host_has_not_given_is_named_for_the_record() -> None:
    gate = Policy("gate", lambda request: bool(request.env["tier"]))
    snapshot = await seen(of(make("tool", gate), make("free")))
    assert snapshot.failures == ("gate",)
    assert snapshot.explain("tool").detail == "the policy failed, so it denies (KeyError 'tier')"


@pytest.mark.spec("F16")
async def test_the_environment_is_a_frozen_copy_of_the_hosts_own_values() -> None:
    flags = {"a": 1}
    env: dict[str, Any] = {"flags": flags}

    def change(request: Request) -> bool:
        assert request.env["flags"] is flags
        env["late"] = "told"
        with pytest.raises(TypeError):
            request.env["more"] = 1  # pyright: ignore[reportIndexIssue]
        return True

    snapshot = await seen(of(make("tool", Policy("change", change))), env=env)
    assert (dict(snapshot.env), set(snapshot.tools)) == ({"flags": flags}, {"tool"})


@pytest.mark.spec("F17")
async def test_what_does_not_suspend_needs_no_turn_of_the_loop() -> None:
    async def quick(request: Request) -> bool:
        return True

    waiting = seen(of(*(make(f"tool_{number}", Policy(f"gate-{number}", quick)) for number in range(4))))
    with pytest.raises(StopIteration) as done:
        waiting.send(None)
    assert len(done.value.value.tools) == 4


@pytest.mark.spec("F17")
async def test_what_suspends_is_waited_for_in_the_evaluations_own_task() -> None:
    tasks: set[Any] = set()
    order: list[int] = []

    def gate(number: int) -> Policy:
        async def slow(request: Request) -> bool:
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

    def gate(number: int) -> Policy:
        def answer(request: Request) -> Any:
            policy_ids.append(f"p{number}")
            return later() if number in {1, 3} else True

        return Policy(f"p{number}", answer)

    gates = [gate(number) for number in range(5)]
    names = iter(range(1000))

    def is_kit(part: Any) -> bool:
        return len(part) == 2 and isinstance(part[0], list)

    def build(part: Any) -> Member:
        if is_kit(part):
            return Toolkit(f"kit_{next(names)}", map(build, part[1]), policies=[gates[number] for number in part[0]])
        return make(f"tool_{next(names)}", *dict.fromkeys(gates[number] for number in part))

    def met(around: list[int], parts: list[Any]) -> list[int]:
        numbers: list[int] = []
        for part in parts:
            numbers += [*around, *(part[0] if is_kit(part) else part)]
            numbers += met([], part[1]) if is_kit(part) else []
        return numbers

    capability = Capability(
        "kit",
        tools=map(build, base),
        policies=[gates[4]] if base or preset else [],
        presets={"more": Preset(tools=map(build, preset))},
        default=["more"],
    )
    policies = list(dict.fromkeys(gates[number] for number in outer))
    agent = Agent("agent", uses=[capability], tools=map(build, agent_tools), policies=policies)
    expected = dict.fromkeys([*met([*outer, 4], base), *met([*outer, 4], preset), *met([*outer], agent_tools)])
    trace = Trace()
    snapshot = asyncio.run(seen(compose(agent), hooks=trace.hooks("run")))
    assert policy_ids == [f"p{number}" for number in expected]
    assert policy_ids == list(snapshot.decisions) == [event.policy.id for event in trace.asked]


@pytest.mark.spec("F20")
@given(st.permutations(["a+", "b-", "c?", "d-", "e?", "f+"]), st.integers(0, 6), st.sets(st.integers(0, 5)))
def test_deny_before_ask_before_allow_in_every_order(order: list[str], count: int, late: set[int]) -> None:
    answers = {"+": allow(), "-": deny("no"), "?": ask("may I?")}
    chosen = order[:count]

    def gate(place: int, name: str) -> Policy:
        answer = answers[name[1]]
        return Policy(name[0], lambda request: later(answer) if place in late else answer)

    gates = [gate(place, name) for place, name in enumerate(chosen)]
    kit = Toolkit("around", [make("tool", *gates[1:])], policies=gates[:1])
    verdict = asyncio.run(seen(of(kit))).explain("tool")
    for kind in "-?+":
        if named := tuple(name[0] for name in chosen if name[1] == kind):
            assert verdict.policies == named
            assert verdict.in_play is (kind != "-")
            break
    else:
        assert verdict.in_play
