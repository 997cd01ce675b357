"""An approval is for the code that there was when it was asked for, unless the governance says otherwise."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from capset import Agent, Capability, Kernel, Principal, Session
from capset.definitions.tools.definition import AnyTool
from capset.errors import ApprovalRejected, ApprovalRequired, ApprovalVoid, DefinitionError
from capset.evaluation.code import code_of
from capset.ext import Answer, ApprovalRow, Governance
from capset.fingerprint.hashes import tool_hash
from capset.kernel.results import Result
from capset.stores.base import ApprovalQuery
from tests.distributions import fresh_import
from tests.helpers.kernel.governance.approving import FOR_SESSION, NO, YES
from tests.helpers.kernel.support import records_of

pytestmark = pytest.mark.spec("F35", "G17")
ADA, BOSS = Principal("ada", org="acme"), Principal("boss", org="acme")
PAY = '''
from capset import tool

@tool(effect="write", approval="ask")
async def pay(to: str, amount: int) -> int:
    """Pay somebody."""
    return amount{more}
'''


@dataclass
class Till:
    """A kernel, and two releases of one tool; ``now`` is the one that sessions are opened with."""

    kernel: Kernel
    old: AnyTool
    new: AnyTool
    session_id: str = ""

    async def session(self, tool: AnyTool) -> Session:
        """Open the one session with a release of the tool."""
        agent = Agent("clerk", uses=[Capability("till", tools=[tool])])
        async with self.kernel.open(agent, principal=ADA, session_id=self.session_id or None) as session:
            self.session_id = session.id
            return session

    async def made(self, tool: AnyTool, approval: str | None = None) -> Result[Any]:
        """Make the one payment by a release of the tool."""
        ready = (await self.session(tool)).options(approvals="defer", approval=approval)
        return await ready.try_message(ready.message("pay", {"to": "bob", "amount": 5}))

    async def asked(self, tool: AnyTool) -> str:
        """Ask for the one payment, and return the request's id."""
        error = (await self.made(tool)).error
        assert isinstance(error, ApprovalRequired)
        assert error.approval is not None
        return error.approval

    async def decided(self, id: str, answer: Answer = YES) -> ApprovalRow:
        """Answer a request."""
        return await self.kernel.approvals.decide(id, answer, by=BOSS)

    async def requests(self) -> tuple[ApprovalRow, ...]:
        """Return all requests, newest first."""
        return (await self.kernel.approvals.list(ApprovalQuery("acme"))).items


@asynccontextmanager
async def releases(
    store: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **governance: Any
) -> AsyncGenerator[Till]:
    """Open a kernel for two releases that declare the same."""
    tools: list[AnyTool] = []
    for name, more in (("old", ""), ("new", " + 1")):
        (folder / name).mkdir()
        (folder / name / "tinypay.py").write_text(PAY.format(more=more), encoding="utf-8")
        tools.append(fresh_import("tinypay", folder / name, monkeypatch).pay)
    assert tool_hash(tools[0]) == tool_hash(tools[1])
    assert code_of(tools[0]).hash != code_of(tools[1]).hash
    async with Kernel(store=store, governance=Governance(**governance)) as kernel:
        yield Till(kernel, tools[0], tools[1])


async def test_a_request_says_whose_code_would_run(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with releases(store, tmp_path, monkeypatch) as harness:
        await harness.asked(harness.old)
        (row,) = await harness.requests()
        code = code_of(harness.old)
        assert row.code_hash == code.hash
        stored = await harness.kernel.store.lineage.payload("acme", row.code_hash or "")
        assert stored is not None
        assert (stored.kind, stored.payload) == ("code", code.covers)
        session = await harness.session(harness.new)
        messages = session.invoke(session.message("pay", {"to": "eve", "amount": 1}))
        async with messages as running:
            event = await anext(aiter(running))
            assert (event.type, event.data["code_hash"]) == ("approval.requested", code_of(harness.new).hash)
            assert event.data["code"] == {"kind": "module", "name": "tinypay.py", "version": None}


async def test_an_approval_is_not_for_other_code(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with releases(store, tmp_path, monkeypatch) as harness:
        first = await harness.asked(harness.old)
        assert await harness.asked(harness.old) == first
        await harness.decided(first)
        second = await harness.asked(harness.new)
        assert second != first
        assert await harness.asked(harness.new) == second, (
            "a call of other code is another call, and has one request too"
        )
        named = await harness.made(harness.new, approval=first)
        assert isinstance(named.error, ApprovalVoid)
        assert named.error.message == "Approval void: it was given for other code of the tool."
        await harness.decided(second)
        assert (await harness.made(harness.new)).data == 6
        assert (await harness.made(harness.old)).data == 5, "who goes back to the code that was approved needs no other"
        assert [row.status for row in await harness.requests()] == ["used", "used"]
        ran = [record for record in await records_of(harness.kernel.audit) if record.outcome == "succeeded"]
        assert [(record.approval, record.code_hash) for record in ran] == [
            (second, code_of(harness.new).hash),
            (first, code_of(harness.old).hash),
        ]


async def test_one_for_the_session_and_a_rejection_are_not_for_other_code_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with releases("memory://", tmp_path, monkeypatch) as harness:
        await harness.decided(await harness.asked(harness.old), FOR_SESSION)
        assert [(await harness.made(harness.old)).data for _ in range(2)] == [5, 5]
        await harness.decided(await harness.asked(harness.new), NO)
        assert isinstance((await harness.made(harness.new)).error, ApprovalRejected)
        assert (await harness.made(harness.old)).data == 5


async def test_where_code_does_not_count_an_approval_outlives_a_release(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with releases(store, tmp_path, monkeypatch, code_voids_approvals=False) as harness:
        first = await harness.asked(harness.old)
        assert await harness.asked(harness.new) == first
        await harness.decided(first)
        assert (await harness.made(harness.new)).data == 6
        named = await harness.asked(harness.old)
        await harness.decided(named)
        assert (await harness.made(harness.new, approval=named)).data == 6
        (_, row) = await harness.requests()
        assert row.code_hash == code_of(harness.old).hash, "it says all the same what was asked for"


async def test_a_call_that_waits_is_let_through_by_its_own_request(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with releases(store, tmp_path, monkeypatch) as harness:
        await harness.decided(await harness.asked(harness.old))
        session = await harness.session(harness.new)
        messages = session.invoke(session.message("pay", {"to": "bob", "amount": 5}))
        async with messages as running:
            event = await anext(aiter(running))
            await harness.decided(event.data["id"])
            assert [message.data async for message in running] == [6]


@pytest.mark.parametrize("value", [1, None, "yes"])
def test_the_setting_is_a_flag(value: Any) -> None:
    with pytest.raises(DefinitionError, match="code_voids_approvals"):
        Governance(code_voids_approvals=value)
    assert Governance().code_voids_approvals
