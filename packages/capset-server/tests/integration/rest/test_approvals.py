"""``/v1/approvals``, and calls that have to be approved (spec 4, G16–G18; spec 5, P9, P12)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path
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
from tests.helpers.server.approving import again, approved, asked, till
from tests.helpers.server.rest.calls import events
from tests.helpers.server.support import ALL_SCOPES, Site, call, make_session, problem, site
from tests.waiting import until


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Give the URL of a new database of each kind."""
    return request.getfixturevalue("postgres_url") if request.param == "postgres" else f"sqlite:///{tmp_path}/a.db"


@pytest.fixture
async def shop() -> AsyncGenerator[Site]:
    """Give a server with the till; ``boss`` of ``acme`` may approve, and ``caller`` calls and nothing else."""
    async with site(till) as server:
        await server.key("boss", scopes=["capset:approve"])
        await server.key("caller", scopes=["capset:call", "capset:write"])
        yield server


@pytest.fixture
async def boss(shop: Site) -> AsyncGenerator[httpx2.AsyncClient]:
    async with shop.client("boss") as client:
        yield client


@pytest.fixture
async def caller(shop: Site) -> AsyncGenerator[httpx2.AsyncClient]:
    async with shop.client("caller") as client:
        yield client


@pytest.mark.spec("G18", "P9", "P12")
async def test_a_call_is_accepted_approved_and_made_again(
    shop: Site, caller: httpx2.AsyncClient, boss: httpx2.AsyncClient
) -> None:
    session = await make_session(caller, "till")
    first = await call(caller, session, "pay", to="bob")
    assert first.status_code == 202
    shape = CallShape.model_validate(first.json())
    assert (shape.success, shape.refused) == (False, True)
    assert shape.error is not None
    assert (shape.error.code, shape.error.approval) == ("approval_required", shape.approval)
    assert first.headers["location"] == f"/v1/approvals/{shape.approval}"
    assert shape.plain() == first.json()
    request = ApprovalShape.model_validate((await caller.get(first.headers["location"])).json())
    assert (request.status, request.tool, request.arguments) == ("pending", "pay", {"to": "bob", "amount": 5})
    assert (request.principal, request.session, request.call) == ("user:caller", session, shape.record)
    code = code_of(next(candidate for candidate in till.every_tool if candidate.name == "pay"))
    assert (request.code_hash, request.code) == (code.hash, code_shape(code))
    assert code.hash is not None
    covered = await caller.get(f"/v1/fingerprints/{request.code_hash}")
    assert covered.status_code == 403, "a key that only calls reads no fingerprints"
    early = await again(caller, session, request.id)
    assert (early.status_code, early.json()["approval"]) == (202, request.id)
    done = await approved(boss, request.id, note="only this once")
    assert (done.status_code, done.json()["status"], done.json()["decided_by"]) == (200, "approved", "user:boss")
    passed = await again(caller, session, request.id)
    assert (passed.status_code, passed.json()["data"]) == (200, "bob has 5")
    second = await again(caller, session, request.id)
    assert (second.status_code, second.json()["error"]["code"]) == (409, "approval_void")
    CallProblem.model_validate(second.json())
    approval = (await caller.get(f"/v1/approvals/{request.id}")).json()
    assert (approval["status"], approval["note"]) == ("used", "only this once")
    records = await shop.records(session=session)
    assert [record.outcome for record in records] == ["denied", "denied", "succeeded", "rejected"]
    assert {record.approval for record in records} == {request.id}


@pytest.mark.spec("G17")
async def test_an_approval_is_for_these_arguments(caller: httpx2.AsyncClient, boss: httpx2.AsyncClient) -> None:
    session = await make_session(caller, "till")
    request = await asked(caller, session)
    await approved(boss, request)
    changed = await again(caller, session, request, amount=500)
    assert (changed.status_code, changed.json()["error"]["code"]) == (409, "approval_void")
    assert (await again(caller, session, request)).status_code == 200


