"""Clients that show forms or pages are asked about an approval by a result (spec 7, M20)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from mcp_types import INVALID_PARAMS

from capset import Agent, Capability, Principal, tool
from capset.definitions.governance.approvers import ApproverRule
from capset.definitions.governance.settings import Governance
from capset.ext import Answer
from capset_server.mcp import approvals
from tests.helpers.server.mcp.support import PREFIX
from tests.helpers.server.mcp.tasking import TASKS, Tasker
from tests.helpers.server.support import Site, site
from tests.waiting import moment

PUBLIC = "https://tools.example.com/capset"
BOSS = Principal("boss", org="acme")
FORMS: dict[str, Any] = {"elicitation": {}}
PAGES: dict[str, Any] = {"elicitation": {"url": {}}}
BOTH: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "extensions": {TASKS: {}}}
KEY = "capset/approval"
paid: list[str] = []


@tool(effect="write", approval="ask")
async def pay(to: str) -> str:
    """Pay somebody."""
    paid.append(to)
    return f"{to} is paid"


@tool(effect="read")
async def greet(name: str) -> str:
    """Greet."""
    return f"Hello {name}"


teller = Agent("teller", uses=[Capability("desk", tools=[pay, greet])])


@pytest.fixture(autouse=True)
def nobody_is_paid() -> None:
    paid.clear()


@pytest.fixture(scope="module")
async def office() -> AsyncGenerator[Site]:
    """Give a server with a public address, where nobody approves what is their own."""
    async with site(agents=[teller], public_url=PUBLIC) as server:
        yield server


@pytest.fixture(scope="module")
async def home() -> AsyncGenerator[Site]:
    """Give a server whose people may approve what they asked for; ``child`` has no scope for that."""
    async with site(agents=[teller], public_url=PUBLIC, governance=Governance(own_approvals=True)) as server:
        await server.key("child", principal="ada", scopes=["capset:call"])
        yield server


def caller(server: Site, capabilities: dict[str, Any], key: str = "ada") -> Tasker:
    return Tasker(f"{server.url}/mcp/agents/teller", server.keys[key], capabilities)


def question(result: dict[str, Any]) -> dict[str, Any]:
    assert result["resultType"] == "input_required", result
    (key,) = result["inputRequests"]
    assert key == KEY
    request = result["inputRequests"][key]
    assert request["method"] == "elicitation/create"
    return request["params"]


def answered(result: dict[str, Any], action: str = "accept", **content: Any) -> dict[str, Any]:
    answer = {"action": action, **({"content": content} if content else {})}
    return {"inputResponses": {KEY: answer}, "requestState": result["requestState"]}


def approval_of(result: dict[str, Any]) -> str:
    return result["_meta"][f"{PREFIX}approval"]


@pytest.mark.spec("M20")
async def test_a_client_is_led_to_the_page_and_goes_on_when_it_is_decided(office: Site) -> None:
    ada = caller(office, PAGES)
    first = await ada.call("pay", to="bob")
    params = question(first)
    assert (params["mode"], params["url"]) == ("url", f"{PUBLIC}/approve/{approval_of(first)}")
    assert "has to be approved" in params["message"]
    assert "capset_" not in params["message"]
    waiting = asyncio.create_task(ada.call("pay", more=answered(first), to="bob"))
    await moment(0.05)
    assert not waiting.done()
    await office.kernel.approvals.decide(approval_of(first), Answer(approved=True), by=BOSS)
    assert (await waiting)["content"][0]["text"] == "bob is paid"
    assert paid == ["bob"]


@pytest.mark.spec("M20")
async def test_a_page_that_nobody_decides_on_is_told_in_words(office: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approvals, "DECIDED_SECONDS", 0.05)
    ada = caller(office, PAGES)
    first = await ada.call("pay", to="carol")
    for action in ("accept", "decline", "cancel"):
        refused = await ada.call("pay", more=answered(first, action), to="carol")
        assert refused["isError"] is True
        url = f"{PUBLIC}/approve/{approval_of(first)}"
        assert f"It is decided at {url}" in refused["content"][0]["text"]
        assert refused["_meta"][f"{PREFIX}approval_url"] == url
    assert paid == []


@pytest.mark.spec("M19", "M20")
async def test_a_client_with_tasks_gets_one_after_the_page(office: Site) -> None:
    ada = caller(office, BOTH)
    first = await ada.call("pay", to="dave")
    assert question(first)["mode"] == "url", "nobody approves what is their own"
    for action in ("accept", "decline"):
        task = await ada.call("pay", more=answered(first, action), to="dave")
        assert task["resultType"] == "task"
        assert f"{PUBLIC}/approve/" in task["statusMessage"]
        assert task["_meta"][f"{PREFIX}approval_url"] == f"{PUBLIC}/approve/{approval_of(first)}"


@pytest.mark.spec("M20")
async def test_the_state_is_for_one_request_and_one_caller(office: Site) -> None:
    ada, other = caller(office, PAGES), await _stranger(office)
    first = await ada.call("pay", to="erin")
    for tasker, to in ((ada, "frank"), (other, "erin")):
        more = {**answered(first), "name": "pay", "arguments": {"to": to}}
        assert await tasker.refused("tools/call", more) == INVALID_PARAMS
    await office.kernel.approvals.decide(approval_of(first), Answer(approved=False), by=BOSS)
    assert "rejected" in (await ada.call("pay", more=answered(first), to="erin"))["content"][0]["text"]
    assert paid == []


async def _stranger(server: Site) -> Tasker:
    await server.key("bob", scopes=["capset:call"])
    return caller(server, PAGES, "bob")


@pytest.mark.spec("M20")
@pytest.mark.parametrize("capabilities", [{}, FORMS, {"elicitation": {"form": {}}}])
async def test_other_clients_read_where_the_page_is(office: Site, capabilities: dict[str, Any]) -> None:
    refused = await caller(office, capabilities).call("pay", to="grace")
    assert refused["isError"] is True
    assert f"It is decided at {PUBLIC}/approve/" in refused["content"][0]["text"]
    assert (await caller(office, capabilities).call("greet", name="bob"))["isError"] is False


@pytest.mark.spec("M20")
async def test_those_who_may_approve_their_own_calls_get_a_form(home: Site) -> None:
    ada = caller(home, BOTH)
    first = await ada.call("pay", to="bob")
    params = question(first)
    assert params.get("mode", "form") == "form"
    assert '"to": "bob"' in params["message"]
    assert params["requestedSchema"]["properties"]["decision"]["enum"] == ["approve", "reject"]
    assert params["requestedSchema"]["required"] == ["decision"]
    repeated = await ada.call("pay", more=answered(first, decision="perhaps"), to="bob")
    assert question(repeated) == params, "what does not fit is asked for again"
    done = await ada.call("pay", more=answered(repeated, decision="approve", note="fine"), to="bob")
    assert done["content"][0]["text"] == "bob is paid"
    approval = await home.kernel.approvals.get(approval_of(first), org="acme")
    assert (approval.status, approval.decided_by, approval.note) == ("used", "user:ada", "fine")
    replayed = await ada.call("pay", more=answered(repeated, decision="approve"), to="bob")
    question(replayed)
    assert approval_of(replayed) != approval_of(first), "an answer is for one request"
    assert paid == ["bob"]


@pytest.mark.spec("M20")
async def test_a_form_rejects_or_leaves_it_to_others(home: Site) -> None:
    ada = caller(home, FORMS)
    first = await ada.call("pay", to="carol")
    refused = await ada.call("pay", more=answered(first, decision="reject", note="no"), to="carol")
    assert "rejected by user:ada: no" in refused["content"][0]["text"]
    second = await ada.call("pay", to="dave")
    declined = await ada.call("pay", more=answered(second, "decline"), to="dave")
    assert "make the same call again" in declined["content"][0]["text"]
    assert (await home.kernel.approvals.get(approval_of(second), org="acme")).status == "pending"
    assert paid == []


@pytest.mark.spec("M20")
async def test_a_key_without_the_scope_gets_no_form(home: Site) -> None:
    child = caller(home, BOTH, "child")
    assert question(await child.call("pay", to="erin"))["mode"] == "url"
    assert (await caller(home, FORMS, "child").call("pay", to="erin"))["isError"] is True
    form = await caller(home, FORMS).call("pay", to="erin")
    stolen = {**answered(form, decision="approve"), "name": "pay", "arguments": {"to": "erin"}}
    assert await caller(home, FORMS, "child").refused("tools/call", stolen) == INVALID_PARAMS
    assert paid == []


@pytest.mark.spec("M20")
async def test_nobody_decides_on_what_is_cut_or_hidden(home: Site) -> None:
    ada = caller(home, FORMS)
    assert (await ada.call("pay", to="x" * 5_000))["isError"] is True
    hidden = question(await ada.call("pay", to="bob\u202egnp"))["message"]
    assert "\u202e" not in hidden
    assert "\\u{202e}" in hidden


@pytest.mark.spec("M20", "G51", "T49")
async def test_what_is_masked_is_decided_on_the_page_and_not_in_a_form(home: Site) -> None:
    secret = "https://ok/?token=x"
    assert (await caller(home, FORMS).call("pay", to=secret))["isError"] is True
    assert question(await caller(home, BOTH).call("pay", to=secret))["mode"] == "url"
    assert paid == []


@pytest.mark.spec("M16", "M19", "M20")
@pytest.mark.parametrize("capabilities", [{}, PAGES, {"extensions": {TASKS: {}}}])
async def test_ordinary_calls_are_answered_as_by_the_sdk(office: Site, capabilities: dict[str, Any]) -> None:
    ada = caller(office, capabilities)
    fast, by_sdk = await ada.call("pay", to="heidi"), await ada.call("pay", more={"unknown": 1}, to="heidi")
    for answer in (fast, by_sdk):
        answer.pop("requestState", None)
        for name in ("record", "correlation"):
            answer["_meta"].pop(f"{PREFIX}{name}")
        answer["_meta"].pop(f"{PREFIX}error", None)
        for block in answer.get("content", []):
            block["text"] = block["text"].partition("correlation")[0]
    assert fast == by_sdk


@pytest.mark.spec("M20", "G46", "G48")
async def test_rules_for_approvers_hold_where_people_may_approve_their_own() -> None:
    """Who may not approve it by a rule is led to the page; and with others needed, one's own is not enough."""
    forbidden, permitted, two = ApproverRule(forbid_own=True), ApproverRule(permission="a:b"), ApproverRule(approvals=2)
    both = {**FORMS, "elicitation": {"form": {}, "url": {}}}
    for rule, mode in ((forbidden, "url"), (permitted, "url"), (two, "form")):
        governance = Governance(own_approvals=True, approvers=[rule])
        async with site(agents=[teller], public_url=PUBLIC, governance=governance) as server:
            ada = caller(server, both)
            first = await ada.call("pay", to="bob")
            assert question(first)["mode"] == mode
            if mode == "form":
                half = await ada.call("pay", more=answered(first, decision="approve"), to="bob")
                assert half["isError"] is True
                assert "It needs two different approvers." in half["content"][0]["text"]
                await server.kernel.approvals.decide(approval_of(first), Answer(approved=True), by=BOSS)
                assert (await ada.call("pay", to="bob"))["content"][0]["text"] == "bob is paid"


@pytest.mark.spec("G48")
async def test_a_form_is_for_the_arguments_that_it_has_shown() -> None:
    governance = Governance(own_approvals=True, approvers=[ApproverRule(approvals=2)])
    async with site(agents=[teller], public_url=PUBLIC, governance=governance) as server:
        ada = caller(server, {"elicitation": {"form": {}, "url": {}}})
        first = await ada.call("pay", to="bob")
        changed = Answer(approved=True, arguments={"to": "eve"})
        await server.kernel.approvals.decide(approval_of(first), changed, by=BOSS)
        led = await ada.call("pay", more=answered(first, decision="approve"), to="bob")
        assert (question(led)["mode"], paid) == ("url", [])
        row = await server.kernel.approvals.get(approval_of(first), org="acme")
        assert (row.status, row.modified) == ("pending", '{"to":"eve"}')
