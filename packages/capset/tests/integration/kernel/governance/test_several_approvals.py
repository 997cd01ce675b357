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
from capset.ext import Answer, Governance
from capset.kernel.governance.approval_needs import given_approvals, round_of
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


async def by(here: Till, request: str) -> list[str]:
    return [one.by for one in given_approvals(await here.kernel.approvals.get(request, org="acme"))]


@pytest.mark.spec("G48")
async def test_it_stays_pending_until_two_different_principals_have_approved(store: str) -> None:
    async with till(store=store, kernel={"governance": TWO}) as here:
        session = await here.session()
        request = await here.asked(session)
        first = await here.decided(request, Answer(approved=True, note="fine"), by="bea")
        assert (first.status, first.decided_by, first.note) == ("pending", None, None)
        error = (await here.made(session, approval=request)).error
        assert isinstance(error, ApprovalRequired)
        assert "It needs two different approvers." in error.message
        assert isinstance((await here.made(session)).error, ApprovalRequired)
        last = await here.decided(request, Answer(approved=True, note="me, too"), by="boss")
        assert (last.status, last.decided_by, last.note) == ("approved", "user:boss", "me, too")
        given = given_approvals(last)
        assert [(one.by, one.note, one.round) for one in given] == [
            ("user:bea", "fine", 0),
            ("user:boss", "me, too", 0),
        ]
        assert (await here.made(session)).data == "bob has 5"
        acts = (await here.kernel.audit.query(AuditQuery(act="approval.approve"))).items
        told = [(one.principal, json.loads(one.arguments)["approval"]) for one in reversed(acts)]
        assert told == [("bea", 1), ("boss", 2)]
        assert {json.loads(one.arguments)["of"] for one in acts} == {2}
        assert (await here.kernel.audit.verify()).ok


@pytest.mark.spec("G48")
async def test_a_waiting_call_goes_on_with_the_last_one() -> None:
    async with till(kernel={"governance": TWO}) as here:
        waits = asyncio.ensure_future((await here.session()).call(here.pay, to="bob", amount=5))
        request = (await here.waiting()).id
        await here.decided(request, by="bea")
        await asyncio.sleep(60)
        assert not waits.done()
        await here.decided(request, by="boss")
        assert await waits == "bob has 5"


@pytest.mark.spec("G48")
async def test_the_same_person_counts_once_through_whomever_it_acts() -> None:
    bea, bot = Principal("bea", org="acme"), Principal("bot", org="acme", kind="agent")
    through, other = bot.acting_for(bea), bot.acting_for(Principal("sam", org="acme"))
    async with till(kernel={"governance": TWO}) as here:
        request = await here.asked(await here.session())
        for first, *repeats in ((bea, bea, through), (through, bea, through, other, bot)):
            request = await here.asked(await here.session(), amount=len(repeats))
            await here.decided(request, by=first)
            for one in repeats:
                row = await here.kernel.approvals.get(request, org="acme")
                told = here.kernel.approvals.refusal(row, one)
                assert told == "you have approved it already, and it needs the approval of a different principal, too"
                with pytest.raises(Conflict, match="is still open: you have approved it already"):
                    await here.decided(request, by=one)
            assert len(await by(here, request)) == 1
        own = Principal("ada", org="acme")
        await here.decided(request, by=own)
        assert (await here.kernel.approvals.get(request, org="acme")).status == "approved", "where one's own counts"


@pytest.mark.spec("G48")
async def test_one_rejection_ends_it() -> None:
    async with till(kernel={"governance": TWO}) as here:
        session = await here.session()
        request = await here.asked(session)
        await here.decided(request, by="bea")
        await here.decided(request, NO, by="bea")
        assert isinstance((await here.made(session)).error, ApprovalRejected)
        with pytest.raises(Conflict, match="it was rejected by user:bea"):
            await here.decided(request, by="boss")


@pytest.mark.spec("G48")
async def test_every_approver_approves_the_same_arguments_or_the_count_begins_again() -> None:
    async with till(kernel={"governance": TWO}) as here:
        session = await here.session()
        request = await here.asked(session)
        await here.decided(request, by="bea")
        row = await here.decided(request, OTHERS, by="sam")
        assert (row.status, row.modified, await by(here, request)) == (
            "pending",
            '{"amount":4,"to":"bob"}',
            ["user:sam"],
        )
        assert round_of(row) == 1
        row = await here.decided(request, YES, by="boss")
        assert (row.status, row.modified, await by(here, request)) == ("pending", None, ["user:boss"]), "what was asked"
        with pytest.raises(Conflict, match="it is in round 2, not 1"):
            await here.decided(request, of_round(1), by="eve")
        await here.decided(request, OTHERS, by="boss")
        for stale in (0, 2, 7):
            with pytest.raises(Conflict, match="in round 3, not"):
                await here.decided(request, of_round(stale), by="bea")
        assert await by(here, request) == ["user:boss"]
        with pytest.raises(InvalidArguments, match="so its approval is for one call, not for the session"):
            await here.decided(request, Answer(approved=True, scope="session", round=3), by="bea")
        row = await here.decided(request, of_round(3), by="bea")
        assert (row.status, row.modified) == ("approved", '{"amount":4,"to":"bob"}')
        assert (await here.made(session)).data == "bob has 4"
        equal = await here.asked(session, amount=9)
        await here.decided(equal, OTHERS, by="bea")
        assert (await here.decided(equal, OTHERS, by="boss")).status == "approved", "the same arguments, given again"


