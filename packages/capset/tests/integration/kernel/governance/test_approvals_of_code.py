"""An approval is for the code that there was when it was asked for, unless the governance says otherwise."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from capset import Agent, Capability, Kernel, Session
from capset.definitions.tools.definition import AnyTool
from capset.errors import ApprovalRejected, ApprovalVoid, DefinitionError
from capset.evaluation.code import Code, code_of
from capset.ext import Governance
from capset.fingerprint.hashes import tool_hash
from capset_testing import FakeClock
from tests.distributions import fresh_import
from tests.helpers.kernel.governance.approving import FOR_SESSION, NO, Till

pytestmark = pytest.mark.spec("F35", "G17")
PAY = '''
from capset import tool

@tool(effect="write", approval="ask")
async def pay(to: str, amount: int) -> int:
    """Pay somebody."""
    return amount{more}
'''


@asynccontextmanager
async def releases(
    store: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **governance: Any
) -> AsyncGenerator[tuple[Till, Session, Session]]:
    """Open a kernel, and one session of it with each of two releases of a tool that declare the same."""
    tools: list[AnyTool] = []
    for name, more in (("old", ""), ("new", " + 1")):
        (folder / name).mkdir()
        (folder / name / "tinypay.py").write_text(PAY.format(more=more), encoding="utf-8")
        tools.append(fresh_import("tinypay", folder / name, monkeypatch).pay)
    assert tool_hash(tools[0]) == tool_hash(tools[1])
    assert code_of(tools[0]).hash != code_of(tools[1]).hash
    async with Kernel(store=store, governance=Governance(**governance)) as kernel:
        old, new = [
            Till(kernel, FakeClock(), Agent("clerk", uses=[Capability("till", tools=[pay])]), pay) for pay in tools
        ]
        session = await old.session()
        yield old, session, await new.session(id=session.id)


def code_in(session: Session) -> Code:
    return code_of(session.snapshot.tools["pay"].tool)


async def test_a_request_says_whose_code_would_run(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with releases(store, tmp_path, monkeypatch) as (harness, old, new):
        await harness.asked(old)
        (row,) = await harness.requests()
        assert row.code_hash == code_in(old).hash
        stored = await harness.kernel.store.lineage.payload("acme", row.code_hash or "")
        assert stored is not None
        assert (stored.kind, stored.payload) == ("code", code_in(old).covers)
        async with new.invoke(new.message("pay", {"to": "eve", "amount": 1})) as running:
            event = await anext(aiter(running))
            assert (event.type, event.data["code_hash"]) == ("approval.requested", code_in(new).hash)
            assert event.data["code"] == {"kind": "module", "name": "tinypay.py", "version": None}


async def test_an_approval_is_not_for_other_code(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with releases(store, tmp_path, monkeypatch) as (harness, old, new):
        first = await harness.asked(old)
        assert await harness.asked(old) == first
        await harness.decided(first)
        second = await harness.asked(new)
        assert second != first
        assert await harness.asked(new) == second, "a call of other code is another call, and has one request too"
        with pytest.raises(ApprovalVoid, match="another version of the tool's code"):
            raise (await harness.made(new, approval=first)).error or AssertionError
        await harness.decided(second)
        assert (await harness.made(new)).data == 6
        assert (await harness.made(old)).data == 5, "who goes back to the code that was approved needs no other"
        assert [row.status for row in await harness.requests()] == ["used", "used"]
        assert [(ran.approval, ran.code_hash) for ran in await harness.records(outcome="succeeded")] == [
            (second, code_in(new).hash),
            (first, code_in(old).hash),
        ]


async def test_an_approval_for_the_session_and_a_rejection_are_not_for_other_code_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with releases("memory://", tmp_path, monkeypatch) as (harness, old, new):
        await harness.decided(await harness.asked(old), FOR_SESSION)
        assert [(await harness.made(old)).data for _ in range(2)] == [5, 5]
        await harness.decided(await harness.asked(new), NO)
        assert isinstance((await harness.made(new)).error, ApprovalRejected)
        assert (await harness.made(old)).data == 5


async def test_where_code_does_not_count_an_approval_outlives_a_release(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with releases(store, tmp_path, monkeypatch, code_voids_approvals=False) as (harness, old, new):
        first = await harness.asked(old)
        assert await harness.asked(new) == first
        await harness.decided(first)
        assert (await harness.made(new)).data == 6
        await harness.decided(second := await harness.asked(old))
        assert (await harness.made(new, approval=second)).data == 6
        (_, row) = await harness.requests()
        assert row.code_hash == code_in(old).hash, "it says all the same what was asked for"


async def test_a_call_that_waits_is_let_through_by_its_own_request(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with releases(store, tmp_path, monkeypatch) as (harness, old, new):
        await harness.decided(await harness.asked(old))
        async with new.invoke(new.message("pay", {"to": "bob", "amount": 5})) as running:
            event = await anext(aiter(running))
            await harness.decided(event.data["id"])
            assert [message.data async for message in running] == [6]


def test_whether_code_counts_is_a_flag() -> None:
    with pytest.raises(DefinitionError, match="code_voids_approvals"):
        Governance(code_voids_approvals=1)  # pyright: ignore[reportArgumentType]
