"""What a pydantic-ai model calls that somebody has to approve (spec 4, G16–G18)."""

from __future__ import annotations

from typing import Any

import pydantic_ai
import pytest
from pydantic_ai import DeferredToolRequests, DeferredToolResults, ToolFailed

from capset import Principal, tool
from capset.ext import Answer
from capset.stores.base import ApprovalQuery
from capset_frameworks.pydantic_ai import CapsetToolset
from tests.helpers.frameworks.support import Scripted, context, returns, run
from tests.helpers.kernel.support import Desk, desk

paid: list[tuple[str, int]] = []
BOSS = Principal("boss")


@tool(effect="write", approval="ask", limits="1/1h")
async def pay(to: str, amount: int = 5) -> str:
    """Pay somebody."""
    paid.append((to, amount))
    return f"{to} is paid"


@pytest.fixture(autouse=True)
def nobody_is_paid_yet() -> None:
    paid.clear()


async def requests(open_desk: Desk) -> list[str]:
    page = await open_desk.kernel.approvals.list(ApprovalQuery(None))
    return [request.id for request in page.items][::-1]


async def call(toolset: CapsetToolset, **arguments: Any) -> Any:
    toolset_tool = (await toolset.get_tools(context()))["pay"]
    return await toolset.call_tool("pay", arguments, context(), toolset_tool)


async def failure(toolset: CapsetToolset, **arguments: Any) -> str:
    with pytest.raises(ToolFailed) as caught:
        await call(toolset, **arguments)
    return str(caught.value)


@pytest.mark.spec("G18")
async def test_the_model_reads_the_requests_id_and_the_run_goes_on() -> None:
    async with desk(pay) as open_desk:
        (part,) = await run(open_desk.session, [("pay", {"to": "bob"})])
        (request_id,) = await requests(open_desk)
        assert part.outcome == "failed"
        notice = f"The request is {request_id}; once it is approved, make the same call again."
        assert notice in str(part.content)
        assert "(approval_required; correlation run-1)" in str(part.content)
        assert paid == []


@pytest.mark.spec("G17", "G18")
async def test_the_same_call_goes_through_once_it_is_approved_and_no_other() -> None:
    async with desk(pay) as open_desk:
        toolset = CapsetToolset(open_desk.session)
        await failure(toolset, to="bob", amount=7)
        (request_id,) = await requests(open_desk)
        assert request_id in await failure(toolset, amount=7, to="bob"), "it waits for the same request"
        await open_desk.kernel.approvals.decide(request_id, Answer(approved=True), by=BOSS)
        assert request_id not in await failure(toolset, to="eve", amount=7)
        assert (await call(toolset, amount=7, to="bob")).return_value == "bob is paid"
        assert "limit_exceeded" in await failure(toolset, to="bob", amount=7), "and no request is opened"
        assert len(await requests(open_desk)) == 2
        assert paid == [("bob", 7)]


@pytest.mark.spec("G3")
async def test_a_limit_leaves_the_approval_for_later() -> None:
    async with desk(pay) as open_desk:
        toolset = CapsetToolset(open_desk.session)
        for name in ("bob", "eve"):
            await failure(toolset, to=name)
        bob, eve = await requests(open_desk)
        for request_id in (bob, eve):
            await open_desk.kernel.approvals.decide(request_id, Answer(approved=True), by=BOSS)
        assert (await call(toolset, to="bob")).return_value == "bob is paid"
        for _ in range(2):
            assert "limit_exceeded" in await failure(toolset, to="eve")
        assert (await open_desk.kernel.approvals.get(eve, org=None)).status == "approved"


@pytest.mark.spec("G17")
async def test_a_rejection_is_read_by_the_next_call_too() -> None:
    async with desk(pay) as open_desk:
        toolset = CapsetToolset(open_desk.session)
        await failure(toolset, to="bob")
        (request_id,) = await requests(open_desk)
        await open_desk.kernel.approvals.decide(request_id, Answer(approved=False, note="never"), by=BOSS)
        for _ in range(2):
            assert "rejected by user:boss: never" in await failure(toolset, to="bob")
        assert len(await requests(open_desk)) == 1


@pytest.mark.spec("G18")
async def test_another_run_of_the_session_uses_the_approval() -> None:
    async with desk(pay) as open_desk:
        await failure(CapsetToolset(open_desk.session), to="bob")
        (request_id,) = await requests(open_desk)
        await open_desk.kernel.approvals.decide(request_id, Answer(approved=True), by=BOSS)
        (part,) = await run(open_desk.session, [("pay", {"to": "bob"})])
        assert (part.content, paid) == ("bob is paid", [("bob", 5)])


@pytest.mark.spec("G17")
async def test_an_approval_of_pydantic_ai_s_approves_nothing_here() -> None:
    async with desk(pay) as open_desk:
        script = Scripted([("pay", {"to": "bob"})])
        toolset = CapsetToolset(open_desk.session).approval_required()
        agent = pydantic_ai.Agent(script.model, toolsets=[toolset], output_type=[str, DeferredToolRequests])
        first = await agent.run("go")
        approved = DeferredToolResults(approvals={"call-1-1": True})
        done = await agent.run(message_history=first.all_messages(), deferred_tool_results=approved)
        (part,) = returns(done.all_messages())
        assert "this needs an approval first" in str(part.content)
        assert paid == []
        assert (await open_desk.record()).code == "approval_required"


@pytest.mark.spec("G17", "R21")
async def test_a_run_of_a_host_s_own_ends_with_the_request_and_goes_on_once_it_is_decided() -> None:
    async with desk(pay) as open_desk:
        script = Scripted([("pay", {"to": "bob"})])
        toolset = CapsetToolset(open_desk.session, defers=True)
        agent = pydantic_ai.Agent(script.model, toolsets=[toolset], output_type=[str, DeferredToolRequests])
        first = await agent.run("go")
        assert isinstance(first.output, DeferredToolRequests)
        (request_id,) = await requests(open_desk)
        assert first.output.metadata["call-1-1"]["approval"] == request_id

        go_on = DeferredToolResults(approvals={"call-1-1": True})  # counts for nothing here
        second = await agent.run(message_history=first.all_messages(), deferred_tool_results=go_on)
        assert isinstance(second.output, DeferredToolRequests)
        assert (await requests(open_desk), paid) == ([request_id], [])

        await open_desk.kernel.approvals.decide(request_id, Answer(approved=True), by=BOSS)
        done = await agent.run(message_history=second.all_messages(), deferred_tool_results=go_on)
        (part,) = returns(done.all_messages())
        assert (part.content, paid) == ("bob is paid", [("bob", 5)])


@pytest.mark.spec("R21")
async def test_a_rejection_is_a_result_of_a_run_that_was_deferred() -> None:
    async with desk(pay) as open_desk:
        script = Scripted([("pay", {"to": "bob"})])
        toolset = CapsetToolset(open_desk.session, defers=True)
        agent = pydantic_ai.Agent(script.model, toolsets=[toolset], output_type=[str, DeferredToolRequests])
        first = await agent.run("go")
        (request_id,) = await requests(open_desk)
        await open_desk.kernel.approvals.decide(request_id, Answer(approved=False, note="never"), by=BOSS)
        go_on = DeferredToolResults(approvals={"call-1-1": True})
        done = await agent.run(message_history=first.all_messages(), deferred_tool_results=go_on)
        (part,) = returns(done.all_messages())
        assert "rejected by user:boss: never" in str(part.content)
        assert paid == []
