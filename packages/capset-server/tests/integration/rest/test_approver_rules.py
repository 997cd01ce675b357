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
        for name in ("fay", "fred"):
            permissions = ["payments:approve"]
            await server.key(name, scopes=["capset:approve"], permissions=permissions, attributes=FINANCE)
        await server.key("eve", scopes=["capset:approve"], permissions=["bills:read"], attributes={"region": "eu"})
        await server.key("stranger", org="other", scopes=["capset:approve"], permissions=["payments:approve"])
        await server.key("lead", scopes=["capset:approve"], permissions=["payments:lead"], attributes={"region": "eu"})
        yield server


async def seen(shop: Site, name: str, request: str) -> ApprovalShape:
    async with shop.client(name) as client:
        response = await client.get(f"/v1/approvals/{request}")
        assert response.status_code == 200, response.text
        return ApprovalShape.model_validate(response.json())


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
        assert mine.needs.text == (
            "two different approvers with the permission payments:approve and the department finance or legal; "
            "the region eu, as the requester's, none of them the requester"
        )
        assert (mine.needs.approvals, mine.needs.forbid_own) == (2, True)
        by_permission = {rule.permission: rule for rule in mine.needs.rules}
        assert by_permission["payments:approve"].attributes == {"department": ["finance", "legal"]}
        assert by_permission["payments:approve"].escalate_to == "payments:lead"
        assert by_permission["payments:approve"].escalates_at == mine.escalates_at
        assert (by_permission[None].attributes, by_permission[None].same_attributes) == ({"region": ["eu"]}, ["region"])
        message = (
            "this request needs an approver with the permission payments:approve and the department finance or legal; "
            "you have bills:read and no department"
        )
        theirs = await seen(shop, "eve", request)
        assert (theirs.decidable, theirs.refusal) == (False, message)
        problem(await decided(shop, "eve", request), 403, "permission_denied")
        assert message in (await decided(shop, "eve", request)).json()["detail"]
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
        assert (await stranger.get("/v1/approvals/summary")).json() == {
            "pending": 0,
            "oldest_at": None,
            "by_age": dict.fromkeys(ages, 0),
        }
        problem(await caller.get("/v1/approvals/summary"), 403, "permission_denied")
        assert (await decided(shop, "lead", first)).json()["status"] == "pending"
        assert (await decided(shop, "fay", first)).json()["status"] == "approved"
