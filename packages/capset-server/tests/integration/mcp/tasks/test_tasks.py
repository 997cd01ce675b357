"""Calls that wait for an approval are tasks, for clients that know them (spec 7, M19)."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Any

import pytest
from mcp_types import INVALID_PARAMS

from capset.definitions.governance.settings import Governance
from capset.ext import Answer
from capset_server.mcp import tasks
from capset_testing import FakeClock
from tests.helpers.server.mcp.support import PREFIX
from tests.helpers.server.mcp.tasking import TASKS, Tasker, text_in
from tests.helpers.server.mcp.tasks.teller import BOSS, YES, approval_of, bank, caller, decide, done, gate
from tests.helpers.server.support import Site
from tests.waiting import moment, until


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
    state: dict[str, Any] = {}
    for _ in range(3):
        state = await ada.get(task["taskId"])
        assert text_in(state) == "bob has 5"
        assert state["resultType"] == "complete"
        assert state["result"]["structuredContent"] == {"result": "bob has 5"}
        assert state["result"]["isError"] is False
        assert state["ttlMs"] > 23 * 3_600_000
    assert done == [("bob", 5)]
    approval = await shared.kernel.approvals.get(approval_of(task), org="acme")
    assert approval.status == "used"
    records = await shared.records(approval=approval_of(task))
    assert [record.outcome for record in records] == ["pending", "succeeded"]
    assert records[1].correlation == approval_of(task)
    assert state["result"]["_meta"][f"{PREFIX}record"] == records[1].id
    another = await ada.task("pay", to="bob")
    assert another["taskId"] != task["taskId"]


@pytest.mark.spec("M19")
async def test_equal_calls_are_one_task(shared: Site, ada: Tasker) -> None:
    first, second = await ada.task("pay", to="bob"), await ada.task("pay", to="bob", amount=5)
    assert first["taskId"] == second["taskId"]
    await decide(shared, first)
    states = await asyncio.gather(*(ada.get(first["taskId"]) for _ in range(10)))
    assert {text_in(state) for state in states} == {"bob has 5"}
    assert done == [("bob", 5)]


@pytest.mark.spec("M19")
async def test_what_was_rejected_is_the_result(shared: Site, ada: Tasker) -> None:
    task = await ada.task("pay", to="eve")
    await decide(shared, task, Answer(approved=False, note="not her"))
    for _ in range(2):
        state = await ada.get(task["taskId"])
        assert "rejected by user:boss: not her" in text_in(state)
        assert state["result"]["isError"] is True
        assert state["result"]["_meta"][f"{PREFIX}error"]["code"] == "approval_rejected"
    assert done == []
    records = await shared.records(approval=approval_of(task))
    assert [record.outcome for record in records] == ["pending", "rejected"]


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
    assert "it was already used" in text_in(await ada.get(task["taskId"]))
    assert done == [("bob", 5)]


@pytest.mark.spec("M19")
async def test_a_task_expires_and_is_forgotten() -> None:
    clock = FakeClock()
    async with bank(clock=clock) as server:
        ada = await caller(server)
        late, finished = await ada.task("pay", to="bob"), await ada.task("pay", to="eve")
        await decide(server, finished, Answer(approved=True, scope="session"))
        assert text_in(await ada.get(finished["taskId"])) == "eve has 5"
        clock.advance(3_601)
        state = await ada.get(late["taskId"])
        assert state["result"]["_meta"][f"{PREFIX}error"]["code"] == "approval_expired"
        clock.advance(23 * 3_600)
        for task in (late, finished):
            assert await ada.refused("tasks/get", {"taskId": task["taskId"]}) == INVALID_PARAMS
        assert done == [("eve", 5)]


@pytest.mark.spec("M19")
async def test_a_long_approval_lets_nothing_go_on_twice() -> None:
    """Not even after the outcome has been forgotten."""
    clock = FakeClock()
    async with bank(clock=clock, governance=Governance(approval_seconds=7 * 86_400)) as server:
        ada = await caller(server)
        task = await ada.task("pay", to="bob")
        clock.advance(3 * 86_400)
        await decide(server, task, Answer(approved=True, scope="session"))
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
    state = await ada.get(task["taskId"])
    assert (state["status"], "result" in state) == ("cancelled", False)
    approval = await shared.kernel.approvals.get(approval_of(task), org="acme")
    assert (approval.status, approval.note, approval.decided_by) == ("expired", "withdrawn", "user:ada")
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
        state = await ada.get(task["taskId"])
        assert (state["status"], state["statusMessage"]) == ("working", "'slow' runs")
    await until(lambda: done == [("started", "bob")])
    gate.set()
    await until(lambda: ("ended", "bob") in done)
    await until(lambda: is_over(ada, task), "the task to be over")
    assert text_in(await ada.get(task["taskId"])) == "bob is paid"


@pytest.mark.spec("M19")
async def test_a_running_call_is_cancelled(shared: Site, ada: Tasker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "WAIT_SECONDS", 0.05)
    task = await ada.task("slow", to="eve")
    await decide(shared, task)
    assert (await ada.get(task["taskId"]))["status"] == "working"
    await until(lambda: done == [("started", "eve")])
    await ada.cancel(task["taskId"])
    await until(lambda: is_over(ada, task), "the task to be over")
    assert (await ada.get(task["taskId"]))["status"] == "cancelled"
    (record,) = await shared.records(correlation=approval_of(task))
    assert record.outcome == "cancelled"
    assert done == [("started", "eve")]


async def is_over(caller: Tasker, task: dict[str, Any]) -> bool:
    return (await caller.get(task["taskId"]))["status"] != "working"


@pytest.mark.spec("M19")
async def test_cancelling_many_times_leaves_no_task_without_an_outcome(shared: Site, ada: Tasker) -> None:
    """Before the call has begun, while it runs, and while what came of it is kept."""
    for number in range(4):
        task = await ada.task("pay", to=f"bob {number}")
        await decide(shared, task)
        name = task["taskId"]
        states = await asyncio.gather(*(ada.get(name) for _ in range(3)), *(ada.cancel(name) for _ in range(6)))
        for state in (*states[:3], await ada.get(name)):
            assert state.get("status") in ("completed", "cancelled"), state


@pytest.mark.spec("M19")
async def test_a_client_that_leaves_while_its_task_is_reserved_stops_nothing(
    shared: Site, ada: Tasker, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = type(shared.kernel.store.replies)
    reserve, reserved, rows = replies.reserve, asyncio.Event(), list[Any]()

    async def slowly(self: Any, row: Any, **options: Any) -> Any:
        stored_reply = await reserve(self, row, **options)
        reserved.set()
        await moment(0.2)
        rows.append(row)
        return stored_reply

    going, ending = await ada.task("pay", to="bob"), await ada.task("pay", to="eve")
    await decide(shared, going)
    monkeypatch.setattr(replies, "reserve", slowly)
    for send, task in ((ada.get, going), (ada.cancel, ending)):
        reserved.clear()
        leaving = asyncio.create_task(send(task["taskId"]))
        await reserved.wait()
        leaving.cancel()
        await asyncio.wait([leaving])
    await until(lambda: len(rows) >= 2, "both tasks to be reserved though their client has left")
    monkeypatch.undo()
    for task in (going, ending):
        await until(partial(is_over, ada, task), "the task to be over")
    assert text_in(await ada.get(going["taskId"])) == "bob has 5"
    assert (await ada.get(ending["taskId"]))["status"] == "cancelled"


@pytest.mark.spec("M19")
async def test_a_limit_makes_a_task_wait(shared: Site, ada: Tasker) -> None:
    first, second = await ada.task("seldom", to="bob"), await ada.task("seldom", to="eve")
    for task in (first, second):
        await decide(shared, task)
    assert text_in(await ada.get(first["taskId"])) == "bob"
    for _ in range(2):
        state = await ada.get(second["taskId"])
        assert state["status"] == "working"
        assert "Rate limit exceeded" in state["statusMessage"]
        assert state["pollIntervalMs"] > 3_500_000
    assert (await shared.kernel.approvals.get(approval_of(second), org="acme")).status == "approved"


@pytest.mark.spec("M19")
async def test_a_result_that_is_too_large_is_given_once(shared: Site, ada: Tasker) -> None:
    task = await ada.task("large", size=1_500_000)
    await decide(shared, task)
    state = await ada.get(task["taskId"])
    assert len(state["result"]["structuredContent"]["result"]) == 1_500_000
    second_state = await ada.get(task["taskId"])
    assert (second_state["status"], second_state["error"]["code"]) == ("failed", -32603)
    assert state["result"]["_meta"][f"{PREFIX}record"] in second_state["statusMessage"]


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
async def test_a_task_has_the_arguments_whose_fields_go_by_aliases(shared: Site, ada: Tasker) -> None:
    task = await ada.task("buy", order={"articleName": "tea", "howMany": 2})
    await decide(shared, task)
    assert text_in(await ada.get(task["taskId"])) == "2 tea"
    changed = await ada.task("buy", order={"articleName": "tea", "howMany": 3})
    request = await shared.kernel.approvals.get(approval_of(changed), org="acme")
    arguments = json.loads(request.arguments)
    arguments["order"]["how_many"] = 1
    await decide(shared, changed, Answer(approved=True, arguments=arguments))
    assert text_in(await ada.get(changed["taskId"])) == "1 tea"
    assert done == [("tea", 2), ("tea", 1)]


@pytest.mark.spec("M19")
async def test_a_call_that_its_record_cannot_repeat_is_made_again(shared: Site, ada: Tasker) -> None:
    refused = await ada.call("send", parcel={"grams": 500})
    assert (refused["resultType"], refused["isError"]) == ("complete", True)
    approval = refused["_meta"][f"{PREFIX}error"]["approval"]
    await shared.kernel.approvals.decide(approval, YES, by=BOSS)
    assert (await ada.call("send", parcel={"grams": 500}))["isError"] is False
    assert done == [500]


@pytest.mark.spec("M19")
async def test_a_call_of_a_handlers_own_is_no_task(shared: Site, ada: Tasker) -> None:
    """The task would be the inner call, and its result not that of the outer one."""
    refused = await ada.call("relay", to="bob")
    assert (refused["resultType"], refused["isError"]) == ("complete", True)


@pytest.mark.spec("M12", "M19")
async def test_a_task_cannot_be_asked_but_its_call_can(shared: Site, ada: Tasker) -> None:
    task = await ada.task("asks")
    await decide(shared, task)
    state = await ada.get(task["taskId"])
    assert "asks its caller: Sure? Make the same call again" in text_in(state)
    assert state["result"]["isError"] is True
    person = Tasker(ada.url, ada.key, {"elicitation": {}, "extensions": {TASKS: {}}})
    question = await person.call("asks")
    assert question["resultType"] == "input_required"
    answers = {"sure": {"action": "accept", "content": {"sure": True}}}
    more = {"inputResponses": answers, "requestState": question["requestState"]}
    assert (await person.call("asks", more=more))["content"][0]["text"] == "accept"
