"""The order of one call, as whole traces (spec 4, G1, G2): what happens, what does not, and what comes first."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Annotated

import pytest
from pydantic import AfterValidator, PlainSerializer

from capset import Agent, Capability, Decision, Kernel, Message, Principal, Request, allow, deny, policy, tool
from capset.errors import (
    InvalidArguments,
    InvalidOutput,
    LimitExceeded,
    NotFound,
    PermissionDenied,
    StoreError,
    ToolError,
)
from capset.stores.base import Store
from tests.helpers.kernel.support import Desk, TappedStore, ask, desk, read, turns

trace: list[str] = []


def noting(stage: str) -> Callable[[int], int]:
    def note(value: int) -> int:
        trace.append(stage)
        return value

    return note


Number = Annotated[int, AfterValidator(noting("validation"))]
Produced = Annotated[int, AfterValidator(noting("output")), PlainSerializer(noting("sanitising"), return_type=float)]


@policy
async def even(request: Request) -> Decision:
    if request.arguments is None:
        return allow()
    trace.append("policy")
    return allow() if request.arguments["number"] % 2 == 0 else deny("odd")


@tool(permissions={"kit:use"}, policies=[even])
async def double(number: Number) -> Produced:
    """Double a number; 6 is refused, and 8 gives what does not fit."""
    trace.append("handler")
    if number == 6:
        raise ToolError("not six")
    return "eight" if number == 8 else 2 * number  # pyright: ignore[reportReturnType]


@tool(effect="read")
async def look(number: Number) -> Produced:
    """Look at a number."""
    trace.append("handler")
    return number


@asynccontextmanager
async def traced(*permissions: str, store: Store | None = None) -> AsyncGenerator[Desk]:
    async with desk(double, look, store=store or TappedStore(trace.append), permissions=permissions) as opened:
        trace.clear()
        yield opened


@pytest.mark.spec("G1", "G23")
async def test_a_call_takes_every_stage_in_order() -> None:
    async with traced("kit:use") as opened:
        assert await opened.session.call(double, 4) == 8
        assert trace == ["validation", "policy", "intent", "handler", "output", "sanitising", "outcome"]


@pytest.mark.spec("G1")
async def test_reads_have_no_intent() -> None:
    async with traced() as opened:
        assert await opened.session.call(look, 4) == 4
        assert trace == ["validation", "handler", "output", "sanitising", "outcome"]


@pytest.mark.spec("G1", "G2")
async def test_unknown_comes_before_permission_and_arguments() -> None:
    async with traced() as opened:
        (error,) = await ask(opened.session, "triple", {"number": "x", "other": 1})
        assert (error.kind, error.data["status"]) == ("error", 404)
        assert trace == ["outcome"]


@pytest.mark.spec("G1", "T1")
async def test_permission_comes_before_arguments() -> None:
    async with traced() as opened:
        (error,) = await ask(opened.session, "double", {"number": "x", "other": 1})
        assert error.data["status"] == 403
        assert trace == ["outcome"]


@pytest.mark.spec("G1")
async def test_permission_comes_before_the_kind_of_a_message_and_its_deadline() -> None:
    """Otherwise the refusal would tell the effect of a tool to those who may not use it."""
    async with traced() as opened:
        (error,) = await read(opened.session.invoke(Message("query", "double", {"number": 4})))
        assert (error.data["status"], error.data["message"]) == (
            403,
            "Permission denied: user-1 lacks the permission kit:use",
        )
        assert trace == ["outcome"]


@pytest.mark.spec("G1")
async def test_arguments_come_before_policies() -> None:
    async with traced("kit:use") as opened:
        with pytest.raises(InvalidArguments):
            await opened.session.call(double, "x")  # pyright: ignore[reportArgumentType]
        assert trace == ["outcome"]


@pytest.mark.spec("G1")
async def test_policies_come_before_the_intent() -> None:
    async with traced("kit:use") as opened:
        with pytest.raises(PermissionDenied, match="odd"):
            await opened.session.call(double, 3)
        assert trace == ["validation", "policy", "outcome"]


def _asked(request: Request) -> bool:
    trace.append("approval")
    return False


@tool(permissions={"kit:use"}, policies=[even], approval=_asked, limits="1/1h")
async def halve(number: Number) -> Produced:
    """Halve a number."""
    trace.append("handler")
    return number // 2


@pytest.mark.spec("G1", "G3")
async def test_approval_comes_after_policies_and_before_limits_which_come_before_the_intent() -> None:
    async with desk(halve, store=TappedStore(trace.append), permissions=["kit:use"]) as opened:
        trace.clear()
        assert await opened.session.call(halve, 4) == 2
        before = ["validation", "policy", "approval"]
        assert trace == [*before, "intent", "handler", "output", "sanitising", "outcome"]
        trace.clear()
        with pytest.raises(LimitExceeded):
            await opened.session.call(halve, 4)
        assert trace == [*before, "outcome"]


@pytest.mark.spec("G1", "G23")
async def test_the_intent_comes_before_the_handler_which_waits_for_it() -> None:
    async def slow(phase: str) -> None:
        trace.append(f"{phase} asked")
        await turns()
        trace.append(f"{phase} durable")

    async with traced("kit:use", store=TappedStore(slow)) as opened:
        await opened.session.call(double, 4)
    assert trace == [
        *("validation", "policy", "intent asked", "intent durable", "handler"),
        *("output", "sanitising", "outcome asked", "outcome durable"),
    ]


@pytest.mark.spec("G23")
async def test_a_handler_whose_intent_is_not_durable_never_runs() -> None:
    def full(phase: str) -> None:
        trace.append(phase)
        if phase == "intent":
            raise StoreError("the disk is full")

    async with traced("kit:use", store=TappedStore(full)) as opened:
        with pytest.raises(StoreError) as raised:
            await opened.session.call(double, 4)
        assert raised.value.status == 503
        assert trace == ["validation", "policy", "intent", "outcome"]


@pytest.mark.spec("G1")
async def test_a_failed_handler_skips_what_is_about_its_result() -> None:
    async with traced("kit:use") as opened:
        with pytest.raises(ToolError, match=r"^not six$"):
            await opened.session.call(double, 6)
        assert trace == ["validation", "policy", "intent", "handler", "outcome"]


@pytest.mark.spec("G1")
async def test_output_is_validated_before_it_is_sanitised() -> None:
    async with traced("kit:use") as opened:
        with pytest.raises(InvalidOutput):
            await opened.session.call(double, 8)
        assert trace == ["validation", "policy", "intent", "handler", "outcome"]


@pytest.mark.spec("G2")
async def test_a_pruned_tool_is_403_with_the_snapshots_reason() -> None:
    @policy
    def weekdays(request: Request) -> Decision:
        return deny("only on weekdays")

    @tool(effect="read", policies=[weekdays])
    async def work() -> int:
        """Work."""
        raise AssertionError("a pruned tool ran")

    async with desk(work) as opened:
        assert "work" not in opened.session.snapshot.tools
        with pytest.raises(PermissionDenied) as raised:
            await opened.session.call(work)
        assert raised.value.message == "Permission denied: only on weekdays"
        assert opened.session.snapshot.explain("work").reason == "only on weekdays"
        record = await opened.record()
        assert (record.outcome, record.decision, record.reason) == ("denied", "deny", "only on weekdays")
        assert record.policies == '["weekdays"]'


@pytest.mark.spec("G2")
async def test_discovery_does_not_authorise_and_is_asked_again() -> None:
    """In play in the snapshot, and denied at the call: the snapshot is no permit."""
    calls = 0

    @policy
    def once(request: Request) -> bool:
        nonlocal calls
        calls += 1
        return calls == 1

    @tool(effect="read", policies=[once])
    async def work() -> int:
        """Work."""
        raise AssertionError("a denied tool ran")

    async with desk(work) as opened:
        assert "work" in opened.session.snapshot.tools
        with pytest.raises(PermissionDenied, match=r"^Permission denied: policy 'once' says no$"):
            await opened.session.call(work)


@pytest.mark.spec("G2", "K5")
async def test_another_agents_tool_of_the_same_name_is_404() -> None:
    @tool(name="look", effect="read")
    async def imposter(number: int) -> int:
        """Look elsewhere."""
        raise AssertionError("another agent's tool ran")

    async with traced() as opened:
        other = Agent("other", uses=[Capability("theirs", tools=[imposter])])
        async with opened.kernel.open(other, principal=Principal("user-1")) as theirs:
            with pytest.raises(NotFound):
                await opened.session.call(imposter, 1)
            with pytest.raises(NotFound):
                await theirs.call(look, 1)
        assert [(record.agent, record.outcome) for record in await opened.records()] == [
            ("tester", "not_found"),
            ("other", "not_found"),
        ]
        assert {record.tool_hash for record in await opened.records()} == {None}


async def test_a_session_of_one_kernel_knows_nothing_of_anothers() -> None:
    async with traced() as opened, Kernel(store="memory://") as elsewhere:
        agent = opened.session.snapshot.composition.block
        async with elsewhere.open(agent, principal=Principal("user-1")) as session:
            await session.call(look, 2)
        assert await opened.records() == []
