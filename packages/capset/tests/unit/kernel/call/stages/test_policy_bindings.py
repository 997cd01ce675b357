"""Who is asked at a call: by binding, phase and the snapshot's mode; what a question comes to (F15, F19, F20)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset import Agent, Capability, Hooks, Kernel, Policy, Principal, Request, Tool, allow, ask, deny, tool
from capset.definitions.governance.hooks import PolicyEvaluated
from capset.errors import ApprovalRequired, PermissionDenied
from capset.evaluation.policies import gate_tool
from capset.evaluation.snapshot.capture import capture
from capset.evaluation.snapshot.hydrate import hydrate
from capset.evaluation.snapshot.snapshot import Snapshot
from tests.helpers.kernel.support import Desk, desk, records_of
from tests.helpers.kernel.support import ask as ask_by_name

WHO = Principal("user-1")


def worker(*policies: Policy, effect: Any = "read") -> Tool[[int], int]:
    async def work(number: int) -> int:
        """Work."""
        return number

    return tool(effect=effect, policies=policies)(work)


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
    ("binding", "phase", "expected"),
    [
        ("live", "both", ["evaluate", "call", "call"]),
        ("live", "evaluate", ["evaluate"]),
        ("live", "call", ["call", "call"]),
        ("snapshot", "both", ["evaluate"]),
        ("snapshot", "evaluate", ["evaluate"]),
    ],
)
async def test_binding_and_phase_say_when_a_policy_is_asked(binding: Any, phase: Any, expected: list[str]) -> None:
    gate = Asked(binding=binding, phase=phase)
    work = worker(gate.policy)
    async with desk(work) as opened:
        assert [await opened.session.call(work, number) for number in (1, 2)] == [1, 2]
        assert gate.at == expected
        assert {record.policies for record in await opened.records()} == {'["gate"]'}, "on record whoever asked it"


@pytest.mark.spec("F15")
async def test_a_policy_of_calls_gates_each_call_and_leaves_the_tool_in_play() -> None:
    gate = Policy("small", lambda request: (request.arguments or {})["number"] < 10, phase="call")
    work = worker(gate)
    async with desk(work) as opened:
        assert opened.session.snapshot.explain("work").reason == "each call asks small"
        assert await opened.session.call(work, 9) == 9
        with pytest.raises(PermissionDenied, match="policy 'small' says no"):
            await opened.session.call(work, 10)


@pytest.mark.spec("F19")
async def test_a_snapshot_policys_denial_holds_although_it_would_allow_now() -> None:
    gate = Asked(binding="snapshot")
    gate.answers = {"evaluate": False}
    work = worker(gate.policy)
    async with desk(work) as opened:
        result = await opened.session.try_call(work, 1)
        assert result.error is not None
        assert gate.at == ["evaluate"]
        assert (await opened.record()).outcome == "denied"


@pytest.mark.spec("F19", "F20")
@pytest.mark.parametrize(
    ("binding", "phase"), [("snapshot", "both"), ("live", "evaluate"), ("live", "both"), ("live", "call")]
)
@pytest.mark.parametrize("effect", ["read", "write"])
async def test_a_question_keeps_the_tool_and_is_put_at_the_call(binding: Any, phase: Any, effect: Any) -> None:
    gate = Policy("spend", lambda request: ask("may user-1 spend?"), binding, phase)
    work = worker(gate, effect=effect)
    async with desk(work) as opened:
        assert set(opened.session.snapshot.tools) == {"work"}
        with pytest.raises(ApprovalRequired, match="this needs an approval first: may user-1 spend") as refused:
            await opened.session.options(approvals="defer").call(work, 1)
        assert (refused.value.status, refused.value.code) == (403, "approval_required")
        (message,) = await ask_by_name(opened.session.options(approvals="defer"), "work", {"number": 1})
        assert message.kind == "error"
        for record in await opened.records():
            assert (record.outcome, record.decision, record.policies) == ("denied", "deny", '["spend"]')
            assert (record.code, record.reason) == ("approval_required", "may user-1 spend?")


@pytest.mark.spec("F19")
async def test_a_live_policy_may_have_changed_its_mind_about_a_question() -> None:
    gate = Asked()
    gate.answers = {"evaluate": ask("may I?")}
    work = worker(gate.policy)
    async with desk(work) as opened:
        assert await opened.session.call(work, 1) == 1


@pytest.mark.spec("F20")
@given(
    st.permutations(["allow", "allow", "ask", "ask", "deny", "deny"]),
    st.integers(1, 6),
    st.lists(st.booleans(), min_size=6, max_size=6),
)
async def test_deny_before_ask_before_allow_at_a_call_whatever_the_binding(
    order: list[str], count: int, in_snapshot: list[bool]
) -> None:
    """Denials come from live policies only: those of a snapshot would have pruned the tool."""
    kinds = order[:count]
    answers = {"allow": allow(), "ask": ask("may I?"), "deny": deny("no")}

    def gate(number: int, kind: str) -> Policy:
        is_snapshot = kind != "deny" and in_snapshot[number]
        options: dict[str, Any] = {"binding": "snapshot"} if is_snapshot else {"phase": "call"}
        return Policy(f"{kind}-{number}", lambda request: answers[kind], **options)

    gates = [gate(number, kind) for number, kind in enumerate(kinds)]
    work = worker(*gates)
    async with desk(work) as opened:
        result = await opened.session.options(approvals="defer").try_call(work, 1)
        record = await opened.record()
    wins = next(kind for kind in ("deny", "ask", "allow") if kind in kinds)
    assert json.loads(record.policies) == [gate_policy.id for gate_policy in gates if gate_policy.id.startswith(wins)]
    assert record.outcome == ("succeeded" if wins == "allow" else "denied")
    assert type(result.error) is {"deny": PermissionDenied, "ask": ApprovalRequired, "allow": type(None)}[wins]


@asynccontextmanager
async def hydrated(work: Tool[[int], int], mode: Any, **options: Any) -> AsyncGenerator[tuple[Desk, Snapshot]]:
    """Open a session on a snapshot that was kept without any policy's result."""
    agent = Agent("tester", uses=[Capability("kit", tools=[work])])
    envelope = (await capture(agent, principal=WHO, policy_mode=mode)).envelope
    bare = envelope.model_copy(update={"policy": envelope.policy.model_copy(update={"results": ()})})
    snapshot = await hydrate(bare, agent, principal=WHO, **options)
    async with Kernel(store="memory://") as kernel:
        yield Desk(kernel, kernel.resume(kernel.new_session(agent, WHO), snapshot)), snapshot


