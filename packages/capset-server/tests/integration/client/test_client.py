"""Agents, sessions, capabilities and records of a real server."""

from __future__ import annotations

import re
from typing import Any

import pytest

from capset.errors import (
    Conflict,
    DefinitionError,
    InvalidArguments,
    NotFound,
    Outdated,
    PermissionDenied,
    Unauthenticated,
)
from capset_server.client import AgentInput, Client
from tests.helpers.client.fixtures import Served


async def test_capabilities(boss: Client) -> None:
    page = await boss.capabilities.list()
    ids = [capability.id for capability in page.items]
    assert page.total == len(ids) > 3
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({"text": "workshop", "status": "available"}, ["workshop"]),
        ({"category": "[i]Tests[/i]"}, ["workshop"]),
        ({"permission": "session_files:read", "limit": 1}, ["session_file_system"]),
        ({"limit": 2}, ids[:2]),
        ({"cursor": ids[1]}, ids[2:]),
    ]
    for filters, expected in cases:
        assert [capability.id for capability in (await boss.capabilities.list(**filters)).items] == expected, filters
    assert [capability.id async for capability in boss.capabilities.all()] == ids
    assert (await boss.capabilities.get("test_math")).tools[0].schema_["required"] == ["a", "b"]
    with pytest.raises(NotFound, match="did you mean 'test_math'"):
        await boss.capabilities.get("test_maths")


async def test_an_agent_from_its_beginning_to_its_end(boss: Client) -> None:
    agent_input = AgentInput(name="clerk", system_prompt="Käse ☕", capabilities=["test_math"], tags=["one", "two"])
    created = await boss.agents.create(agent_input)
    assert (created.name, created.system_prompt, created.version, created.status) == ("clerk", "Käse ☕", 1, "active")
    changed = await boss.agents.change(created.id, {"tags": None, "description": "Counts."}, version=1)
    assert (changed.tags, changed.description, changed.version) == ([], "Counts.", 2)
    assert await boss.agents.get(created.id) == changed
    with pytest.raises(Outdated, match="has the version 2, not 1"):
        await boss.agents.change(created.id, {"description": "Lost."}, version=1)
    with pytest.raises(Outdated):
        await boss.agents.archive(created.id, version=1)
    await boss.agents.archive(created.id, version=2)
    assert [agent.id for agent in (await boss.agents.list(name="clerk", status="archived")).items] == [created.id]
    with pytest.raises(Conflict, match="is archived"):
        await boss.sessions.create(created.id)


async def test_what_cannot_be_written_names_every_field(boss: Client) -> None:
    with pytest.raises(DefinitionError) as caught:
        await boss.agents.create(AgentInput(name="clerk", capabilities=["test_mat", "nope"]))
    assert [field.path for field in caught.value.fields] == ["capabilities.0", "capabilities.1"]
    assert re.fullmatch("[0-9a-f-]{36}", caught.value.correlation or "")
    created = await boss.agents.create(AgentInput(name="clerk"))
    with pytest.raises(InvalidArguments, match="Invalid agent") as misfit:
        await boss.agents.change(created.id, {"naem": "x"})
    (field,) = misfit.value.fields
    assert (field.path, field.did_you_mean) == ("naem", "name")
    with pytest.raises(Conflict, match="defined in code"):
        await boss.agents.change("foreman", {"description": "x"})


