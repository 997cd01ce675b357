"""Calls that wait for an approval are tasks, for clients that know them (spec 7, M19)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp_types import HEADER_MISMATCH, INVALID_PARAMS, METHOD_NOT_FOUND, MISSING_REQUIRED_CLIENT_CAPABILITY
from pydantic import BaseModel

from capset import Agent, Capability, Context, Principal, tool
from capset.definitions.governance import Governance
from capset.ext import Answer
from capset.kernel import kernel
from capset.server.mcp import tasks
from capset.stores.base import ApprovalQuery
from capset.testing import FakeClock
from tests.server.mcp import support
from tests.server.mcp.support import PREFIX, bench, until
from tests.server.mcp.tasking import TASKS, Tasker, data_of, text_in
from tests.server.support import Site, site

BOSS = Principal("boss", org="acme")
YES = Answer(approved=True)
done: list[Any] = []
gate = asyncio.Event()


class Sure(BaseModel):
    sure: bool


@tool(effect="write", approval="ask")
async def pay(to: str, amount: int = 5) -> str:
    """Pay somebody."""
    done.append((to, amount))
    return f"{to} has {amount}"


@tool(effect="write", approval="ask")
async def login(name: str, password: str) -> str:
    """Log in."""
    done.append((name, password))
    return name


@tool(effect="write", approval="ask")
async def slow(to: str) -> str:
    """Pay slowly."""
    done.append(("started", to))
    await gate.wait()
    done.append(("ended", to))
    return f"{to} is paid"


@tool(effect="write", approval="ask")
async def large(size: int) -> str:
    """Say a lot."""
    return "x" * size


@tool(effect="write", approval="ask", limits="1/1h")
async def seldom(to: str) -> str:
    """Pay once an hour."""
    return to


@tool(effect="write", approval="ask")
async def asks(ctx: Context) -> str:
    """Ask."""
    return (await ctx.ask_client("sure", "Sure?", Sure)).action


@tool(effect="read")
async def relay(ctx: Context, to: str) -> str:
    """Pay by way of another tool."""
    return await ctx.call(pay, to=to)


teller = Agent("teller", uses=[Capability("desk", tools=[pay, login, slow, large, seldom, asks, relay])])


@pytest.fixture(autouse=True)
def nothing_is_done() -> None:
    done.clear()
    gate.clear()


@asynccontextmanager
async def bank(**options: Any) -> AsyncGenerator[Site]:
    """Serve the teller to ``ada`` and ``bob`` of ``acme``, and to ``spy`` of another organisation."""
    async with site(agents=[teller], **options) as here:
        for name, org in (("bob", "acme"), ("spy", "other")):
            await here.key(name, org=org, scopes=["capset:call"])
        yield here


@pytest.fixture(scope="module")
async def shared() -> AsyncGenerator[Site]:
    async with bank() as found:
        yield found


@pytest.fixture
async def ada(shared: Site) -> Tasker:
    """Give a caller whose session is this test's own."""
    return await caller(shared)


async def caller(here: Site, who: str = "ada", *, own: bool = True, **options: Any) -> Tasker:
    """Return a caller of the server; with a session of ``own``, or the one with the agent."""
    url = f"{here.url}/mcp/agents/teller"
    if own:
        async with here.client(who) as client:
            made = await client.post("/v1/sessions", json={"agent_id": "teller"})
            assert made.status_code == 201, made.text
            url = f"{here.url}/mcp/sessions/{made.json()['id']}"
    return Tasker(url, here.keys[who], **options)


def approval_of(task: dict[str, Any]) -> str:
    return task["taskId"].partition(".")[0]


async def decide(here: Site, task: dict[str, Any], answer: Answer = YES) -> None:
    await here.kernel.approvals.decide(approval_of(task), answer, by=BOSS)


