"""``/v1/approvals``, and calls that have to be approved (spec 4, G16–G18; spec 5, P9, P12)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx2
import pytest

from capset import Principal
from capset.evaluation.code import code_of
from capset.wire.approvals import ApprovalShape
from capset.wire.calls import CallProblem, CallShape
from capset.wire.fingerprints import code_shape
from capset_server.auth.keys import create_key
from capset_testing import FakeClock
from tests.helpers.kernel.fixtures import store
from tests.helpers.server.approving import again, approved, asked, till
from tests.helpers.server.rest.calls import events
from tests.helpers.server.support import ALL_SCOPES, Site, call, make_session, problem, site
from tests.waiting import until

__all__ = ["store"]


@dataclass(frozen=True)
class Shop:
    """A server with the till, a session of ``caller``, who calls and nothing else, and ``boss``, who may approve."""

    site: Site
    caller: httpx2.AsyncClient
    boss: httpx2.AsyncClient
    session: str

    async def asked(self, **arguments: Any) -> str:
        return await asked(self.caller, self.session, **arguments)

    async def approved(self, request: str, **fields: Any) -> httpx2.Response:
        return await approved(self.boss, request, **fields)

    async def again(self, request: str, **arguments: Any) -> httpx2.Response:
        return await again(self.caller, self.session, request, **arguments)

    async def seen(self, request: str) -> dict[str, Any]:
        return (await self.caller.get(f"/v1/approvals/{request}")).json()

    async def listed(self, client: httpx2.AsyncClient, **filters: Any) -> list[str]:
        return [row["id"] for row in (await client.get("/v1/approvals", params=filters)).json()["items"]]


@asynccontextmanager
async def open_shop(**options: Any) -> AsyncGenerator[Shop]:
    async with site(till, **options) as server:
        await server.key("boss", scopes=["capset:approve"])
        await server.key("caller", scopes=["capset:call", "capset:write"])
        async with server.client("caller") as caller, server.client("boss") as boss:
            yield Shop(server, caller, boss, await make_session(caller, "till"))


@pytest.fixture
async def shop() -> AsyncGenerator[Shop]:
    async with open_shop() as new_shop:
        yield new_shop


@pytest.mark.spec("G18", "P9", "P12")
async def test_a_call_is_accepted_approved_and_made_again(shop: Shop) -> None:
    first = await call(shop.caller, shop.session, "pay", to="bob")
    assert first.status_code == 202
    shape = CallShape.model_validate(first.json())
    assert (shape.success, shape.refused) == (False, True)
    assert shape.error is not None
    assert (shape.error.code, shape.error.approval) == ("approval_required", shape.approval)
    assert first.headers["location"] == f"/v1/approvals/{shape.approval}"
    assert shape.plain() == first.json()
    request = ApprovalShape.model_validate((await shop.caller.get(first.headers["location"])).json())
    assert (request.status, request.tool, request.arguments) == ("pending", "pay", {"to": "bob", "amount": 5})
    assert (request.principal, request.session, request.call) == ("user:caller", shop.session, shape.record)
    code = code_of(next(candidate for candidate in till.every_tool if candidate.name == "pay"))
    assert code.hash is not None
    assert (request.code_hash, request.code) == (code.hash, code_shape(code))
    covered = await shop.caller.get(f"/v1/fingerprints/{request.code_hash}")
    assert covered.status_code == 403, "a key that only calls reads no fingerprints"
    early = await shop.again(request.id)
    assert (early.status_code, early.json()["approval"]) == (202, request.id)
    done = await shop.approved(request.id, note="only this once")
    assert (done.status_code, done.json()["status"], done.json()["decided_by"]) == (200, "approved", "user:boss")
    changed = await shop.again(request.id, amount=500)
    assert (changed.status_code, changed.json()["error"]["code"]) == (409, "approval_void"), "it is for its arguments"
    passed = await shop.again(request.id)
    assert (passed.status_code, passed.json()["data"]) == (200, "bob has 5")
    second = await shop.again(request.id)
    assert CallProblem.model_validate(problem(second, 409, "approval_void")).error.code == "approval_void"
    approval = await shop.seen(request.id)
    assert (approval["status"], approval["note"]) == ("used", "only this once")
    records = await shop.site.records(session=shop.session)
    assert [record.outcome for record in records] == ["pending", "pending", "rejected", "succeeded", "rejected"]
    assert {record.approval for record in records} == {request.id}


@pytest.mark.spec("G17", "F1")
async def test_approved_arguments_may_be_others_and_large_numbers_stay_as_they_are(shop: Shop) -> None:
    request = await shop.asked(amount=2**60)
    arguments = (await shop.boss.get(f"/v1/approvals/{request}")).json()["arguments"]
    assert arguments == {"to": "bob", "amount": 2**60}
    done = await shop.approved(request, arguments=arguments | {"amount": 2**60 + 1})
    assert (done.status_code, done.json()["modified"]) == (200, {"to": "bob", "amount": 2**60 + 1})
    assert (await shop.again(request, amount=2**60)).json()["data"] == f"bob has {2**60 + 1}"
    wrong = await shop.asked()
    problem(await shop.approved(wrong, arguments={"to": "bob", "amount": "many"}), 422, "invalid_arguments")
    assert (await shop.seen(wrong))["status"] == "pending"


@pytest.mark.spec("G17")
async def test_a_rejection_is_read_by_whoever_called(shop: Shop) -> None:
    request = await shop.asked()
    done = await shop.boss.post(f"/v1/approvals/{request}/reject", json={"note": "not today"})
    assert done.json()["status"] == "rejected"
    assert "not today" in problem(await shop.again(request), 403, "approval_rejected")["detail"]
    problem(await shop.approved(request), 409, "conflict")


@pytest.mark.spec("G17")
async def test_an_approval_for_the_session_holds_for_equal_calls(shop: Shop) -> None:
    standing = await shop.asked(amount=7)
    assert (await shop.approved(standing, scope="session")).json()["scope"] == "session"
    for amount, status in ((7, 200), (7, 200), (8, 202)):
        assert (await call(shop.caller, shop.session, "pay", to="bob", amount=amount)).status_code == status


@pytest.mark.spec("G17", "P49", "T7")
async def test_the_maker_of_a_key_and_its_holder_are_one(store: str) -> None:
    """Neither approves for the other, nor does who made the maker's key; two whose keys a third made are two."""
    admin = (*ALL_SCOPES, "capset:admin")
    async with site(till, store=store) as server, AsyncExitStack() as stack:
        await server.key("root", scopes=admin)
        for name, by in (("left", "root"), ("right", "root"), ("below", "left")):
            async with server.client(by) as maker:
                body = {"name": name, "principal": name, "scopes": list(admin)}
                server.keys[name] = (await maker.post("/v1/keys", json=body)).json()["key"]
        clients = {name: await stack.enter_async_context(server.client(name)) for name in server.keys}
        for name, others, approver in (
            ("root", ("left", "right", "below"), "ada"),
            ("left", ("root", "below"), "right"),
            ("below", ("left",), "right"),
            ("ada", (), "below"),
        ):
            request = await asked(clients[name], await make_session(clients[name], "till"))
            for other in others:
                refusal = problem(await approved(clients[other], request), 403, "permission_denied")
                assert "counts as its holder" in refusal["detail"]
                approval = (await clients[other].get(f"/v1/approvals/{request}")).json()
                assert (approval["status"], approval["decidable"]) == ("pending", False)
            assert (await approved(clients[approver], request)).status_code == 200