@pytest.mark.spec("G17", "F1")
async def test_large_numbers_are_shown_as_they_were_given_and_can_be_sent_back(
    caller: httpx2.AsyncClient, boss: httpx2.AsyncClient
) -> None:
    session = await make_session(caller, "till")
    request = await asked(caller, session, amount=2**60)
    arguments = (await boss.get(f"/v1/approvals/{request}")).json()["arguments"]
    assert arguments == {"to": "bob", "amount": 2**60}
    done = await approved(boss, request, arguments=arguments | {"amount": 2**60 + 1})
    assert (done.status_code, done.json()["modified"]) == (200, {"to": "bob", "amount": 2**60 + 1})
    assert (await again(caller, session, request, amount=2**60)).json()["data"] == f"bob has {2**60 + 1}"


@pytest.mark.spec("G17")
async def test_a_rejection_is_read_by_whoever_called(caller: httpx2.AsyncClient, boss: httpx2.AsyncClient) -> None:
    session = await make_session(caller, "till")
    request = await asked(caller, session)
    done = await boss.post(f"/v1/approvals/{request}/reject", json={"note": "not today"})
    assert done.json()["status"] == "rejected"
    refused = await again(caller, session, request)
    assert refused.status_code == 403
    assert refused.json()["error"]["code"] == "approval_rejected"
    assert "not today" in refused.json()["error"]["message"]
    problem(await approved(boss, request), 409, "conflict")


@pytest.mark.spec("G17")
async def test_other_arguments_and_an_approval_for_the_session(
    caller: httpx2.AsyncClient, boss: httpx2.AsyncClient
) -> None:
    session = await make_session(caller, "till")
    request = await asked(caller, session)
    done = await approved(boss, request, arguments={"to": "bob", "amount": 4})
    assert done.json()["modified"] == {"to": "bob", "amount": 4}
    assert (await again(caller, session, request)).json()["data"] == "bob has 4"
    wrong = await asked(caller, session)
    problem(await approved(boss, wrong, arguments={"to": "bob", "amount": "many"}), 422, "invalid_arguments")
    assert (await boss.get(f"/v1/approvals/{wrong}")).json()["status"] == "pending"
    standing = await asked(caller, session, amount=7)
    assert (await approved(boss, standing, scope="session")).json()["scope"] == "session"
    for _ in range(2):
        assert (await call(caller, session, "pay", to="bob", amount=7)).status_code == 200
    assert (await call(caller, session, "pay", to="bob", amount=8)).status_code == 202


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
        for name, others in (("root", ("left", "right", "below")), ("left", ("root", "below")), ("below", ("left",))):
            asker = clients[name]
            request = await asked(asker, await make_session(asker, "till"))
            for other in others:
                refusal = problem(await approved(clients[other], request), 403, "permission_denied")
                assert "who made a key, or entered a person, counts as its holder" in refusal["detail"]
                approval = (await clients[other].get(f"/v1/approvals/{request}")).json()
                assert (approval["status"], approval["decidable"]) == ("pending", False)
            approver = "ada" if name == "root" else "right"
            assert (await approved(clients[approver], request)).status_code == 200
        request = await asked(clients["ada"], await make_session(clients["ada"], "till"))
        assert (await approved(clients["below"], request)).status_code == 200


@pytest.mark.spec("G17", "T7")
async def test_an_agent_of_ones_own_name_is_no_other_principal(shop: Site, caller: httpx2.AsyncClient) -> None:
    twin = Principal("caller", kind="agent", org="acme")
    _, shop.keys["twin"] = await create_key(shop.kernel, "twin", twin, scopes=["capset:approve"])
    request = await asked(caller, await make_session(caller, "till"))
    async with shop.client("twin") as agent:
        refusal = problem(await approved(agent, request), 403, "permission_denied")
        assert "another principal than the one who made it" in refusal["detail"]
        assert (await agent.post(f"/v1/approvals/{request}/reject", json={})).status_code == 200