@pytest.mark.spec("M19")
async def test_a_call_waits_is_approved_and_goes_on_once(shared: Site, ada: Tasker) -> None:
    task = await ada.task("pay", to="bob")
    assert task["status"] == "working"
    assert "waits for an approval" in task["statusMessage"]
    assert task["pollIntervalMs"] == tasks.POLL_MS
    assert task["ttlMs"] == 3_600_000
    assert task["_meta"][f"{PREFIX}approval"] == approval_of(task)
    for unwanted in ("result", "error", "inputRequests", "task"):
        assert unwanted not in task
    early = await ada.get(task["taskId"])
    assert (early["resultType"], early["status"], early["taskId"]) == ("complete", "working", task["taskId"])
    assert done == []
    await decide(shared, task)
    assert done == [], "it goes on when its caller comes, whose rights are looked at again"
    for _ in range(3):
        found = await ada.get(task["taskId"])
        assert text_in(found) == "bob has 5"
        assert found["resultType"] == "complete"
        assert found["result"]["structuredContent"] == {"result": "bob has 5"}
        assert found["result"]["isError"] is False
        assert found["ttlMs"] > 23 * 3_600_000
    assert done == [("bob", 5)]
    kept = await shared.kernel.approvals.get(approval_of(task), org="acme")
    assert kept.status == "used"
    records = await shared.records(approval=approval_of(task))
    assert [one.outcome for one in records] == ["denied", "succeeded"]
    assert records[1].correlation == approval_of(task)
    assert found["result"]["_meta"][f"{PREFIX}record"] == records[1].id
    another = await ada.task("pay", to="bob")
    assert another["taskId"] != task["taskId"]


@pytest.mark.spec("M19")
async def test_equal_calls_are_one_task(shared: Site, ada: Tasker) -> None:
    first, second = await ada.task("pay", to="bob"), await ada.task("pay", to="bob", amount=5)
    assert first["taskId"] == second["taskId"]
    await decide(shared, first)
    found = await asyncio.gather(*(ada.get(first["taskId"]) for _ in range(10)))
    assert {text_in(one) for one in found} == {"bob has 5"}
    assert done == [("bob", 5)]


@pytest.mark.spec("M19")
async def test_what_was_rejected_is_the_result(shared: Site, ada: Tasker) -> None:
    task = await ada.task("pay", to="eve")
    await decide(shared, task, Answer(approved=False, note="not her"))
    for _ in range(2):
        found = await ada.get(task["taskId"])
        assert "rejected by user:boss: not her" in text_in(found)
        assert found["result"]["isError"] is True
        assert found["result"]["_meta"][f"{PREFIX}error"]["code"] == "approval_rejected"
    assert done == []
    records = await shared.records(approval=approval_of(task))
    assert [one.outcome for one in records] == ["denied", "rejected"]


@pytest.mark.spec("M19")
async def test_an_approver_may_change_the_arguments(shared: Site, ada: Tasker) -> None:
    task = await ada.task("pay", to="bob", amount=500)
    await decide(shared, task, Answer(approved=True, arguments={"to": "bob", "amount": 50}))
    assert text_in(await ada.get(task["taskId"])) == "bob has 50"
    assert done == [("bob", 50)]


@pytest.mark.spec("M19")
async def test_an_approval_for_the_session_lets_a_task_go_on_once(shared: Site, ada: Tasker) -> None:
    task = await ada.task("pay", to="bob")
    await decide(shared, task, Answer(approved=True, scope="session"))
    for _ in range(2):
        assert text_in(await ada.get(task["taskId"])) == "bob has 5"
    assert done == [("bob", 5)]
    await ada.cancel(task["taskId"])
    assert (await ada.call("pay", to="bob"))["content"][0]["text"] == "bob has 5", "which goes on without a task"


@pytest.mark.spec("M19")
async def test_the_same_call_may_use_the_approval_instead(shared: Site, ada: Tasker) -> None:
    task = await ada.task("pay", to="bob")
    await decide(shared, task)
    assert (await ada.call("pay", to="bob"))["content"][0]["text"] == "bob has 5"
    assert "it was used already" in text_in(await ada.get(task["taskId"]))
    assert done == [("bob", 5)]


