"""Who has tasks, sees them, and lets them go on (spec 7, M19)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from mcp_types import HEADER_MISMATCH, INVALID_PARAMS, METHOD_NOT_FOUND, MISSING_REQUIRED_CLIENT_CAPABILITY

from capset import Agent, Capability, Principal, tool
from capset.definitions.governance.settings import Governance
from capset.kernel import kernel
from capset.stores.base import ApprovalQuery
from capset_server.mcp import tasks
from tests.helpers.server.mcp import support
from tests.helpers.server.mcp.support import PREFIX, bench
from tests.helpers.server.mcp.tasking import TASKS, Tasker, data_of, text_in
from tests.helpers.server.mcp.tasks.teller import YES, approval_of, bank, caller, decide, done, pay
from tests.helpers.server.support import Site, site
from tests.waiting import until


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
    discovery = await ada.ask("server/discover", {})
    assert discovery["capabilities"]["extensions"] == {TASKS: {}}


@pytest.mark.spec("M19")
async def test_older_revisions_have_no_tasks() -> None:
    async with bench("legacy", pay) as workbench:
        assert (await workbench.client.call_tool("pay", {"to": "bob"})).is_error
        extensions = workbench.client.server_capabilities.extensions
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
@pytest.mark.parametrize("user", ["bob", "spy", "ada"])
async def test_tasks_of_others_are_not_there(shared: Site, ada: Tasker, user: str) -> None:
    """Those of another principal, of another organisation, and of the same one in another session."""
    task = await ada.task("pay", to=user)
    await decide(shared, task)
    thief = await caller(shared, user)
    for method, more in (("tasks/get", {}), ("tasks/update", {"inputResponses": {}}), ("tasks/cancel", {})):
        for task_id in (task["taskId"], approval_of(task)):
            assert await thief.refused(method, {"taskId": task_id, **more}) == INVALID_PARAMS
    assert done == []
    assert text_in(await ada.get(task["taskId"])) == f"{user} has 5"


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
    await shared.key("narrow", principal="ada", scopes=["capset:call:desk.login"])
    ada = await caller(shared, own=False)
    task = await ada.task("pay", to="bob")
    narrow = Tasker(ada.url, shared.keys["narrow"])
    await decide(shared, task)
    assert await narrow.refused("tasks/get", {"taskId": task["taskId"]}) == INVALID_PARAMS
    await shared.key("fitting", principal="ada", scopes=["capset:call:desk.pay"])
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
    async with site(agents=[agent]) as server:
        await server.key("may", principal="eve", permissions=["bills:pay"])
        await server.key("may_not", principal="eve", permissions=[])
        url = f"{server.url}/mcp/agents/settler"
        task = await Tasker(url, server.keys["may"]).task("settle")
        await decide(server, task)
        state = await Tasker(url, server.keys["may_not"]).get(task["taskId"])
        assert state["result"]["isError"] is True
        assert done == []


@pytest.mark.spec("M19")
async def test_an_outcome_is_for_the_rights_that_it_came_of() -> None:
    """As it is of a request with an ``Idempotency-Key``, whether the call runs still or has ended."""
    started, go_on = asyncio.Event(), asyncio.Event()

    @tool(effect="write", approval="ask", permissions={"vault:open"})
    async def reveal() -> str:
        """Reveal."""
        started.set()
        await go_on.wait()
        return "the code is 4711"

    agent = Agent("keeper", uses=[Capability("vault", tools=[reveal])])
    async with site(agents=[agent]) as server:
        await server.key("may", principal="eve", permissions=["vault:open"])
        await server.key("may_not", principal="eve", permissions=[])
        may, may_not = [
            Tasker(f"{server.url}/mcp/agents/keeper", server.keys[key_name]) for key_name in ("may", "may_not")
        ]
        task = await may.task("reveal")
        await decide(server, task)
        reading = asyncio.create_task(may.get(task["taskId"]))
        await started.wait()
        peeping = asyncio.create_task(may_not.refused("tasks/get", {"taskId": task["taskId"]}))
        go_on.set()
        assert text_in(await reading) == text_in(await may.get(task["taskId"])) == "the code is 4711"
        assert await peeping == await may_not.refused("tasks/get", {"taskId": task["taskId"]}) == INVALID_PARAMS


@pytest.mark.spec("M19")
async def test_tasks_count_as_open_requests() -> None:
    async with bank(governance=Governance(pending_approvals=2)) as server:
        ada = await caller(server)
        tasks_of = [await ada.task("pay", to=name) for name in ("a", "b")]
        refused = await ada.call("pay", to="c")
        assert refused["_meta"][f"{PREFIX}error"]["code"] == "limit_exceeded"
        await ada.cancel(tasks_of[0]["taskId"])
        assert (await ada.call("pay", to="c"))["resultType"] == "task"
        assert len((await server.kernel.approvals.list(ApprovalQuery("acme"))).items) == 3


@pytest.mark.realtime
@pytest.mark.spec("M19", "P39")
async def test_tasks_outlive_their_server_and_are_those_of_all(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/capset.db"
    async with bank(store=store) as first:
        key = first.keys["ada"]
        task = await Tasker(f"{first.url}/mcp/agents/teller", key).task("pay", to="bob")
        assert (await Tasker(f"{first.url}/mcp/agents/teller", key).get(task["taskId"]))["status"] == "working"
    async with bank(store=store) as second, bank(store=store) as third:
        callers = [Tasker(f"{server.url}/mcp/agents/teller", key) for server in (second, third)]
        await decide(third, task)
        states = await asyncio.gather(*(tasker.get(task["taskId"]) for _ in range(5) for tasker in callers))
        assert {state["status"] for state in states} <= {"completed", "working"}
        assert {text_in(await tasker.get(task["taskId"])) for tasker in callers} == {"bob has 5"}
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
        state = await Tasker(f"{second.url}/mcp/agents/teller", key).get(task["taskId"])
        assert (state["status"], state["error"]["code"]) == ("failed", -32603)
        assert "The server was stopped" in state["statusMessage"]
        assert done == [("started", "bob")]


@pytest.mark.spec("M19")
async def test_a_door_without_keys_has_tasks_for_as_long_as_it_lives() -> None:
    async with (
        support.site(pay, tokens={"ada": Principal("ada")}) as server,
        server.kernel.open(server.agent, principal=Principal("ada")) as server.session,
    ):
        ada = Tasker(f"{server.url}/mcp", "ada")
        task = await ada.task("pay", to="bob")
        await server.kernel.approvals.decide(approval_of(task), YES, by=Principal("boss"))
        assert text_in(await ada.get(task["taskId"])) == "bob has 5"