@pytest.mark.spec("G17", "P14")
async def test_who_sees_and_decides_requests(shop: Site, caller: httpx2.AsyncClient, boss: httpx2.AsyncClient) -> None:
    await shop.key("peer", scopes=["capset:call"])
    await shop.key("reader", scopes=["capset:read", "capset:audit"])
    await shop.key("chief", scopes=["capset:admin"])
    await shop.key("caller again", principal="caller", scopes=["capset:approve"])
    session = await make_session(caller, "till")
    request = await asked(caller, session)
    problem(await caller.get("/v1/approvals"), 403, "permission_denied")
    own_requests = (await caller.get("/v1/approvals", params={"session": session})).json()["items"]
    assert [row["id"] for row in own_requests] == [request]
    problem(await approved(caller, request), 403, "permission_denied")
    async with shop.client("peer") as peer, shop.client("reader") as reader:
        problem(await peer.get(f"/v1/approvals/{request}"), 404, "not_found")
        problem(await peer.get("/v1/approvals", params={"session": session}), 404, "not_found")
        problem(await approved(peer, request), 403, "permission_denied")
        problem(await reader.get(f"/v1/approvals/{request}"), 403, "permission_denied")
    async with shop.client("caller again") as same:
        refusal = problem(await approved(same, request), 403, "permission_denied")
        assert (
            refusal["detail"]
            == "Permission denied: a request is approved by another principal than the one who made it."
        )
    async with shop.client("chief") as chief:
        assert [row["id"] for row in (await chief.get("/v1/approvals")).json()["items"]] == [request]
        assert (await approved(chief, request)).status_code == 200


@pytest.mark.spec("P14")
async def test_nothing_of_another_organisation_is_there(shop: Site, caller: httpx2.AsyncClient) -> None:
    await shop.key("eve", principal="boss", org="evil", scopes=["capset:admin"])
    session = await make_session(caller, "till")
    request = await asked(caller, session)
    async with shop.client("eve") as eve:
        assert (await eve.get("/v1/approvals")).json()["items"] == []
        assert (await eve.get("/v1/approvals", params={"session": session})).json()["items"] == []
        problem(await eve.get(f"/v1/approvals/{request}"), 404, "not_found")
        problem(await approved(eve, request), 404, "not_found")
        problem(await eve.post(f"/v1/approvals/{request}/reject", json={}), 404, "not_found")
        theirs = await make_session(eve, "till")
        assert (await again(eve, theirs, request)).status_code == 409
    assert (await caller.get(f"/v1/approvals/{request}")).json()["status"] == "pending"


async def test_an_answer_needs_no_body(caller: httpx2.AsyncClient, boss: httpx2.AsyncClient) -> None:
    session = await make_session(caller, "till")
    for answer, status in (("approve", "approved"), ("reject", "rejected")):
        request = await asked(caller, session, amount=len(answer))
        done = await boss.post(f"/v1/approvals/{request}/{answer}")
        assert (done.status_code, done.json()["status"], done.json()["scope"]) == (200, status, "once")
    request = await asked(caller, session)
    path = f"/v1/approvals/{request}/approve"
    problem(await boss.post(path, content="scope=session"), 415, "unsupported_media_type")
    problem(
        await boss.post(path, content="null", headers={"content-type": "application/json"}), 422, "invalid_arguments"
    )


@pytest.mark.spec("P12", "P15")
async def test_requests_are_filtered_and_paged(caller: httpx2.AsyncClient, boss: httpx2.AsyncClient) -> None:
    sessions = [await make_session(caller, "till") for _ in range(2)]
    request_ids = [await asked(caller, sessions[number % 2], amount=number) for number in range(5)]
    await approved(boss, request_ids[0])
    ids: list[str] = []
    cursor: dict[str, Any] = {}
    while True:
        page = (await boss.get("/v1/approvals", params={"limit": 2, **cursor})).json()
        ids += [row["id"] for row in page["items"]]
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}
    assert ids == request_ids[::-1]
    for filters, expected in (
        ({"status": "approved"}, request_ids[:1]),
        ({"status": "used"}, []),
        ({"session": sessions[1]}, [request_ids[3], request_ids[1]]),
        ({"session": sessions[0], "status": "pending"}, [request_ids[4], request_ids[2]]),
    ):
        page = (await boss.get("/v1/approvals", params=filters)).json()
        assert [row["id"] for row in page["items"]] == expected, filters
    for wrong in ({"status": "open"}, {"limit": 0}, {"cursor": "x y"}, {"colour": "red"}, {"order": "best"}):
        problem(await boss.get("/v1/approvals", params=wrong), 422, "invalid_arguments")


