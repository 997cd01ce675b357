"""Rules for approvers over REST: what a request needs, has, and whether the caller may decide it (spec 4, G45–G50)."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import httpx2
import pytest

from capset.definitions.governance.approvers import ApproverRule
from capset.ext import Governance
from capset.wire.approvals import ApprovalShape
from capset_testing import FakeClock
from tests.helpers.server.approving import again, approved, asked, till
from tests.helpers.server.support import Site, make_session, problem, site

RULES = (
    ApproverRule(
        tools=["till.pay"],
        permission="payments:approve",
        attributes={"department": ["finance", "legal"]},
        approvals=2,
        escalate_after=600,
        escalate_to="payments:lead",
    ),
    ApproverRule(effects=["write"], same_attributes=["region"], forbid_own=True),
)
FINANCE = {"department": "finance", "region": "eu"}


@pytest.fixture
async def shop() -> AsyncGenerator[Site]:
    async with site(till, governance=Governance(approvers=RULES), clock=FakeClock()) as server:
        await server.key("caller", scopes=["capset:call", "capset:write"], attributes={"region": "eu"})
        for name, permission, attributes, org in (
            ("fay", "payments:approve", FINANCE, "acme"),
            ("fred", "payments:approve", FINANCE, "acme"),
            ("eve", "bills:read", {"region": "eu"}, "acme"),
            ("lead", "payments:lead", {"region": "eu"}, "acme"),
            ("stranger", "payments:approve", None, "other"),
        ):
            scopes, permissions = ["capset:approve"], [permission]
            await server.key(name, org=org, scopes=scopes, permissions=permissions, attributes=attributes)
        yield server


async def seen(shop: Site, name: str, request: str) -> ApprovalShape:
    async with shop.client(name) as client:
        return ApprovalShape.model_validate((await client.get(f"/v1/approvals/{request}")).json())


async def decided(shop: Site, name: str, request: str, **options: object) -> httpx2.Response:
    async with shop.client(name) as client:
        return await approved(client, request, **options)


@pytest.mark.spec("G46", "G50")
async def test_a_request_says_what_it_needs_has_and_who_may_decide_it(shop: Site) -> None:
    async with shop.client("caller") as caller:
        session = await make_session(caller, "till")
        request = await asked(caller, session)
        mine = await seen(shop, "caller", request)
        assert (mine.decidable, mine.refusal) == (False, "deciding needs the scope capset:approve")
        assert mine.needs is not None
        assert mine.needs.text.endswith("the region eu, as the requester's, none of them the requester")
        assert (mine.needs.approvals, mine.needs.forbid_own) == (2, True)
        by_permission = {rule.permission: rule for rule in mine.needs.rules}
        paying, every = by_permission["payments:approve"], by_permission[None]
        assert paying.attributes == {"department": ["finance", "legal"]}
        assert (paying.escalate_to, paying.escalates_at) == ("payments:lead", mine.escalates_at)
        assert (every.attributes, every.same_attributes) == ({"region": ["eu"]}, ["region"])
        theirs = await seen(shop, "eve", request)
        assert theirs.refusal is not None
        assert (theirs.decidable, "bills:read and no department" in theirs.refusal) == (False, True)
        assert theirs.refusal in problem(await decided(shop, "eve", request), 403, "permission_denied")["detail"]
        problem(await decided(shop, "stranger", request), 404, "not_found")
        assert (await seen(shop, "fay", request)).decidable is True
        half = ApprovalShape.model_validate((await decided(shop, "fay", request, note="checked")).json())
        assert (half.status, half.decidable) == ("pending", False)
        assert half.refusal == "you have approved it already, and it needs the approval of a different principal, too"
        assert [(approval.by, approval.note) for approval in half.approvals] == [("user:fay", "checked")]
        problem(await decided(shop, "fay", request), 409, "conflict")
        assert (await again(caller, session, request)).status_code == 202
        complete = ApprovalShape.model_validate((await decided(shop, "fred", request)).json())
        assert (complete.status, complete.decidable, len(complete.approvals)) == ("approved", False, 2)
        assert complete.refusal == "it was approved by user:fred"
        assert (await again(caller, session, request)).json()["data"] == "bob has 5"


@pytest.mark.spec("G48")
async def test_changed_arguments_are_approved_by_their_round(shop: Site) -> None:
    async with shop.client("caller") as caller:
        session = await make_session(caller, "till")
        request = await asked(caller, session)
        changed = {"to": "bob", "amount": 4}
        assert (await decided(shop, "fay", request, arguments=changed)).json()["round"] == 1
        problem(await decided(shop, "fred", request, round=0), 409, "conflict")
        problem(await decided(shop, "fred", request, round=-1), 422, "invalid_arguments")
        problem(await decided(shop, "fred", request, round=1, arguments=changed), 422, "invalid_arguments")
        begun = (await decided(shop, "fred", request)).json()
        assert (begun["status"], begun["round"], len(begun["approvals"])) == ("pending", 2, 1)
        assert begun["modified"] is None
        await decided(shop, "fay", request, arguments=changed)
        assert (await decided(shop, "fred", request, round=3)).json()["status"] == "approved"
        assert (await again(caller, session, request)).json()["data"] == "bob has 4"


@pytest.mark.spec("G49", "G50")
async def test_lists_and_counts_of_pending_requests(shop: Site) -> None:
    clock = shop.kernel.clock
    assert isinstance(clock, FakeClock)
    async with shop.client("caller") as caller, shop.client("lead") as lead, shop.client("stranger") as stranger:
        session = await make_session(caller, "till")
        first = await asked(caller, session, amount=1)
        clock.advance(600)
        await asked(caller, session, amount=2)
        (new, old) = (await lead.get("/v1/approvals", params={"status": "pending"})).json()["items"]
        assert (new["decidable"], old["decidable"], old["id"]) == (False, True, first)
        assert (new["escalated_at"], old["escalates_at"]) == (None, None)
        assert old["escalated_at"] == new["created_at"], "when it was noticed"
        summary = (await lead.get("/v1/approvals/summary")).json()
        ages = {"under_5_minutes": 1, "under_1_hour": 1, "under_1_day": 0, "older": 0}
        assert summary == {"pending": 2, "oldest_at": old["created_at"], "by_age": ages}
        none = {"pending": 0, "oldest_at": None, "by_age": dict.fromkeys(ages, 0)}
        assert (await stranger.get("/v1/approvals/summary")).json() == none
        problem(await caller.get("/v1/approvals/summary"), 403, "permission_denied")
        assert (await decided(shop, "lead", first)).json()["status"] == "pending"
        assert (await decided(shop, "fay", first)).json()["status"] == "approved"
