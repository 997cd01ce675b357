"""Databases of earlier versions: brought up to date with all that is in them, while their processes go on (P30)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from capset import Kernel
from capset.errors import StateError
from capset.ext import CheckpointKey
from capset.stores.base import (
    AgentQuery,
    AgentRow,
    CapabilityRow,
    DocumentRow,
    ScopeKey,
    SessionQuery,
    SessionRow,
    StateRow,
)
from capset.stores.sql.sqlite import SqliteStore
from capset_testing.store_suite.lineage_checks import envelope_row, link_row
from capset_testing.store_suite.support import NOW, begin
from tests.helpers.stores.sql.support import make, opened, raw

AGENT = AgentRow(
    id="agent-1",
    org="acme",
    name="scribe",
    description="",
    system_prompt="",
    instructions=(),
    capabilities=(CapabilityRow("b"), CapabilityRow("a")),
    tags=(),
    status="active",
    version=1,
    static_hash="hash",
    created_at="2026",
    updated_at="2026",
)
PUT_AGENT = (
    "INSERT INTO agents (id, org, name, description, system_prompt, instructions, tags, status, version, static_hash,"
    " created_at, updated_at)"
    " VALUES ('agent-1', 'acme', 'scribe', '', '', '[]', '[]', 'active', 1, 'hash', '2026', '2026')"
)
PUT_CAPABILITY = "INSERT INTO agent_capabilities (agent_id, position, capability_id) VALUES (?, ?, ?)"
STATE = ScopeKey("session", "acme", "s", "notes")
TEXTS = ScopeKey("session", "acme", "s", "memories")


async def test_a_database_of_the_first_version_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    make(path, "0001", "INSERT INTO sessions VALUES ('s', 'scribe', '{}', 'hash', 'user-1', 'user', NULL, '2026')")
    async with opened(path) as store:
        row = SessionRow("s", "scribe", "{}", "hash", "user-1", "user", None, "2026")
        assert await store.sessions.get("s") == row
        assert (await store.sessions.list(SessionQuery(None))).items == (row,)
        assert (await store.agents.list(AgentQuery(None))).total == 0


@pytest.mark.spec("P30")
async def test_a_database_of_the_second_version_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    make(
        path,
        "0002",
        "INSERT INTO sessions (id, agent, definition, static_hash, principal, principal_kind, created_at)"
        " VALUES ('s', 'scribe', '{}', 'hash', 'user-1', 'user', '2026')",
        PUT_AGENT,
        "INSERT INTO agent_capabilities VALUES ('agent-1', 1, 'a'), ('agent-1', 0, 'b')",
    )
    async with opened(path) as store:
        assert await store.agents.get("acme", "agent-1") == AGENT
        used = (CapabilityRow("a", config={"limit": 5}), CapabilityRow("b"))
        assert await store.agents.replace(replace(AGENT, version=2, capabilities=used))
        assert await store.states.change(STATE, lambda _row: "1", now=NOW) == StateRow("1", 1)
        await store.documents.add(TEXTS, DocumentRow("id-1", "text", NOW))
    with raw(path) as file:
        entries = file.execute("SELECT capability_id, entry FROM agent_capabilities ORDER BY position").fetchall()
    assert entries == [("a", '{"config": {"limit": 5}}'), ("b", None)], "a plain id is what it was before"


@pytest.mark.spec("F29", "P30")
async def test_a_database_of_the_version_before_is_brought_up_to_date(tmp_path: Path) -> None:
    """With all that is in it, and beside a process of that version, which was there before the upgrade."""
    path = tmp_path / "a.db"
    make(
        path,
        "0003",
        "INSERT INTO sessions (id, agent, definition, static_hash, principal, principal_kind, org, created_at)"
        " VALUES ('s', 'scribe', '{}', 'hash', 'user-1', 'user', 'acme', '2026')",
        PUT_AGENT,
        "INSERT INTO agent_capabilities VALUES ('agent-1', 1, 'a', NULL), ('agent-1', 0, 'b', NULL)",
        "INSERT INTO states VALUES ('session', 's', 'acme', 'notes', 's', '7', 3, '2026')",
        "INSERT INTO documents VALUES (1, 'session', 's', 'acme', 'memories', 'id-1', 's', 'A text', '2026')",
        "INSERT INTO document_words (rowid, words) VALUES (1, 'a text')",
    )
    with raw(path) as old:
        old.execute("PRAGMA foreign_keys = ON")
        assert old.execute("SELECT count(*) FROM sessions").fetchone() == (1,)
        async with opened(path) as store:
            assert await store.sessions.get("s") == SessionRow(
                "s", "scribe", "{}", "hash", "user-1", "user", "acme", "2026"
            )
            assert await store.agents.get("acme", "agent-1") == AGENT
            assert await store.states.read([STATE]) == [StateRow("7", 3)]
            assert await store.documents.get(TEXTS, "id-1") == DocumentRow("id-1", "A text", "2026")
            link = link_row("link-1", session="s")
            await store.lineage.record_turn(link, envelope_row("id-1", "link-1"))
            for statement in ("DELETE FROM replies WHERE session = 's'", "DELETE FROM sessions WHERE id = 's'"):
                old.execute(statement)
            assert await store.states.read([STATE]) == [StateRow(None, 0)]
            assert await store.lineage.latest_link("acme", "s") == link, "links are not the session's to take along"


@pytest.mark.spec("N30", "P30")
async def test_people_that_were_one_of_all_organisations_are_kept_as_one_of_theirs(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    row = "'p-1', 'T1', 'U1', 'acme', 'ada', 'user', '[]', '2026', 'user:root', NULL"
    make(path, "0033", f"INSERT INTO people VALUES ({row})")
    async with opened(path) as store:
        (ada,) = await store.people.find("T1", "U1")
        assert (ada.id, ada.org, ada.created_by, ada.makers) == ("p-1", "acme", "user:root", ())
        assert not await store.people.add(replace(ada, id="p-2"))
        assert await store.people.add(replace(ada, id="p-3", org="globex"))


@pytest.mark.spec("G41", "P30")
async def test_a_key_that_handed_over_before_there_was_a_list_of_those_never_signs_again(tmp_path: Path) -> None:
    path, newer = tmp_path / "a.db", tmp_path / "b.db"
    old, new = CheckpointKey.generate(), CheckpointKey.generate()
    async with Kernel(store=SqliteStore(str(newer))) as kernel:
        act = kernel.act("checkpoint_key.adopt", {"id": old.public.id})
        assert await kernel.audit.adopt(old.public, replacing=None, act=act)
        act = kernel.act("checkpoint_key.succeed", {"id": new.public.id, "before": old.public.id})
        assert await kernel.audit.adopt(new.public, replacing=old.public.id, act=act)
    make(path, "0033")
    with raw(path) as file:
        file.execute("ATTACH ? AS newer", (str(newer),))
        for table in ("records", "settings"):
            names = ", ".join(row[1] for row in file.execute(f"PRAGMA main.table_info({table})"))
            where = "WHERE name != 'retired_checkpoint_keys'" if table == "settings" else ""
            file.execute(f"INSERT OR REPLACE INTO main.{table} ({names}) SELECT {names} FROM newer.{table} {where}")
    async with Kernel(store=SqliteStore(str(path))) as kernel:
        signer = await kernel.audit.signer()
        assert signer is not None
        assert signer.id == new.public.id
        act = kernel.act("checkpoint_key.succeed", {"id": old.public.id, "before": new.public.id})
        assert not await kernel.audit.adopt(old.public, replacing=new.public.id, act=act)


@pytest.mark.spec("P30")
async def test_a_process_of_the_second_version_goes_on_beside_a_new_one(tmp_path: Path) -> None:
    """With the statements of revision 0002, on a connection that was open before the upgrade."""
    path = tmp_path / "a.db"
    make(path, "0002")
    with raw(path) as old:
        old.execute("PRAGMA foreign_keys = ON")
        query = "SELECT agent_id, position, capability_id FROM agent_capabilities WHERE agent_id = ? ORDER BY position"
        assert old.execute(query, ("agent-1",)).fetchall() == []
        async with opened(path) as store:
            old.execute(PUT_AGENT)
            for position, capability_id in enumerate("ba"):
                old.execute(PUT_CAPABILITY, ("agent-1", position, capability_id))
            assert await store.agents.get("acme", "agent-1") == AGENT
            used = (CapabilityRow("a", prefix="x_"), CapabilityRow("b"))
            assert await store.agents.replace(replace(AGENT, version=2, capabilities=used))
            assert old.execute(query, ("agent-1",)).fetchall() == [("agent-1", 0, "a"), ("agent-1", 1, "b")]

            await begin(store, "s", "t")
            for session in "st":
                await store.states.change(replace(STATE, owner=session), lambda _row: "1", now=NOW)
                await store.documents.add(replace(TEXTS, owner=session), DocumentRow("id-1", "text", NOW))
            old.execute("DELETE FROM sessions WHERE id = 's'")
            assert await store.states.read([STATE, replace(STATE, owner="t")]) == [StateRow(None, 0), StateRow("1", 1)]
            assert await store.documents.recent(TEXTS, limit=9) == []
            with pytest.raises(StateError, match="was deleted"):
                await store.states.change(STATE, lambda _row: "2", now=NOW)
        assert old.execute("SELECT count(*) FROM document_words").fetchone() == (1,), "its words are gone too"