@pytest.mark.spec("G48")
async def test_it_is_for_the_session_only_if_all_say_so() -> None:
    async with till(kernel={"governance": TWO}) as here:
        session = await here.session()
        whole, once = FOR_SESSION, YES
        for first, last, scope in ((whole, whole, "session"), (whole, once, "once"), (once, whole, "once")):
            request = await here.asked(session, to=f"{first.scope} {last.scope}")
            await here.decided(request, first, by="bea")
            row = await here.decided(request, last, by="boss")
            assert (row.status, row.scope) == ("approved", scope)


@pytest.mark.spec("G48")
async def test_the_strictest_number_holds() -> None:
    rules = [ApproverRule(tools=["pay"], approvals=3), ApproverRule(permission="a:b"), ApproverRule(approvals=2)]
    async with till(kernel={"governance": Governance(approvers=rules)}) as here:
        request = await here.asked(await here.session())
        for number, status in enumerate(("pending", "pending", "approved")):
            with pytest.raises(PermissionDenied, match="the permission a:b"):
                await here.decided(request, by=f"none-{number}")
            who = Principal(f"boss-{number}", org="acme", permissions=["a:b"])
            assert (await here.decided(request, by=who)).status == status


@pytest.mark.spec("G47", "G48")
async def test_an_approval_by_a_server_without_rules_is_not_enough(tmp_path: Path) -> None:
    """A server of an earlier version writes neither who has approved, nor reads what is needed."""
    url = f"sqlite:///{tmp_path}/capset.db"
    async with till(store=url, kernel={"governance": TWO}) as here:
        session = await here.session()
        request = await here.asked(session)
        run_at(url, "UPDATE approvals SET status = 'approved', decided_by = 'user:eve' WHERE status = 'pending'")
        error = (await here.made(session, approval=request)).error
        assert isinstance(error, ApprovalVoid)
        assert "it has not all approvals that it needs" in error.message
        again = await here.asked(session)
        assert again != request
        assert (await here.kernel.approvals.get(request, org="acme")).status == "expired"
        assert here.paid == []


@pytest.mark.spec("G49")
async def test_a_rule_says_how_long_a_request_and_its_approval_last() -> None:
    rules = [ApproverRule(expires_after=60), ApproverRule(tools=["pay"], expires_after=40)]
    async with till(kernel={"governance": Governance(approvers=rules, approval_seconds=50)}) as here:
        session = await here.session()
        request = await here.asked(session)
        here.clock.advance(39)
        await here.decided(request)
        here.clock.advance(39)
        assert (await here.kernel.approvals.get(request, org="acme")).status == "approved"
        here.clock.advance(1)
        assert isinstance((await here.made(session, approval=request)).error, ApprovalExpired)
    long = Governance(approvers=[ApproverRule(expires_after=600)], approval_seconds=50)
    async with till(kernel={"governance": long}) as here:
        request = await here.asked(await here.session())
        here.clock.advance(599)
        await here.decided(request)
        here.clock.advance(50)
        assert (await here.kernel.approvals.get(request, org="acme")).status == "expired", "the shorter time to use it"


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
    async with till(store=url, kernel={"governance": three}) as here:
        session = await here.session()
        asked = [await here.asked(session, amount=number) for number in range(6)]
        now = str(here.clock.time_ns())
        servers = [
            await asyncio.create_subprocess_exec(*(sys.executable, str(RACE), url, now, *names), stdin=-1, stdout=-1)
            for names in (("ann", "ben"), ("ann", "cat"))
        ]
        for one in servers:
            assert one.stdout is not None
            assert await one.stdout.readline() == b"ready\n"
        ended = await asyncio.gather(*[one.communicate("\n".join(asked).encode()) for one in servers])
        taken = [json.loads(line) for out, _ in ended for line in out.splitlines()]
        for id in asked:  # noqa: A001 - what it is
            row = await here.kernel.approvals.get(id, org="acme")
            assert row.status == "approved"
            assert sorted(one.by for one in given_approvals(row)) == ["user:ann", "user:ben", "user:cat"]
            assert sorted(one["by"] for one in taken if one["id"] == id and one["taken"]) == ["ann", "ben", "cat"]
        acts = (await here.kernel.audit.query(AuditQuery(act="approval.approve", limit=100))).items
        assert len(acts) == 3 * len(asked)
        assert (await here.kernel.audit.verify()).ok