@pytest.mark.spec("F19", "F23")
async def test_without_a_result_authoritative_denies_and_tells_no_hook_of_asking() -> None:
    gate, events = Asked(binding="snapshot"), list[PolicyEvaluated]()
    work = worker(gate.policy)
    async with hydrated(work, "authoritative", hooks=Hooks(on_policy_evaluated=events.append)) as (opened, snapshot):
        gate.at.clear()
        assert snapshot.policy_mode == "authoritative"
        with pytest.raises(PermissionDenied, match="is not known, so it denies"):
            await opened.session.call(work, 1)
        assert (gate.at, events) == ([], [])
        assert json.loads((await opened.record()).policies) == ["gate"]


@pytest.mark.spec("F19", "F23")
async def test_without_a_result_hint_asks_the_policy_with_the_arguments() -> None:
    gate, events = Asked(binding="snapshot"), list[PolicyEvaluated]()
    work = worker(gate.policy)
    async with hydrated(work, "hint", hooks=Hooks(on_policy_evaluated=events.append)) as (opened, _):
        gate.at.clear()
        assert await opened.session.call(work, 1) == 1
        gate.answers = {"call": False}
        with pytest.raises(PermissionDenied, match="policy 'gate' says no"):
            await opened.session.call(work, 1)
        assert gate.at == ["call", "call"]
        assert [(event.policy.id, dict(event.request.arguments or {})) for event in events] == [
            ("gate", {"number": 1})
        ] * 2