@pytest.mark.spec("M19")
async def test_a_task_expires_and_is_forgotten() -> None:
    clock = FakeClock()
    async with bank(clock=clock) as here:
        ada = await caller(here)
        late, kept = await ada.task("pay", to="bob"), await ada.task("pay", to="eve")
        await decide(here, kept, Answer(approved=True, scope="session"))
        assert text_in(await ada.get(kept["taskId"])) == "eve has 5"
        clock.advance(3_601)
        found = await ada.get(late["taskId"])
        assert found["result"]["_meta"][f"{PREFIX}error"]["code"] == "approval_expired"
        clock.advance(23 * 3_600)
        for task in (late, kept):
            assert await ada.refused("tasks/get", {"taskId": task["taskId"]}) == INVALID_PARAMS
        assert done == [("eve", 5)]


@pytest.mark.spec("M19")
async def test_a_long_approval_lets_nothing_go_on_twice() -> None:
    """Not even after the outcome has been forgotten."""
    clock = FakeClock()
    async with bank(clock=clock, governance=Governance(approval_seconds=7 * 86_400)) as here:
        ada = await caller(here)
        task = await ada.task("pay", to="bob")
        clock.advance(3 * 86_400)
        await decide(here, task, Answer(approved=True, scope="session"))
        assert text_in(await ada.get(task["taskId"])) == "bob has 5"
        clock.advance(86_400)
        assert await ada.refused("tasks/get", {"taskId": task["taskId"]}) == INVALID_PARAMS
        assert done == [("bob", 5)]


@pytest.mark.spec("M19")
async def test_a_waiting_task_is_cancelled(shared: Site, ada: Tasker) -> None:
    task = await ada.task("pay", to="bob")
    assert await ada.cancel(task["taskId"]) == {
        "resultType": "complete",
        "_meta": task_meta(await ada.cancel(task["taskId"])),
    }
    found = await ada.get(task["taskId"])
    assert (found["status"], "result" in found) == ("cancelled", False)
    kept = await shared.kernel.approvals.get(approval_of(task), org="acme")
    assert (kept.status, kept.note, kept.decided_by) == ("expired", "withdrawn", "user:ada")
    approved = await ada.task("pay", to="eve")
    await decide(shared, approved)
    await ada.cancel(approved["taskId"])
    assert (await ada.get(approved["taskId"]))["status"] == "cancelled"
    assert (await ada.call("pay", to="eve"))["resultType"] == "task", "the approval went with it"
    assert done == []


def task_meta(result: dict[str, Any]) -> dict[str, Any]:
    assert set(result["_meta"]) == {"io.modelcontextprotocol/serverInfo"}
    return result["_meta"]


@pytest.mark.spec("M19")
async def test_a_long_call_outlives_the_client_that_asks(
    shared: Site, ada: Tasker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "WAIT_SECONDS", 0.05)
    task = await ada.task("slow", to="bob")
    await decide(shared, task)
    for _ in range(2):
        found = await ada.get(task["taskId"])
        assert (found["status"], found["statusMessage"]) == ("working", "'slow' runs")
    await until(lambda: done == [("started", "bob")])
    gate.set()
    await until(lambda: ("ended", "bob") in done)
    await until_over(ada, task)
    assert text_in(await ada.get(task["taskId"])) == "bob is paid"


@pytest.mark.spec("M19")
async def test_a_running_call_is_cancelled(shared: Site, ada: Tasker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "WAIT_SECONDS", 0.05)
    task = await ada.task("slow", to="eve")
    await decide(shared, task)
    assert (await ada.get(task["taskId"]))["status"] == "working"
    await until(lambda: done == [("started", "eve")])
    await ada.cancel(task["taskId"])
    await until_over(ada, task)
    assert (await ada.get(task["taskId"]))["status"] == "cancelled"
    (record,) = await shared.records(correlation=approval_of(task))
    assert record.outcome == "cancelled"
    assert done == [("started", "eve")]


