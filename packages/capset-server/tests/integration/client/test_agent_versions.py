"""Versions, comparisons and previews of agents on a real server (spec 5, P5, P7)."""

from __future__ import annotations

import pytest

from capset.errors import Conflict, NotFound, Outdated, PermissionDenied
from capset_server.client import AgentInput, Client
from tests.helpers.client.fixtures import Served


@pytest.mark.spec("P5", "P7")
async def test_an_agent_goes_forward_and_back(boss: Client) -> None:
    context = {"tier": {"name": "pro", "until": None}}
    agent_input = AgentInput(name="adder", capabilities=["test_math"], model="openai:gpt-9", static_context=context)
    first = await boss.agents.create(agent_input)
    assert (first.model, first.static_context) == ("openai:gpt-9", context)
    second = await boss.agents.change(first.id, {"static_context": {"tier": {"until": 5}}, "model": None})
    assert (second.model, second.static_context) == (None, {"tier": {"name": "pro", "until": 5}})
    newest = await boss.agents.versions(first.id, limit=1)
    rest = await boss.agents.versions(first.id, cursor=newest.next)
    assert ([row.version for row in (*newest.items, *rest.items)], newest.next, rest.next) == ([2, 1], "2", None)
    assert await boss.agents.version(first.id, 1) == first
    diff = await boss.agents.diff(first.id, 1)
    assert [field.path for field in diff.fields] == ["model", "static_context.tier.until"]
    assert diff.fields[1].plain() == {"path": "static_context.tier.until", "kind": "changed", "after": 5}
    assert diff.composition is not None
    with pytest.raises(Outdated):
        await boss.agents.rollback(first.id, 1, version=1)
    with pytest.raises(Outdated):
        await boss.agents.change(first.id, {"description": "new"}, version=0)
    back = await boss.agents.rollback(first.id, 1, version=2)
    assert (back.version, back.model, back.static_context) == (3, "openai:gpt-9", context)
    for lost in (boss.agents.version(first.id, 9), boss.agents.rollback(first.id, 9), boss.agents.diff(first.id, 9)):
        with pytest.raises(NotFound):
            await lost
    with pytest.raises(Conflict):
        await boss.agents.rollback("foreman", 1)


@pytest.mark.spec("P7")
async def test_a_preview_keeps_nothing(boss: Client) -> None:
    before = (await boss.agents.list()).total
    preview = await boss.agents.preview(AgentInput(name="adder", capabilities=["test_math"]))
    assert preview.snapshot is not None
    assert [tool.name for tool in preview.snapshot.tools] == ["add", "divide", "multiply", "subtract"]
    wrong = await boss.agents.preview(AgentInput(name="adder", capabilities=["test_maths"]))
    assert (preview.valid, wrong.valid, wrong.snapshot) == (True, False, None)
    assert [problem.path for problem in wrong.problems] == ["capabilities.0"]
    assert (await boss.agents.list()).total == before
    agent = await boss.agents.create(AgentInput(name="adder", capabilities=["test_math"]))
    changed = await boss.agents.preview_change(agent.id, {"capabilities": []})
    assert changed.snapshot is not None
    assert (changed.snapshot.tools, await boss.agents.get(agent.id)) == ([], agent)


@pytest.mark.spec("P3")
async def test_what_is_of_high_risk_is_for_administrators(served: Served, boss: Client) -> None:
    agent_input = AgentInput(name="risky", capabilities=["test_math", "session_file_system", "email"])
    async with Client(served.url, key=served.server.key("carol", scopes=["capset:read", "capset:write"])) as carol:
        assert (await carol.agents.preview(agent_input)).needs_admin == ["email"]
        with pytest.raises(PermissionDenied, match="only an administrator can enable 'email'"):
            await carol.agents.create(agent_input)
        agent = await boss.agents.create(agent_input)
        changed = await carol.agents.change(agent.id, {"description": "x"})
        assert (agent.author, changed.author) == ("user:boss", "user:carol")