@pytest.mark.spec("G17", "P14", "T7")
async def test_who_sees_and_decides_requests(shop: Shop) -> None:
    twin = Principal("caller", kind="agent", org="acme")
    _, shop.site.keys["twin"] = await create_key(shop.site.kernel, "twin", twin, scopes=["capset:approve"])
    await shop.site.key("peer", scopes=["capset:call"])
    await shop.site.key("reader", scopes=["capset:read", "capset:audit"])
    await shop.site.key("chief", scopes=["capset:admin"])
    await shop.site.key("caller again", principal="caller", scopes=["capset:approve"])
    request, other = await shop.asked(), await shop.asked(amount=6)
    problem(await shop.caller.get("/v1/approvals"), 403, "permission_denied")
    assert await shop.listed(shop.caller, session=shop.session) == [other, request]
    problem(await approved(shop.caller, request), 403, "permission_denied")
    async with shop.site.client("peer") as peer, shop.site.client("reader") as reader:
        problem(await peer.get(f"/v1/approvals/{request}"), 404, "not_found")
        problem(await peer.get("/v1/approvals", params={"session": shop.session}), 404, "not_found")
        problem(await approved(peer, request), 403, "permission_denied")
        problem(await reader.get(f"/v1/approvals/{request}"), 403, "permission_denied")
    for name in ("caller again", "twin"):
        async with shop.site.client(name) as same:
            refusal = problem(await approved(same, request), 403, "permission_denied")
            assert "a principal other than the one who made it" in refusal["detail"]
    async with shop.site.client("twin") as agent, shop.site.client("chief") as chief:
        assert (await agent.post(f"/v1/approvals/{other}/reject", json={})).status_code == 200
        assert await shop.listed(chief, status="pending") == [request]
        assert (await approved(chief, request)).status_code == 200