async def until_over(caller: Tasker, task: dict[str, Any]) -> None:
    async with asyncio.timeout(10):
        while (await caller.get(task["taskId"]))["status"] == "working":  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.spec("M19")
async def test_a_limit_makes_a_task_wait(shared: Site, ada: Tasker) -> None:
    first, second = await ada.task("seldom", to="bob"), await ada.task("seldom", to="eve")
    for task in (first, second):
        await decide(shared, task)
    assert text_in(await ada.get(first["taskId"])) == "bob"
    for _ in range(2):
        found = await ada.get(second["taskId"])
        assert found["status"] == "working"
        assert "Rate limit exceeded" in found["statusMessage"]
        assert found["pollIntervalMs"] > 3_500_000
    assert (await shared.kernel.approvals.get(approval_of(second), org="acme")).status == "approved"


@pytest.mark.spec("M19")
async def test_a_result_that_is_too_large_is_given_once(shared: Site, ada: Tasker) -> None:
    task = await ada.task("large", size=1_500_000)
    await decide(shared, task)
    found = await ada.get(task["taskId"])
    assert len(found["result"]["structuredContent"]["result"]) == 1_500_000
    again = await ada.get(task["taskId"])
    assert (again["status"], again["error"]["code"]) == ("failed", -32603)
    assert found["result"]["_meta"][f"{PREFIX}record"] in again["statusMessage"]


@pytest.mark.spec("M19")
async def test_secrets_are_not_kept_so_their_calls_are_made_again(shared: Site, ada: Tasker) -> None:
    refused = await ada.call("login", name="ada", password="hunter2")
    assert (refused["resultType"], refused["isError"]) == ("complete", True)
    assert "make the same call again" in refused["content"][0]["text"]
    approval = refused["_meta"][f"{PREFIX}error"]["approval"]
    await shared.kernel.approvals.decide(approval, YES, by=BOSS)
    assert (await ada.call("login", name="ada", password="hunter2"))["isError"] is False
    assert done == [("ada", "hunter2")]


@pytest.mark.spec("M19")
async def test_a_call_of_a_handlers_own_is_no_task(shared: Site, ada: Tasker) -> None:
    """The task would be the inner call, and its result not that of the outer one."""
    refused = await ada.call("relay", to="bob")
    assert (refused["resultType"], refused["isError"]) == ("complete", True)


@pytest.mark.spec("M12", "M19")
async def test_a_task_cannot_be_asked_but_its_call_can(shared: Site, ada: Tasker) -> None:
    task = await ada.task("asks")
    await decide(shared, task)
    found = await ada.get(task["taskId"])
    assert "asks its caller: Sure? Make the same call again" in text_in(found)
    assert found["result"]["isError"] is True
    person = Tasker(ada.url, ada.key, {"elicitation": {}, "extensions": {TASKS: {}}})
    asked = await person.call("asks")
    assert asked["resultType"] == "input_required"
    answers = {"sure": {"action": "accept", "content": {"sure": True}}}
    more = {"inputResponses": answers, "requestState": asked["requestState"]}
    assert (await person.call("asks", more=more))["content"][0]["text"] == "accept"


@pytest.mark.spec("M19")
async def test_only_those_who_declare_tasks_get_them(shared: Site, ada: Tasker) -> None:
    task = await ada.task("pay", to="bob")
    for capabilities in (
        {},
        {"extensions": {}},
        {"extensions": {TASKS: None}},
        {"tasks": {}},
        {"experimental": {TASKS: {}}},
    ):
        plain = Tasker(ada.url, ada.key, capabilities)
        refused = data_of(await plain.post("tools/call", {"name": "pay", "arguments": {"to": "bob"}}))
        if "result" in refused:
            assert (refused["result"]["resultType"], refused["result"]["isError"]) == ("complete", True)
        for method, more in (("tasks/get", {}), ("tasks/update", {"inputResponses": {}}), ("tasks/cancel", {})):
            answer = await plain.post(method, {"taskId": task["taskId"], **more})
            if "error" in refused:
                continue
            assert answer.status_code == 400
            error = data_of(answer)["error"]
            assert error["code"] == MISSING_REQUIRED_CLIENT_CAPABILITY
            assert error["data"] == {"requiredCapabilities": {"extensions": {TASKS: {}}}}
    assert (await ada.get(task["taskId"]))["status"] == "working"
    found = await ada.ask("server/discover", {})
    assert found["capabilities"]["extensions"] == {TASKS: {}}