async def test_pages_and_all_of_them(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    agents = [(await boss.agents.create(AgentInput(name="many"))).id for _ in range(3)]
    first = await boss.agents.list(name="many", limit=2)
    rest = await boss.agents.list(name="many", limit=2, cursor=first.next)
    assert [agent.id for agent in (*first.items, *rest.items)] == agents[::-1]
    assert (first.total, len(first.items), rest.next) == (3, 2, None)
    sessions = [(await boss.sessions.create(agents[0])).id for _ in range(5)]
    page = await boss.sessions.list(agent_id=agents[0], limit=2)
    assert [session.id for session in page.items] == sessions[:2:-1]
    calls = [(await boss.call(sessions[0], "t")).record for _ in range(5)]
    for module in ("agents", "sessions", "records"):
        monkeypatch.setattr(f"capset_server.client.{module}.LARGEST_PAGE", 2)
    assert [agent.id async for agent in boss.agents.all(name="many")] == agents[::-1]
    assert "foreman" in [agent.name async for agent in boss.agents.all()]
    assert [session.id async for session in boss.sessions.all(agent_id=agents[0])] == sessions[::-1]
    assert [record["id"] async for record in boss.records.all(session=sessions[0])] == calls[::-1]
    with pytest.raises(InvalidArguments) as caught:
        await boss.agents.list(limit=201)
    assert [field.path for field in caught.value.fields] == ["limit"]


async def test_a_session_from_its_beginning_to_its_end(boss: Client) -> None:
    session = await boss.sessions.create("foreman")
    assert (session.agent, session.agent_id, session.principal) == ("foreman", "foreman", "boss")
    assert await boss.sessions.get(session.id) == session
    snapshot = await boss.sessions.snapshot(session.id)
    assert {tool.name for tool in snapshot.tools if tool.in_play} >= {"echo", "steps"}
    await boss.sessions.delete(session.id)
    for method in (boss.sessions.get, boss.sessions.delete, boss.sessions.snapshot):
        with pytest.raises(NotFound, match="there is no session"):
            await method(session.id)


async def test_records_by_what_they_say(boss: Client, session: str) -> None:
    record = (await boss.call(session, "echo", {"text": "hi"}, correlation="mine-1")).record
    await boss.call(session, "ecko", correlation="mine-1")
    (stored,) = (await boss.records.list(id=record)).items
    assert (stored["tool"], stored["outcome"], stored["principal"]) == ("echo", "succeeded", "boss")
    both = (await boss.records.list(session=session, principal="boss", correlation="mine-1")).items
    assert [row["outcome"] for row in both] == ["not_found", "succeeded"]
    assert [row["tool"] async for row in boss.records.all(session=session, outcome="not_found")] == ["ecko"]
    assert (await boss.records.list(session=session, tool="steps")).items == []
    wrong: dict[str, Any] = {"principle": "boss"}
    with pytest.raises(TypeError, match=r"\.list\(\) got an .* 'principle'\. Did you mean 'principal'\?"):
        await boss.records.list(**wrong)
    with pytest.raises(TypeError, match=r"\.all\(\) got an .* 'principle'\. Did you mean 'principal'\?"):
        boss.records.all(**wrong)


async def test_who_may_not(served: Served) -> None:
    async with Client(served.url, key=served.ada) as ada:
        with pytest.raises(PermissionDenied, match="lacks the scope capset:write"):
            await ada.agents.create(AgentInput(name="x"))
        with pytest.raises(PermissionDenied, match="capset:audit"):
            await ada.records.list()
    for key in (None, "capset_" + "x" * 43):
        async with Client(served.url, key=key) as nobody:
            with pytest.raises(Unauthenticated):
                await nobody.agents.list()
    async with Client(served.url) as nobody:
        await nobody.health()


async def test_an_id_is_one_part_of_a_path(boss: Client, session: str) -> None:
    await boss.files.write(session, "/kept.txt", b"x")
    for name in ("", f"{session}/files/kept.txt", "/"):
        with pytest.raises(DefinitionError, match="must not be empty or contain a slash"):
            await boss.sessions.delete(name)
    with pytest.raises(DefinitionError, match="not valid Unicode"):
        await boss.sessions.get("\udcff")
    for name in (".", "..", "?", "#", "%2F", f"{session}?x=1", f"..%2F{session}", "é", "\0", "x" * 150):
        with pytest.raises(NotFound, match="there is no session"):
            await boss.sessions.get(name)
    assert (await boss.files.read(session, "/kept.txt")).content == b"x"
