"""Calls of LangChain's agents that wait for an approval."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from pydantic import ValidationError

from capset.errors import DefinitionError
from capset_frameworks.langchain import CapsetMiddleware
from scripts.packages import ROOT
from tests.helpers.frameworks.kit import decide, office, paid
from tests.helpers.frameworks.langchain_agents import GO, THREAD, LangChainDriver, results, resume, scripted
from tests.helpers.kernel.support import Desk

pytestmark = [pytest.mark.clients]


@pytest.fixture
async def here() -> AsyncIterator[Desk]:
    async with office() as open_desk:
        yield open_desk


@pytest.mark.spec("W5")
async def test_a_suspended_run_goes_on_in_another_process(tmp_path: Path) -> None:
    """Of the first process, only the two databases are left."""
    checkpoints = str(tmp_path / "checkpoints.db")
    store = f"sqlite:///{tmp_path / 'capset.db'}"
    async with office(store=store) as desk, AsyncSqliteSaver.from_conn_string(checkpoints) as saver:
        model = scripted([("pay", {"sum": 500}), ("add", {"a": 1})])
        middleware = CapsetMiddleware(desk.session, defers=True)
        agent = create_agent(model, middleware=[middleware], checkpointer=saver)
        result = await agent.ainvoke(GO, THREAD)
        (interruption,) = result["__interrupt__"]
        assert interruption.value["description"] == "Pay a sum."
        await decide(desk, interruption.value["approval"])
        session = desk.session.id
    command = [sys.executable, __file__, store, checkpoints, session]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = await asyncio.to_thread(
        subprocess.run, command, env=environ, capture_output=True, text=True, check=False, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == {
        "read": {"call-1-1": '{"paid": 500}', "call-1-2": "2"},
        "output": "done",
        "paid": [500],
        "records": ["pending", "succeeded", "succeeded"],
    }


@pytest.mark.spec("W5")
async def test_a_reviewer_who_refuses_is_heard_even_if_capsets_request_was_approved(here: Desk) -> None:
    agent = create_agent(
        scripted([("pay", {"sum": 500})]),
        middleware=[CapsetMiddleware(here.session, defers=True)],
        checkpointer=InMemorySaver(),
    )
    (interruption,) = (await agent.ainvoke(GO, THREAD))["__interrupt__"]
    await decide(here, interruption.value["approval"])
    result = await agent.ainvoke(resume({"type": "reject", "message": "too much"}), THREAD)
    (read,) = results(result["messages"])
    assert read.status == "error"
    assert "refused this call" in read.text
    assert read.text.endswith("too much")
    assert paid == []
    assert [record.outcome for record in await here.records()] == ["pending"]


@pytest.mark.spec("W5")
async def test_an_answer_that_is_none_leaves_the_run_suspended(here: Desk) -> None:
    driver = LangChainDriver(here.session, defers=True)
    suspended = await driver.run([("pay", {"sum": 500})])
    edited = {"type": "edit", "edited_action": {"name": "pay", "args": {"sum": 5}}}
    for wrong in (True, edited):
        with pytest.raises(ValidationError, match="type"):
            await driver.agent.ainvoke(resume(wrong), THREAD)
    await decide(here, suspended.waiting[0])
    assert ((await driver.resume()).output, paid) == ("done", [500])


@pytest.mark.spec("W5")
async def test_two_calls_of_one_step_wait_each_for_its_own_approval(here: Desk) -> None:
    driver = LangChainDriver(here.session, defers=True)
    suspended = await driver.run([("pay", {"sum": 500}), ("pay", {"sum": 600}), ("fail", {})])
    assert len({*suspended.waiting}) == 2
    await decide(here, suspended.waiting[0])
    await decide(here, suspended.waiting[1], approved=False)
    ended = await driver.resume()
    assert (ended.output, len(paid)) == ("done", 1)
    assert [answer.failed for answer in ended.read].count(False) == 1


@pytest.mark.spec("W5")
async def test_an_approval_of_langchains_own_middleware_is_none_of_capsets(here: Desk) -> None:
    review = HumanInTheLoopMiddleware(interrupt_on={"pay": True})
    agent = create_agent(
        scripted([("pay", {"sum": 500})]),
        middleware=[review, CapsetMiddleware(here.session)],
        checkpointer=InMemorySaver(),
    )
    await agent.ainvoke(GO, THREAD)
    result = await agent.ainvoke(resume({"decisions": [{"type": "approve"}]}), THREAD)
    (read,) = results(result["messages"])
    assert "needs an approval first" in read.text
    assert paid == []


async def test_a_run_that_nothing_keeps_does_not_begin(here: Desk) -> None:
    agent = create_agent(scripted([("pay", {"sum": 500})]), middleware=[CapsetMiddleware(here.session, defers=True)])
    with pytest.raises(DefinitionError, match="nothing stores this one"):
        await agent.ainvoke(GO)
    assert await here.records() == []


async def _go_on(store: str, checkpoints: str, session_id: str) -> None:
    """Go on, in a second process, with a run that the first has left suspended."""
    async with (
        office(store=store, session_id=session_id) as desk,
        AsyncSqliteSaver.from_conn_string(checkpoints) as saver,
    ):
        middleware = CapsetMiddleware(desk.session, defers=True)
        agent = create_agent(scripted(), middleware=[middleware], checkpointer=saver)
        result = await agent.ainvoke(resume({"type": "approve"}), THREAD)
        report = {
            "read": {message.tool_call_id: message.text for message in results(result["messages"])},
            "output": result["messages"][-1].text,
            "paid": paid,
            "records": sorted(str(record.outcome) for record in await desk.records()),
        }
        print(json.dumps(report))


if __name__ == "__main__":
    asyncio.run(_go_on(*sys.argv[1:]))
