"""Checks of sessions."""

from __future__ import annotations

from dataclasses import replace

from capset.errors import StoreError
from capset.stores.base import SessionQuery
from capset_testing.store_suite.support import LATER, NOW, Make, expect, expect_error, open_store, session_row


async def a_session_comes_back_as_it_was_given(make: Make) -> None:
    """Check sessions with and without an org."""
    async with open_store(make) as store:
        await store.sessions.create(session_row("a"))
        await store.sessions.create(session_row("b", org="acme"))
        expect(await store.sessions.get("a"), session_row("a"), "the session without an org")
        expect(await store.sessions.get("b"), session_row("b", org="acme"), "the session with an org")
        expect(await store.sessions.get("c"), None, "a missing session")


async def a_second_session_of_an_id_is_refused(make: Make) -> None:
    """Check that the first session stays unchanged."""
    async with open_store(make) as store:
        await store.sessions.create(session_row("a"))
        await expect_error(StoreError, store.sessions.create(session_row("a", org="acme")), "a second session of an id")
        expect(await store.sessions.get("a"), session_row("a"), "the first session")


async def a_door_keeps_one_session(make: Make) -> None:
    """Check that the session keeps id, files and time but takes a new definition; other doors have their own."""
    async with open_store(make) as store:
        first = replace(session_row("a"), door="x", agent_id="agent-1", agent_version=1)
        expect(await store.sessions.upsert(first), first, "the first session of a door")
        await store.files.write("a", "/x.txt", b"kept", org=None, now=NOW)
        later = replace(first, id="b", created_at=LATER, definition='{"name":"other"}', agent_version=2)
        expected = replace(later, id="a", created_at=NOW)
        expect(await store.sessions.upsert(later), expected, "the session that the door keeps")
        expect(await store.sessions.get("a"), expected, "the session of the door")
        expect(await store.sessions.find("x"), expected, "the session that is found by its door")
        expect(await store.sessions.find("y"), None, "a door that no session has")
        expect(await store.sessions.get("b"), None, "a second session of the door")
        expect((await store.files.read("a", "/x.txt"))[1], b"kept", "its file")
        other = replace(first, id="c", door="y")
        expect(await store.sessions.upsert(other), other, "the session of another door")


async def a_session_moves_to_another_version_of_its_agent(make: Make) -> None:
    """Check that only the agent's fields change, and only from the expected version."""
    async with open_store(make) as store:
        fields = {"agent_id": "agent-1", "agent_version": 1, "invocation_hash": "4" * 64, "context": '{"ticket":7}'}
        first = replace(session_row("a"), **fields)
        await store.sessions.create(first)
        expect(await store.sessions.get("a"), first, "a session with an invocation and a context")
        agent = {"agent": "other", "definition": '{"name":"other"}', "static_hash": "2" * 64, "agent_version": 2}
        moved = replace(first, **agent, created_at=LATER, principal="user-2", context=None)
        expect(await store.sessions.move(moved, expected=3), False, "moving from a version that it does not have")
        expect(await store.sessions.get("a"), first, "the session that was not moved")
        expect(await store.sessions.move(moved, expected=1), True, "moving a session")
        expect(await store.sessions.get("a"), replace(first, **agent), "the session that was moved")
        expect(await store.sessions.move(first, expected=None), True, "moving it from any version")
        expect(await store.sessions.get("a"), first, "the session that was moved back")
        expect(await store.sessions.move(session_row("b"), expected=None), False, "moving a missing session")


async def sessions_are_listed_newest_first_by_org(make: Make) -> None:
    """Check pages and filters."""
    async with open_store(make) as store:
        rows = [session_row(f"id-{number}", org="acme" if number % 2 else None) for number in range(6)]
        rows[5] = replace(rows[5], principal="user-2", agent_id="agent-1")
        rows[1] = replace(rows[1], on_behalf_of="user:user-2")
        for row in rows:
            await store.sessions.create(row)
        page = await store.sessions.list(SessionQuery(None, limit=2))
        expect(page.items, (rows[4], rows[2]), "the first page")
        page = await store.sessions.list(SessionQuery(None, limit=2, before=page.next))
        expect((page.items, page.next), ((rows[0],), None), "the last page")
        for query, items in (
            (SessionQuery("acme"), (rows[5], rows[3], rows[1])),
            (SessionQuery("acme", principal="user-2"), (rows[5],)),
            (SessionQuery("acme", principal="user-1", principal_kind="user"), (rows[3],)),
            (SessionQuery("acme", principal="user-1", principal_kind="agent"), ()),
            (SessionQuery("acme", principal="user-1"), (rows[3], rows[1])),
            (SessionQuery("acme", "user-1", "user", on_behalf_of="user:user-2"), (rows[1],)),
            (SessionQuery("acme", agent_id="agent-1"), (rows[5],)),
            (SessionQuery("acme", text="%"), ()),
            (SessionQuery("acme", text="D-3"), (rows[3],)),
            (SessionQuery("acme", text=rows[1].agent[1:4].upper()), (rows[5], rows[3], rows[1])),
            (SessionQuery("other"), ()),
        ):
            expect((await store.sessions.list(query)).items, items, f"what {query} finds")


async def a_deleted_session_takes_its_files_with_it(make: Make) -> None:
    """Files of other sessions stay, even those with the same content."""
    async with open_store(make) as store:
        for session_id in ("a", "b"):
            await store.sessions.create(replace(session_row(session_id), door=session_id))
            await store.files.write(session_id, "/in/x.txt", b"same", org=None, now=NOW)
        expect(await store.sessions.delete("a"), True, "deleting a session")
        expect(await store.sessions.delete("a"), False, "deleting it again")
        expect(await store.sessions.get("a"), None, "the deleted session")
        expect(await store.files.list("a", "/", recursive=True), [], "its files")
        expect((await store.files.read("b", "/in/x.txt"))[1], b"same", "the other session's file")
        new_row = replace(session_row("c"), door="a")
        expect(await store.sessions.upsert(new_row), new_row, "a new session of the deleted one's door")
