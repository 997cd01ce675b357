"""Requests that several principals have to approve (spec 4, G48)."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from capset import Principal
from capset.definitions.governance.approvers import ApproverRule
from capset.errors import (
    ApprovalExpired,
    ApprovalRejected,
    ApprovalRequired,
    ApprovalVoid,
    Conflict,
    InvalidArguments,
    PermissionDenied,
)
from capset.ext import Answer, ApprovalRow, Governance
from capset.kernel.governance.approval_needs import approvals_of, round_of
from capset.stores.base import AuditQuery
from tests.databases import require_scheme
from tests.helpers.kernel.governance import racing
from tests.helpers.kernel.governance.approving import FOR_SESSION, NO, YES, Till, till
from tests.helpers.stores.sql.support import run_at
from tests.virtual_time import anyio_backend

__all__ = ["anyio_backend"]

TWO = Governance(approvers=[ApproverRule(tools=["pay"], approvals=2)], own_approvals=True)
OTHERS = Answer(approved=True, arguments={"to": "bob", "amount": 4})


def of_round(number: int) -> Answer:
    return Answer(approved=True, round=number)


async def row_of(harness: Till, request: str) -> ApprovalRow:
    return await harness.kernel.approvals.get(request, org="acme")


async def approvers(harness: Till, request: str) -> list[str]:
    return [approval.by for approval in approvals_of(await row_of(harness, request))]


@pytest.mark.spec("G48")
async def test_it_stays_pending_until_two_different_principals_have_approved(store: str) -> None:
    async with till(store=store, kernel={"governance": TWO}) as harness:
        session = await harness.session()
        request = await harness.asked(session)
        first = await harness.decided(request, Answer(approved=True, note="fine"), by="bea")
        assert (first.status, first.decided_by, first.note) == ("pending", None, None)
        for approval in (request, None):
            error = (await harness.made(session, approval=approval)).error
            assert isinstance(error, ApprovalRequired)
            assert "It needs two different approvers." in error.message
        last = await harness.decided(request, Answer(approved=True, note="me, too"), by="boss")
        assert (last.status, last.decided_by, last.note) == ("approved", "user:boss", "me, too")
        given = [(approval.by, approval.note, approval.round) for approval in approvals_of(last)]
        assert given == [("user:bea", "fine", 0), ("user:boss", "me, too", 0)]
        assert (await harness.made(session)).data == "bob has 5"
        acts = (await harness.kernel.audit.query(AuditQuery(act="approval.approve"))).items
        said = [(act.principal, json.loads(act.arguments)) for act in reversed(acts)]
        counted = [(principal, arguments["approval"], arguments["of"]) for principal, arguments in said]
        assert counted == [("bea", 1, 2), ("boss", 2, 2)]
        assert (await harness.kernel.audit.verify()).ok


@pytest.mark.spec("G48")
async def test_a_waiting_call_goes_on_with_the_last_one() -> None:
    async with till(kernel={"governance": TWO}) as harness:
        waits = asyncio.ensure_future((await harness.session()).call(harness.pay, to="bob", amount=5))
        request = (await harness.waiting()).id
        await harness.decided(request, by="bea")
        await asyncio.sleep(60)
        assert not waits.done()
        await harness.decided(request, by="boss")
        assert await waits == "bob has 5"


@pytest.mark.spec("G48")
async def test_the_same_person_counts_once_through_whomever_it_acts() -> None:
    bea, bot = Principal("bea", org="acme"), Principal("bot", org="acme", kind="agent")
    through, other = bot.acting_for(bea), bot.acting_for(Principal("sam", org="acme"))
    async with till(kernel={"governance": TWO}) as harness:
        request = ""
        for first, *repeats in ((bea, bea, through), (through, bea, through, other, bot)):
            request = await harness.asked(await harness.session(), amount=len(repeats))
            await harness.decided(request, by=first)
            for approver in repeats:
                refusal = harness.kernel.approvals.refusal(await row_of(harness, request), approver)
                assert str(refusal).startswith("you have approved it already")
                with pytest.raises(Conflict, match="is still open: you have approved it already"):
                    await harness.decided(request, by=approver)
            assert len(await approvers(harness, request)) == 1
        assert (await harness.decided(request, by="ada")).status == "approved", "where one's own counts"


@pytest.mark.spec("G48")
async def test_one_rejection_ends_it() -> None:
    async with till(kernel={"governance": TWO}) as harness:
        session = await harness.session()
        request = await harness.asked(session)
        await harness.decided(request, by="bea")
        await harness.decided(request, NO, by="bea")
        assert isinstance((await harness.made(session)).error, ApprovalRejected)
        with pytest.raises(Conflict, match="it was rejected by user:bea"):
            await harness.decided(request, by="boss")


@pytest.mark.spec("G48")
async def test_every_approver_approves_the_same_arguments_or_the_count_begins_again() -> None:
    async with till(kernel={"governance": TWO}) as harness:
        session = await harness.session()
        request = await harness.asked(session)
        await harness.decided(request, by="bea")
        row = await harness.decided(request, OTHERS, by="sam")
        assert (row.status, row.modified, round_of(row)) == ("pending", '{"amount":4,"to":"bob"}', 1)
        assert await approvers(harness, request) == ["user:sam"]
        row = await harness.decided(request, YES, by="boss")
        assert (row.status, row.modified, round_of(row)) == ("pending", None, 2), "what was asked"
        with pytest.raises(Conflict, match="it is in round 2, not 1"):
            await harness.decided(request, of_round(1), by="eve")
        await harness.decided(request, OTHERS, by="boss")
        for stale in (0, 2, 7):
            with pytest.raises(Conflict, match="in round 3, not"):
                await harness.decided(request, of_round(stale), by="bea")
        assert await approvers(harness, request) == ["user:boss"]
        with pytest.raises(InvalidArguments, match="so its approval is for one call, not for the session"):
            await harness.decided(request, Answer(approved=True, scope="session", round=3), by="bea")
        row = await harness.decided(request, of_round(3), by="bea")
        assert (row.status, row.modified) == ("approved", '{"amount":4,"to":"bob"}')
        assert (await harness.made(session)).data == "bob has 4"
        equal = await harness.asked(session, amount=9)
        await harness.decided(equal, OTHERS, by="bea")
        assert (await harness.decided(equal, OTHERS, by="boss")).status == "approved", "the same arguments, given again"


@pytest.mark.spec("G48")
async def test_it_is_for_the_session_only_if_all_say_so() -> None:
    async with till(kernel={"governance": TWO}) as harness:
        session = await harness.session()
        for first, last, scope in (
            (FOR_SESSION, FOR_SESSION, "session"),
            (FOR_SESSION, YES, "once"),
            (YES, FOR_SESSION, "once"),
        ):
            request = await harness.asked(session, to=f"{first.scope} {last.scope}")
            await harness.decided(request, first, by="bea")
            row = await harness.decided(request, last, by="boss")
            assert (row.status, row.scope) == ("approved", scope)


@pytest.mark.spec("G48")
async def test_the_strictest_number_holds() -> None:
    rules = [ApproverRule(tools=["pay"], approvals=3), ApproverRule(permission="a:b"), ApproverRule(approvals=2)]
    async with till(kernel={"governance": Governance(approvers=rules)}) as harness:
        request = await harness.asked(await harness.session())
        for number, status in enumerate(("pending", "pending", "approved")):
            with pytest.raises(PermissionDenied, match="the permission a:b"):
                await harness.decided(request, by=f"none-{number}")
            principal = Principal(f"boss-{number}", org="acme", permissions=["a:b"])
            assert (await harness.decided(request, by=principal)).status == status


@pytest.mark.spec("G47", "G48")
async def test_an_approval_by_a_server_without_rules_is_not_enough(tmp_path: Path) -> None:
    """A server of an earlier version writes neither who has approved, nor reads what is needed."""
    url = f"sqlite:///{tmp_path}/capset.db"
    async with till(store=url, kernel={"governance": TWO}) as harness:
        session = await harness.session()
        request = await harness.asked(session)
        run_at(url, "UPDATE approvals SET status = 'approved', decided_by = 'user:eve' WHERE status = 'pending'")
        error = (await harness.made(session, approval=request)).error
        assert isinstance(error, ApprovalVoid)
        assert "lacks some of the approvals" in error.message
        assert await harness.asked(session) != request
        assert (await row_of(harness, request)).status == "expired"
        assert harness.paid == []


@pytest.mark.spec("G49")
async def test_a_rule_says_how_long_a_request_and_its_approval_last() -> None:
    rules = [ApproverRule(expires_after=60), ApproverRule(tools=["pay"], expires_after=40)]
    async with till(kernel={"governance": Governance(approvers=rules, approval_seconds=50)}) as harness:
        session = await harness.session()
        request = await harness.asked(session)
        harness.clock.advance(39)
        await harness.decided(request)
        harness.clock.advance(39)
        assert (await row_of(harness, request)).status == "approved"
        harness.clock.advance(1)
        assert isinstance((await harness.made(session, approval=request)).error, ApprovalExpired)
    long = Governance(approvers=[ApproverRule(expires_after=600)], approval_seconds=50)
    async with till(kernel={"governance": long}) as harness:
        request = await harness.asked(await harness.session())
        harness.clock.advance(599)
        await harness.decided(request)
        harness.clock.advance(50)
        assert (await row_of(harness, request)).status == "expired", "the shorter time to use it"


RACE = Path(str(racing.__file__))


@pytest.mark.realtime
@pytest.mark.spec("G48")
@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
async def test_of_two_servers_that_approve_at_once_none_is_lost_or_counted_double(
    engine: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if engine == "postgres":
        require_scheme()
        url = request.getfixturevalue("postgres_url")
    else:
        url = f"sqlite:///{tmp_path}/capset.db"
    three = Governance(approvers=[ApproverRule(approvals=3)])
    async with till(store=url, kernel={"governance": three}) as harness:
        session = await harness.session()
        request_ids = [await harness.asked(session, amount=number) for number in range(6)]
        now = str(harness.clock.time_ns())
        servers = [
            await asyncio.create_subprocess_exec(*(sys.executable, str(RACE), url, now, *names), stdin=-1, stdout=-1)
            for names in (("ann", "ben"), ("ann", "cat"))
        ]
        for server in servers:
            assert server.stdout is not None
            assert await server.stdout.readline() == b"ready\n"
        ended = await asyncio.gather(*[process.communicate("\n".join(request_ids).encode()) for process in servers])
        taken = [json.loads(line) for out, _ in ended for line in out.splitlines()]
        for id in request_ids:  # noqa: A001 - what it is
            row = await row_of(harness, id)
            assert row.status == "approved"
            assert sorted(approval.by for approval in approvals_of(row)) == ["user:ann", "user:ben", "user:cat"]
            winners = sorted(decision["by"] for decision in taken if decision["id"] == id and decision["taken"])
            assert winners == ["ann", "ben", "cat"]
        acts = (await harness.kernel.audit.query(AuditQuery(act="approval.approve", limit=100))).items
        assert len(acts) == 3 * len(request_ids)
        assert (await harness.kernel.audit.verify()).ok