@pytest.mark.spec("F27")
async def test_a_hydrated_session_has_the_tools_that_were_in_play_and_no_others() -> None:
    work, barred = worker(), tool(name="barred", description="D.", permissions=["a:b"])(worker().handler)
    agent = Agent("tester", uses=[Capability("kit", tools=[work, barred], aliases=["other"])])
    envelope = (await capture(agent, principal=WHO)).envelope
    snapshot = await hydrate(envelope, agent, principal=WHO)
    async with Kernel(store="memory://") as kernel:
        session = kernel.resume(kernel.new_session(agent, WHO), snapshot)
        for name in ("work", "kit.work", "other.work"):
            assert (await session.try_message(session.message(name, {"number": 1}))).data == 1
        result = await session.try_message(session.message("kit.barred", {"number": 1}))
        assert result.error is not None
        assert result.error.status == 404
        assert len(await records_of(kernel.audit)) == 4


@pytest.mark.spec("F15")
async def test_an_error_of_a_policy_at_a_call_is_on_record_and_told_to_hooks_and_to_nobody_else(store: str) -> None:
    events: list[PolicyEvaluated] = []

    def broken(request: Request) -> bool:
        raise RuntimeError("password=hunter2")

    work = worker(Policy("broken", broken, phase="call"))
    agent = Agent("tester", uses=[Capability("kit", tools=[work])])
    hooks = Hooks(on_policy_evaluated=events.append)
    async with Kernel(store=store) as kernel, kernel.open(agent, principal=WHO, hooks=hooks) as session:
        result = await session.try_call(work, 1)
        assert result.error is not None
        visible_texts = [
            repr(result),
            result.error.message,
            str(result.error.hint),
            repr(await ask_by_name(session, "work", {"number": 1})),
        ]
        assert not any("hunter2" in text for text in visible_texts)
        assert all(isinstance(event.error, RuntimeError) for event in events)
        assert len(events) == 2
        records = await records_of(kernel.audit)
        assert all(str(record.reason).endswith("(RuntimeError)") for record in records)
        assert "hunter2" not in repr(records)


@pytest.mark.spec("F15", "F21")
async def test_an_error_of_a_policy_at_the_evaluation_is_on_record_where_its_tool_is_called() -> None:
    def broken(request: Request) -> bool:
        raise RuntimeError("password=hunter2")

    work = worker(Policy("broken", broken))
    async with desk(work) as opened:
        result = await opened.session.try_call(work, 1)
        assert "hunter2" not in repr(result) + opened.session.snapshot.explain("work").reason
        record = await opened.record()
        assert str(record.reason).endswith("(RuntimeError)")
        assert "hunter2" not in repr(record)


@pytest.mark.spec("F17", "F19", "F30")
async def test_gate_tool_decides_as_a_call_does() -> None:
    live = Policy("live", lambda request: (request.arguments or {})["n"] < 3)
    snapshot_policy = Policy("held", lambda request: asyncio.sleep(0, False), "snapshot")
    work = worker(live, snapshot_policy)
    request = Request({}, WHO, work, {"n": 1})
    assert (await gate_tool([live, snapshot_policy], request, {snapshot_policy: allow()})).kind == "allow"
    assert (await gate_tool([live, snapshot_policy], request, {snapshot_policy: ask("?")})).policies == ("held",)
    assert (await gate_tool([live, snapshot_policy], request, {})).kind == "deny"
    assert (await gate_tool([live, snapshot_policy], request, {}, mode="hint")).reason == "policy 'held' says no"
    assert (await gate_tool([live], request._replace(arguments={"n": 5}), {})).policies == ("live",)
    assert (await gate_tool([], request, {})).kind == "allow"
    events: list[PolicyEvaluated] = []
    await gate_tool(
        [live, snapshot_policy], request, {snapshot_policy: allow()}, hooks=Hooks(on_policy_evaluated=events.append)
    )
    assert [(event.policy, event.owner) for event in events] == [(live, "live")]