@pytest.mark.spec("M19")
async def test_older_revisions_have_no_tasks() -> None:
    async with bench("legacy", pay) as here:
        assert (await here.client.call_tool("pay", {"to": "bob"})).is_error
        extensions = here.client.server_capabilities.extensions
        assert not extensions


@pytest.mark.spec("M19")
async def test_methods_that_are_gone_and_headers_that_disagree(ada: Tasker) -> None:
    task = (await ada.task("pay", to="bob"))["taskId"]
    for method in ("tasks/result", "tasks/list"):
        assert await ada.refused(method, {"taskId": task}) == METHOD_NOT_FOUND
    for name in ("another", ""):
        answer = await ada.post("tasks/get", {"taskId": task}, **{"Mcp-Name": name})
        assert (answer.status_code, data_of(answer)["error"]["code"]) == (400, HEADER_MISMATCH)
    for params in ({}, {"taskId": 7}, {"taskId": None}):
        answer = await ada.post("tasks/get", {"taskId": "x", **params}, **{"Mcp-Name": "x"})
        assert data_of(answer)["error"]["code"] == INVALID_PARAMS
    assert (await ada.ask("tasks/update", {"taskId": task, "inputResponses": {"none": {"action": "accept"}}}))[
        "resultType"
    ] == "complete"
    assert (await ada.get(task))["status"] == "working"


@pytest.mark.spec("M19", "T44")
@pytest.mark.parametrize("who", ["bob", "spy", "ada"])
async def test_tasks_of_others_are_not_there(shared: Site, ada: Tasker, who: str) -> None:
    """Those of another principal, of another organisation, and of the same one in another session."""
    task = await ada.task("pay", to=who)
    await decide(shared, task)
    thief = await caller(shared, who)
    for method, more in (("tasks/get", {}), ("tasks/update", {"inputResponses": {}}), ("tasks/cancel", {})):
        for known in (task["taskId"], approval_of(task)):
            assert await thief.refused(method, {"taskId": known, **more}) == INVALID_PARAMS
    assert done == []
    assert text_in(await ada.get(task["taskId"])) == f"{who} has 5"


@pytest.mark.spec("M19", "T44")
async def test_ids_cannot_be_guessed(shared: Site, ada: Tasker) -> None:
    task = await ada.task("pay", to="bob")
    approval, _, seal = task["taskId"].partition(".")
    assert len(seal) == 64
    other = await caller(shared)
    foreign = (await other.task("pay", to="bob"))["taskId"].partition(".")[2]
    for guess in (
        approval,
        f"{approval}.",
        f"{approval}.{'0' * 64}",
        f"{approval}.{foreign}",
        f".{seal}",
        "x" * 300,
        "\u00e4",
    ):
        header = {} if guess.isascii() else {"Mcp-Name": "=?base64?w6Q=?="}
        assert await ada.refused("tasks/get", {"taskId": guess}, **header) == INVALID_PARAMS, guess


@pytest.mark.spec("M15", "M19")
async def test_a_scope_for_one_tool_is_for_its_tasks(shared: Site) -> None:
    await shared.key("narrow", principal="ada", scopes=["capset:call:login"])
    ada = await caller(shared, own=False)
    task = await ada.task("pay", to="bob")
    narrow = Tasker(ada.url, shared.keys["narrow"])
    await decide(shared, task)
    assert await narrow.refused("tasks/get", {"taskId": task["taskId"]}) == INVALID_PARAMS
    await shared.key("fitting", principal="ada", scopes=["capset:call:pay"])
    fitting = Tasker(ada.url, shared.keys["fitting"])
    assert text_in(await fitting.get(task["taskId"])) == "bob has 5"


