"""The order of one call, as whole traces (spec 4, G1, G2): what happens, what does not, and what comes first."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Annotated

import pytest
from pydantic import AfterValidator, PlainSerializer

from capset import Agent, Capability, Decision, Message, Principal, Request, allow, deny, policy, tool
from capset.errors import LimitExceeded, NotFound, PermissionDenied, StoreError, ToolError
from capset.stores.base import Store
from tests.helpers.evaluation.things import make, says
from tests.helpers.kernel.support import Desk, TappedStore, ask, desk, read, turns

BEFORE, AFTER = ("validation", "policy"), ("output", "sanitising", "outcome")
RUN = (*BEFORE, "intent", "handler")
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


CASES: dict[str, tuple[list[str], str, object, object, list[str]]] = {
    "every stage in order": (["kit:use"], "double", 4, 8, [*RUN, *AFTER]),
    "reads have no intent": ([], "look", 4, 4, ["validation", "handler", *AFTER]),
    "unknown before permission and arguments": ([], "triple", "x", "not_found", ["outcome"]),
    "permission before arguments": ([], "double", "x", "permission_denied", ["outcome"]),
    "arguments before policies": (["kit:use"], "double", "x", "invalid_arguments", ["outcome"]),
    "policies before the intent": (["kit:use"], "double", 3, "permission_denied", [*BEFORE, "outcome"]),
    "a failure skips the result": (["kit:use"], "double", 6, "tool_error", [*RUN, "outcome"]),
    "output before it is sanitised": (["kit:use"], "double", 8, "invalid_output", [*RUN, "outcome"]),
}


@pytest.mark.spec("G1", "G2", "G23", "T1")
@pytest.mark.parametrize("case", CASES)
async def test_a_call_takes_its_stages_in_order_and_ends_at_the_first_that_refuses(case: str) -> None:
    permissions, name, number, ending, expected = CASES[case]
    async with traced(*permissions) as opened:
        (last,) = await ask(opened.session, name, {"number": number})
        assert (last.data if last.kind == "reply" else last.data["code"]) == ending
        assert trace == expected


@pytest.mark.spec("G1")
async def test_permission_comes_before_the_kind_of_a_message() -> None:
    """Otherwise the refusal would tell the effect of a tool to those who may not use it."""
    async with traced() as opened:
        (error,) = await read(opened.session.invoke(Message("query", "double", {"number": 4})))
        assert error.data["message"] == "Permission denied: user-1 lacks the permission kit:use"
        assert trace == ["outcome"]


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
        assert trace == [*BEFORE, "approval", "intent", "handler", *AFTER]
        trace.clear()
        with pytest.raises(LimitExceeded):
            await opened.session.call(halve, 4)
        assert trace == [*BEFORE, "approval", "outcome"]


@pytest.mark.spec("G1", "G23")
async def test_the_intent_comes_before_the_handler_which_waits_for_it() -> None:
    async def slow(phase: str) -> None:
        trace.append(f"{phase} asked")
        await turns()
        trace.append(f"{phase} durable")

    async with traced("kit:use", store=TappedStore(slow)) as opened:
        await opened.session.call(double, 4)
    waited = ["intent asked", "intent durable", "handler", "output", "sanitising", "outcome asked", "outcome durable"]
    assert trace == [*BEFORE, *waited]


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


@pytest.mark.spec("G2")
async def test_a_pruned_tool_is_403_with_the_snapshots_reason() -> None:
    work = make("work", says("weekdays", deny("only on weekdays")))
    async with desk(work) as opened:
        assert "work" not in opened.session.snapshot.tools
        with pytest.raises(PermissionDenied, match=r"^Permission denied: only on weekdays$"):
            await opened.session.call(work)
        assert opened.session.snapshot.explain("work").reason == "only on weekdays"
        record = await opened.record()
        assert (record.outcome, record.decision, record.reason) == ("denied", "deny", "only on weekdays")
        assert record.policies == '["weekdays"]'


@pytest.mark.spec("G2", "K5")
async def test_another_agents_tool_of_the_same_name_is_404() -> None:
    imposter = make("look")
    async with traced() as opened:
        other = Agent("other", uses=[Capability("theirs", tools=[imposter])])
        async with opened.kernel.open(other, principal=Principal("user-1")) as theirs:
            with pytest.raises(NotFound):
                await opened.session.call(imposter)
            with pytest.raises(NotFound):
                await theirs.call(look, 1)
            assert isinstance((await theirs.try_message(theirs.message("kit.look", {}))).error, NotFound)
        records = [(record.agent, record.outcome, record.tool_hash) for record in await opened.records()]
        assert records == [("tester", "not_found", None), *[("other", "not_found", None)] * 2]
