"""Versions, comparisons and previews of agents on a real server (spec 5, P5, P7)."""

from __future__ import annotations

import pytest

from capset.errors import Conflict, NotFound, Outdated, PermissionDenied
from capset_server.client import AgentInput, Client
from tests.helpers.client.fixtures import Served


@pytest.mark.spec("P5", "P7")
async def test_an_agent_goes_forward_and_back(boss: Client) -> None:
    context = {"tier": {"name": "pro", "until": None}}
    given = AgentInput(name="adder", capabilities=["test_math"], model="openai:gpt-9", static_context=context)
    first = await boss.agents.create(given)
    assert (first.model, first.static_context) == ("openai:gpt-9", context)
    second = await boss.agents.change(first.id, {"static_context": {"tier": {"until": 5}}, "model": None})
    assert (second.model, second.static_context) == (None, {"tier": {"name": "pro", "until": 5}})
    page = await boss.agents.versions(first.id, limit=1)
    assert ([one.version for one in page.items], page.next) == ([2], "2")
    page = await boss.agents.versions(first.id, cursor=page.next)
    assert ([one.version for one in page.items], page.next) == ([1], None)
    assert await boss.agents.version(first.id, 1) == first
    diff = await boss.agents.diff(first.id, 1)
    assert [one.path for one in diff.fields] == ["model", "static_context.tier.until"]
    assert diff.fields[1].plain() == {"path": "static_context.tier.until", "kind": "changed", "after": 5}
    assert diff.composition is not None
    assert not diff.composition.differs
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
    found = await boss.agents.preview(AgentInput(name="adder", capabilities=["test_math"]))
    assert found.valid
    assert found.snapshot is not None
    assert [tool.name for tool in found.snapshot.tools] == ["add", "divide", "multiply", "subtract"]
    wrong = await boss.agents.preview(AgentInput(name="adder", capabilities=["test_maths"]))
    assert (wrong.valid, wrong.snapshot, [one.path for one in wrong.problems]) == (False, None, ["capabilities.0"])
    assert (await boss.agents.list()).total == before
    made = await boss.agents.create(AgentInput(name="adder", capabilities=["test_math"]))
    changed = await boss.agents.preview_change(made.id, {"capabilities": []})
    assert changed.snapshot is not None
    assert (changed.snapshot.tools, await boss.agents.get(made.id)) == ([], made)


@pytest.mark.spec("P3")
async def test_what_is_of_high_risk_is_for_administrators(served: Served, boss: Client) -> None:
    given = AgentInput(name="risky", capabilities=["test_math", "session_file_system", "email"])
    async with Client(served.url, key=served.server.key("carol", scopes=["capset:read", "capset:write"])) as carol:
        assert (await carol.agents.preview(given)).needs_admin == ["email"]
        with pytest.raises(PermissionDenied, match="only an administrator enables 'email'"):
            await carol.agents.create(given)
        made = await boss.agents.create(given)
        changed = await carol.agents.change(made.id, {"description": "x"})
        assert (made.author, changed.author) == ("user:boss", "user:carol")