@pytest.mark.spec("M19")
async def test_rights_are_those_of_the_moment() -> None:
    """A caller that has lost a permission in between gets nothing done by an approval."""

    @tool(effect="write", approval="ask", permissions={"bills:pay"})
    async def settle() -> str:
        """Settle."""
        done.append("settled")
        return "settled"

    agent = Agent("settler", uses=[Capability("bills", tools=[settle])])
    async with site(agents=[agent]) as here:
        await here.key("may", principal="eve", permissions=["bills:pay"])
        await here.key("may_not", principal="eve", permissions=[])
        url = f"{here.url}/mcp/agents/settler"
        task = await Tasker(url, here.keys["may"]).task("settle")
        await decide(here, task)
        found = await Tasker(url, here.keys["may_not"]).get(task["taskId"])
        assert found["result"]["isError"] is True
        assert done == []


@pytest.mark.spec("M19")
async def test_tasks_count_as_open_requests() -> None:
    async with bank(governance=Governance(pending_approvals=2)) as here:
        ada = await caller(here)
        tasks_of = [await ada.task("pay", to=name) for name in ("a", "b")]
        refused = await ada.call("pay", to="c")
        assert refused["_meta"][f"{PREFIX}error"]["code"] == "limit_exceeded"
        await ada.cancel(tasks_of[0]["taskId"])
        assert (await ada.call("pay", to="c"))["resultType"] == "task"
        assert len((await here.kernel.approvals.list(ApprovalQuery("acme"))).items) == 3


@pytest.mark.spec("M19", "P39")
async def test_tasks_outlive_their_server_and_are_those_of_all(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/capset.db"
    async with bank(store=store) as first:
        key = first.keys["ada"]
        task = await Tasker(f"{first.url}/mcp/agents/teller", key).task("pay", to="bob")
        assert (await Tasker(f"{first.url}/mcp/agents/teller", key).get(task["taskId"]))["status"] == "working"
    async with bank(store=store) as second, bank(store=store) as third:
        callers = [Tasker(f"{one.url}/mcp/agents/teller", key) for one in (second, third)]
        await decide(third, task)
        found = await asyncio.gather(*(one.get(task["taskId"]) for _ in range(5) for one in callers))
        assert {one["status"] for one in found} <= {"completed", "working"}
        assert {text_in(await one.get(task["taskId"])) for one in callers} == {"bob has 5"}
        assert done == [("bob", 5)]


@pytest.mark.spec("M19")
async def test_a_server_that_stops_says_so_of_its_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "WAIT_SECONDS", 0.05)
    monkeypatch.setattr(kernel, "DRAIN_SECONDS", 0.05)
    store = f"sqlite:///{tmp_path}/capset.db"
    async with bank(store=store) as first:
        key = first.keys["ada"]
        ada = Tasker(f"{first.url}/mcp/agents/teller", key)
        task = await ada.task("slow", to="bob")
        await decide(first, task)
        assert (await ada.get(task["taskId"]))["status"] == "working"
        await until(lambda: done == [("started", "bob")])
    async with bank(store=store) as second:
        found = await Tasker(f"{second.url}/mcp/agents/teller", key).get(task["taskId"])
        assert (found["status"], found["error"]["code"]) == ("failed", -32603)
        assert "The server was stopped" in found["statusMessage"]
        assert done == [("started", "bob")]


@pytest.mark.spec("M19")
async def test_a_door_without_keys_has_tasks_for_as_long_as_it_lives() -> None:
    async with (
        support.site(pay, tokens={"ada": Principal("ada")}) as here,
        here.kernel.open(here.agent, principal=Principal("ada")) as here.session,
    ):
        ada = Tasker(f"{here.url}/mcp", "ada")
        task = await ada.task("pay", to="bob")
        await here.kernel.approvals.decide(approval_of(task), YES, by=Principal("boss"))
        assert text_in(await ada.get(task["taskId"])) == "bob has 5"