async def test_what_is_no_answer(caller: httpx2.AsyncClient, boss: httpx2.AsyncClient) -> None:
    session = await make_session(caller, "till")
    request = await asked(caller, session)
    wrongs: list[dict[str, Any]] = [
        {"scope": "ever"},
        {"arguments": [1]},
        {"note": "x" * 1_001},
        {"note": "a\0b"},
        {"scope": "session", "arguments": {"to": "eve"}},
        {"approved": True},
    ]
    for wrong in wrongs:
        problem(await approved(boss, request, **wrong), 422, "invalid_arguments")
    problem(await boss.post(f"/v1/approvals/{request}/reject", json={"scope": "once"}), 422, "invalid_arguments")
    problem(await approved(boss, "nowhere"), 404, "not_found")
    problem(await boss.get("/v1/approvals/a%00b"), 404, "not_found")
    assert (await caller.get(f"/v1/approvals/{request}")).json()["status"] == "pending"
    body = {"tool": "pay", "arguments": {"to": "bob"}, "approval": 7}
    problem(await caller.post(f"/v1/sessions/{session}/calls", json=body), 422, "invalid_arguments")


@pytest.mark.spec("G18", "P9")
async def test_as_events_a_call_waits(caller: httpx2.AsyncClient, boss: httpx2.AsyncClient) -> None:
    session = await make_session(caller, "till")
    reading = asyncio.ensure_future(events(caller, session, "pay", to="bob"))

    async def requests() -> list[dict[str, Any]]:
        return (await boss.get("/v1/approvals")).json()["items"]

    (request,) = await until(requests, "a request for an approval")
    await approved(boss, request["id"])
    (_, event), (name, result) = await reading
    assert (event["type"], event["data"]["id"]) == ("approval.requested", request["id"])
    assert (name, result["data"]) == ("result", "bob has 5")


@pytest.mark.spec("P9", "G18")
async def test_that_it_was_accepted_is_not_kept_as_an_answer(
    caller: httpx2.AsyncClient, boss: httpx2.AsyncClient
) -> None:
    session = await make_session(caller, "till")
    path, body = f"/v1/sessions/{session}/calls", {"tool": "pay", "arguments": {"to": "bob"}}
    key = {"Idempotency-Key": "k-1"}
    first = await caller.post(path, json=body, headers=key)
    second = await caller.post(path, json=body, headers=key)
    assert (first.status_code, second.status_code) == (202, 202)
    assert "idempotent-replayed" not in second.headers
    request = first.json()["approval"]
    await approved(boss, request)
    done = [await caller.post(path, json={**body, "approval": request}, headers=key) for _ in range(2)]
    assert [answer.status_code for answer in done] == [200, 200]
    assert done[0].json() == done[1].json()
    assert done[1].headers["idempotent-replayed"] == "true"


@pytest.mark.spec("G3", "G14", "G24")
async def test_a_limit_says_when_to_come_back_and_burns_no_approval() -> None:
    clock = FakeClock()
    async with site(till, clock=clock) as server:
        await server.key("boss", scopes=["capset:approve"])
        async with server.client() as ada, server.client("boss") as boss:
            session = await make_session(ada, "till")
            first, second = [await asked(ada, session, "donate", to=user) for user in ("bob", "eve")]
            for request in (first, second):
                await approved(boss, request)
            assert (await again(ada, session, first, "donate")).status_code == 200
            clock.advance(1.5)
            limited = await again(ada, session, second, "donate", to="eve")
            assert limited.status_code == 429
            assert limited.headers["retry-after"] == "3599"
            assert limited.json()["error"]["retry_after"] == 3598.5
            approval = (await boss.get(f"/v1/approvals/{second}")).json()
            assert approval["status"] == "approved"


@pytest.mark.spec("G17")
async def test_whose_time_is_up_is_decided_no_more() -> None:
    clock = FakeClock()
    async with site(till, clock=clock) as server, server.client() as ada:
        await server.key("boss", scopes=["capset:approve"])
        session = await make_session(ada, "till")
        request = await asked(ada, session)
        clock.advance(3_600)
        async with server.client("boss") as boss:
            problem(await approved(boss, request), 409, "conflict")
            assert (await boss.get("/v1/approvals", params={"status": "expired"})).json()["items"][0]["id"] == request
        late = await again(ada, session, request)
        assert (late.status_code, late.json()["error"]["code"]) == (403, "approval_expired")
