"""Calls by MCP that have to be approved: refused, and made again as they were (spec 4, G17, G18)."""

from __future__ import annotations

from typing import Any, cast

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolResult, RequestParamsMeta

from capset import Context, Principal, tool
from capset.ext import Answer
from capset.stores.base import ApprovalQuery
from tests.helpers.server.mcp.support import PREFIX, Bench, Era, bench, text_of

paid: list[str] = []
APPROVAL = f"{PREFIX}approval"
BOSS = Principal("boss")


@tool(effect="write", approval="ask")
async def pay(to: str) -> str:
    """Pay somebody."""
    paid.append(to)
    return f"{to} is paid"


@pytest.fixture(autouse=True)
def nobody_is_paid_yet() -> None:
    paid.clear()


async def called(workbench: Bench, approval: Any = None, to: str = "bob") -> CallToolResult:
    return await with_meta(workbench, to, {} if approval is None else {APPROVAL: approval})


async def with_meta(workbench: Bench, to: str, meta: dict[str, Any]) -> CallToolResult:
    return await workbench.client.call_tool("pay", {"to": to}, meta=cast("RequestParamsMeta", meta))


async def asked(workbench: Bench) -> str:
    result = await called(workbench)
    assert result.is_error
    assert result.meta is not None
    return result.meta[f"{PREFIX}error"]["approval"]


@pytest.mark.spec("G18")
async def test_a_plain_call_is_refused_approved_and_made_again(era: Era) -> None:
    """As a model makes it, which knows nothing of ``_meta``."""
    async with bench(era, pay) as workbench:
        first = await called(workbench)
        assert first.is_error is True
        assert first.meta is not None
        error = first.meta[f"{PREFIX}error"]
        assert error["code"] == "approval_required"
        request = error["approval"]
        assert f"The request is {request}; once it is approved, make the same call again." in text_of(first)
        early = await called(workbench)
        assert early.meta is not None
        assert early.meta[f"{PREFIX}error"]["approval"] == request
        assert paid == []
        await workbench.kernel.approvals.decide(request, Answer(approved=True), by=BOSS)
        assert text_of(await called(workbench)) == "bob is paid"
        repeated = await called(workbench, request)
        assert repeated.is_error is True
        assert "code: approval_void" in text_of(repeated)
        assert paid == ["bob"]
        records = await workbench.records()
        assert [record.outcome for record in records] == ["pending", "pending", "succeeded", "rejected"]
        assert {record.approval for record in records} == {request}


@pytest.mark.spec("G17")
async def test_a_clients_word_is_no_approval(era: Era) -> None:
    async with bench(era, pay) as workbench:
        request = await asked(workbench)
        for word in ("approved", "true", "01890000-0000-7000-8000-000000000000", ""):
            refused = await called(workbench, word)
            assert "code: approval_void" in text_of(refused), word
        for word in (True, {"id": request, "approved": True}, 7):
            with pytest.raises(MCPError) as caught:
                await called(workbench, word)
            assert caught.value.error.code == INVALID_PARAMS
        claims: dict[str, Any] = {"approved": True, f"{PREFIX}approved": True, "approval": request}
        claimed = await with_meta(workbench, "bob", claims)
        assert "code: approval_required" in text_of(claimed)
        await workbench.kernel.approvals.decide(request, Answer(approved=True), by=BOSS)
        assert "code: approval_void" in text_of(await called(workbench, request, to="eve"))
        assert paid == []
        assert {record.outcome for record in await workbench.records()} == {"pending", "rejected"}


@pytest.mark.spec("G18")
async def test_a_call_goes_on_whose_own_call_was_approved(era: Era) -> None:
    @tool(effect="read")
    async def relay(ctx: Context, to: str) -> str:
        """Have somebody paid."""
        return await ctx.call(pay, to=to)

    async with bench(era, pay, relay) as workbench:
        for _ in range(2):
            assert (await workbench.client.call_tool("relay", {"to": "bob"})).is_error
        (request,) = (await workbench.kernel.approvals.list(ApprovalQuery(None))).items
        await workbench.kernel.approvals.decide(request.id, Answer(approved=True), by=BOSS)
        assert text_of(await workbench.client.call_tool("relay", {"to": "bob"})) == "bob is paid"
        assert paid == ["bob"]


@pytest.mark.spec("G17")
async def test_what_was_approved_for_the_session_goes_through_as_it_is(era: Era) -> None:
    async with bench(era, pay) as workbench:
        request = await asked(workbench)
        await workbench.kernel.approvals.decide(request, Answer(approved=True, scope="session"), by=BOSS)
        for _ in range(2):
            assert text_of(await called(workbench)) == "bob is paid"
        assert (await called(workbench, to="eve")).is_error is True
        assert paid == ["bob", "bob"]