@pytest.mark.spec("P14")
async def test_nothing_of_another_organisation_is_there(shop: Shop) -> None:
    await shop.site.key("eve", principal="boss", org="evil", scopes=["capset:admin"])
    request = await shop.asked()
    async with shop.site.client("eve") as eve:
        assert await shop.listed(eve) == await shop.listed(eve, session=shop.session) == []
        problem(await eve.get(f"/v1/approvals/{request}"), 404, "not_found")
        for answer in ("approve", "reject"):
            problem(await eve.post(f"/v1/approvals/{request}/{answer}", json={}), 404, "not_found")
        assert (await again(eve, await make_session(eve, "till"), request)).status_code == 409
    assert (await shop.seen(request))["status"] == "pending"


async def test_an_answer_needs_no_body(shop: Shop) -> None:
    for answer, status in (("approve", "approved"), ("reject", "rejected")):
        request = await shop.asked(amount=len(answer))
        done = await shop.boss.post(f"/v1/approvals/{request}/{answer}")
        assert (done.status_code, done.json()["status"], done.json()["scope"]) == (200, status, "once")
    path, as_json = f"/v1/approvals/{await shop.asked()}/approve", {"content-type": "application/json"}
    problem(await shop.boss.post(path, content="scope=session"), 415, "unsupported_media_type")
    problem(await shop.boss.post(path, content="null", headers=as_json), 422, "invalid_arguments")


@pytest.mark.spec("P12", "P15")
async def test_requests_are_filtered_and_paged(shop: Shop) -> None:
    sessions = [shop.session, await make_session(shop.caller, "till")]
    request_ids = [await asked(shop.caller, sessions[number % 2], amount=number) for number in range(5)]
    await shop.approved(request_ids[0])
    ids: list[str] = []
    params: dict[str, Any] = {"limit": 2}
    while params:
        page = (await shop.boss.get("/v1/approvals", params=params)).json()
        ids += [row["id"] for row in page["items"]]
        params = {"limit": 2, "cursor": page["next"]} if page["next"] else {}
    assert ids == request_ids[::-1]
    for filters, expected in (
        ({"status": "approved"}, request_ids[:1]),
        ({"status": "used"}, []),
        ({"session": sessions[1]}, [request_ids[3], request_ids[1]]),
        ({"session": sessions[0], "status": "pending"}, [request_ids[4], request_ids[2]]),
    ):
        assert await shop.listed(shop.boss, **filters) == expected, filters
    for wrong in ({"status": "open"}, {"limit": 0}, {"cursor": "x y"}, {"colour": "red"}, {"order": "best"}):
        problem(await shop.boss.get("/v1/approvals", params=wrong), 422, "invalid_arguments")


