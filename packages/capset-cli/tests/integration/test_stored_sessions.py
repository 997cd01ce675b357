"""``capset sessions``, on a database here and on a server (spec 5, P5, P8, P10, P11)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from capset import Kernel, Registry
from capset.fingerprint.hashes import invocation_hash
from capset.stores.base import AgentRow, NewEvent, TurnRow
from capset_connect.agents.store import StoredAgents
from tests.helpers.cli.environments import environment
from tests.helpers.cli.support import Run, run_here
from tests.helpers.server.runners import Parrot
from tests.helpers.server.support import make_session, site

ADA = ("--principal", "ada", "--org", "acme")


@pytest.fixture
def agent(run: Run) -> str:
    """Make an agent in the database of this folder, and return its id."""
    del run  # which gives a folder of one's own

    async def make() -> str:
        async with Kernel(store="sqlite:///capset.db") as kernel:
            now = kernel.now()
            row = AgentRow(kernel.new_id(), "acme", "adder", "", "First.", (), (), (), "active", 1, "", now, now)
            definition = (await StoredAgents(kernel, Registry.installed()).loaded(row)).agent
            row = replace(row, static_hash=kernel.compose(definition).static_hash)
            await kernel.store.agents.create(row)
            return row.id

    return asyncio.run(make())


def change(id: str) -> None:
    """Make a second version of an agent."""

    async def write() -> None:
        async with Kernel(store="sqlite:///capset.db") as kernel:
            row = await kernel.store.agents.get("acme", id)
            assert row is not None
            assert await kernel.store.agents.replace(replace(row, version=2, system_prompt="Second."))

    asyncio.run(write())


def tell(session: str) -> None:
    """Keep a turn of a session."""

    async def write() -> None:
        async with Kernel(store="sqlite:///capset.db") as kernel:
            some = NewEvent("turn.started", '{"agent":"adder"}')
            turn = TurnRow(session, "t", "here", "9999-12-31T00:00:00.000000Z")
            await kernel.store.events.begin(turn, some, now=kernel.now(), interrupted=some)
            ended = NewEvent("turn.ended", '{"output":"[bold]7"}')
            await kernel.store.events.append(turn, [ended], now=kernel.now(), then=None)

    asyncio.run(write())


@pytest.mark.spec("P5", "P8")
def test_a_session_is_made_shown_moved_and_deleted(run: Run, agent: str) -> None:
    created = run("sessions", "create", agent, "--invocation", '{"n": 1}', "--context", '{"ticket": 7}', *ADA, "--json")
    assert created.code == 0, created.err
    session = created.json
    assert (session["agent_version"], session["context"]) == (1, {"ticket": 7})
    assert session["invocation_hash"] == invocation_hash({"n": 1})
    assert run("sessions", "show", session["id"], *ADA, "--json").json == session
    assert [row["id"] for row in run("sessions", "list", *ADA, "--json").json["items"]] == [session["id"]]
    assert run("sessions", "list", "--principal", "bob", "--org", "acme", "--json").json["items"] == []
    assert session["id"] in run("sessions", "list", "--agent", agent, *ADA).out
    change(agent)
    assert run("sessions", "move", session["id"], "--if-version", "2", *ADA).code == 2
    assert run("sessions", "move", session["id"], *ADA, "--json").json["agent_version"] == 2
    assert run("sessions", "move", session["id"], "--to", "9", *ADA).code == 2
    assert run("sessions", "state", session["id"], *ADA, "--json").json == {}
    assert run("sessions", "delete", session["id"], *ADA, "--json").json == {"deleted": session["id"]}
    gone = run("sessions", "show", session["id"], *ADA)
    assert gone.code == 2
    assert "no session" in gone.err


@pytest.mark.spec("P10")
def test_events_are_printed_one_a_line(run: Run, agent: str) -> None:
    session = run("sessions", "create", agent, *ADA, "--json").json["id"]
    assert run("sessions", "events", session, *ADA).out == ""
    tell(session)
    first, second = run("sessions", "events", session, *ADA).out.splitlines()
    assert first.split()[0] == "1"
    assert second.endswith("turn.ended output=[bold]7")
    (only,) = run("sessions", "events", session, "--after", "1", *ADA, "--json").out.splitlines()
    assert '"type": "turn.ended"' in only
    assert run("sessions", "events", session, "--principal", "bob", "--org", "acme").code == 2
    assert "Invalid value for '--after'" in run("sessions", "events", session, "--after", "9" * 16, *ADA).err
    assert "no version" in run("sessions", "move", session, "--to", "9" * 20, *ADA).err


@pytest.mark.spec("P8")
@pytest.mark.parametrize("text", ["x", "[]", "NaN"])
def test_what_is_no_object_is_refused(run: Run, agent: str, text: str) -> None:
    done = run("sessions", "create", agent, "--context", text, *ADA)
    assert done.code == 2
    assert "--context" in done.err


def test_looking_makes_no_database(run: Run) -> None:
    assert run("sessions", "list").code == 2
    assert not Path("capset.db").exists()


@pytest.mark.spec("P8", "P10")
async def test_on_a_server_it_is_the_same(run: Run) -> None:
    del run  # which gives a folder of one's own
    async with site(generator=Parrot()) as server, server.client() as client:
        session = await make_session(client, "kit")
        stored = (await client.get(f"/v1/sessions/{session}")).json()
        await client.patch(f"/v1/agents/{stored['agent_id']}", json={"description": "changed"})
        as_events = {"Accept": "text/event-stream"}
        await client.post(f"/v1/sessions/{session}/messages", json={"content": {"say": "hi"}}, headers=as_events)
        with environment(CAPSET_URL=server.url, CAPSET_KEY=server.keys["ada"]):
            created = await asyncio.to_thread(run_here, "sessions", "create", stored["agent_id"], "--json")
            fetched = await asyncio.to_thread(run_here, "sessions", "show", session, "--json")
            moved = await asyncio.to_thread(run_here, "sessions", "move", session, "--json")
            events = await asyncio.to_thread(run_here, "sessions", "events", session)
            listing = await asyncio.to_thread(run_here, "sessions", "list", "--json")
    assert created.json["agent_version"] == 2
    assert fetched.json == stored
    assert moved.json["agent_version"] == 2
    assert [line.split()[2] for line in events.out.splitlines()] == ["turn.started", "turn.ended"]
    assert [row["id"] for row in listing.json["items"]] == [created.json["id"], session]