async def test_an_answer_that_does_not_fit_decides_nothing(shop: Shop) -> None:
    request = await shop.asked()
    wrongs: list[dict[str, Any]] = [
        {"scope": "ever"},
        {"arguments": [1]},
        {"note": "x" * 1_001},
        {"note": "a\0b"},
        {"scope": "session", "arguments": {"to": "eve"}},
        {"approved": True},
    ]
    for wrong in wrongs:
        problem(await shop.approved(request, **wrong), 422, "invalid_arguments")
    problem(await shop.boss.post(f"/v1/approvals/{request}/reject", json={"scope": "once"}), 422, "invalid_arguments")
    problem(await shop.approved("nowhere"), 404, "not_found")
    problem(await shop.boss.get("/v1/approvals/a%00b"), 404, "not_found")
    assert (await shop.seen(request))["status"] == "pending"
    body = {"tool": "pay", "arguments": {"to": "bob"}, "approval": 7}
    problem(await shop.caller.post(f"/v1/sessions/{shop.session}/calls", json=body), 422, "invalid_arguments")


@pytest.mark.spec("G18", "P9")
async def test_a_call_as_events_waits_for_its_approval(shop: Shop) -> None:
    reading = asyncio.ensure_future(events(shop.caller, shop.session, "pay", to="bob"))
    (request,) = await until(lambda: shop.listed(shop.boss), "an approval request")
    await shop.approved(request)
    (_, event), (name, result) = await reading
    assert (event["type"], event["data"]["id"]) == ("approval.requested", request)
    assert (name, result["data"]) == ("result", "bob has 5")


@pytest.mark.spec("P9", "G18")
async def test_that_a_call_was_accepted_is_not_kept_as_its_answer(shop: Shop) -> None:
    path, body = f"/v1/sessions/{shop.session}/calls", {"tool": "pay", "arguments": {"to": "bob"}}
    key = {"Idempotency-Key": "k-1"}
    first, second = [await shop.caller.post(path, json=body, headers=key) for _ in range(2)]
    assert (first.status_code, second.status_code) == (202, 202)
    assert "idempotent-replayed" not in second.headers
    request = first.json()["approval"]
    await shop.approved(request)
    done = [await shop.caller.post(path, json={**body, "approval": request}, headers=key) for _ in range(2)]
    assert [answer.status_code for answer in done] == [200, 200]
    assert done[0].json() == done[1].json()
    assert done[1].headers["idempotent-replayed"] == "true"


@pytest.mark.spec("G3", "G14", "G24")
async def test_a_limit_says_when_to_come_back_and_burns_no_approval() -> None:
    clock = FakeClock()
    async with open_shop(clock=clock) as shop:
        first, second = [await shop.asked(tool="donate", to=user) for user in ("bob", "eve")]
        for request in (first, second):
            await shop.approved(request)
        assert (await shop.again(first, tool="donate")).status_code == 200
        clock.advance(1.5)
        limited = await shop.again(second, tool="donate", to="eve")
        assert (limited.status_code, limited.headers["retry-after"]) == (429, "3599")
        assert limited.json()["error"]["retry_after"] == 3598.5
        assert (await shop.seen(second))["status"] == "approved"


@pytest.mark.spec("G17")
async def test_a_request_whose_time_is_up_is_decided_no_more() -> None:
    clock = FakeClock()
    async with open_shop(clock=clock) as shop:
        request = await shop.asked()
        clock.advance(3_600)
        problem(await shop.approved(request), 409, "conflict")
        assert await shop.listed(shop.boss, status="expired") == [request]
        problem(await shop.again(request), 403, "approval_expired")


@pytest.mark.spec("P12")
async def test_a_request_that_was_damaged_costs_no_other_its_decision(shop: Shop) -> None:
    first, last = await shop.asked(to="bob"), await shop.asked(to="eve")
    approvals = shop.site.kernel.store.approvals
    row = await approvals.get("acme", first)
    assert row is not None
    await approvals.open(replace(row, id="damaged", call="other", digest="0" * 64, arguments="{"), max_pending=9)
    requests = [{"id": request} for request in (first, "damaged", last)]
    response = await shop.boss.post("/v1/approvals/decisions", json={"answer": "reject", "requests": requests})
    outcomes = [(item.get("approval") or {}).get("status") for item in response.json()["items"]]
    assert outcomes == ["rejected", None, "rejected"]
    assert response.json()["items"][1]["error"]
