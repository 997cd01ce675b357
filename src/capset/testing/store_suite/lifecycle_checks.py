"""Checks of opening and closing: no accepted entry is lost, and open intents are closed (spec 4, G19, G23)."""

from __future__ import annotations

from typing import Final

from capset.errors import StoreError
from capset.stores.base import AgentQuery, AuditQuery, DocumentRow, ScopeKey
from capset.testing.store_suite.support import NOW, Check, Make, begin, entry, expect, expect_error, intent, opened


async def what_was_taken_outlives_closing(make: Make) -> None:
    """``close`` writes buffered entries; a reopened store continues where it was."""
    store = make()
    await store.open()
    store.audit.append(entry("a"))
    await begin(store, "session-1")
    await store.files.write("session-1", "/a.txt", b"kept", org=None, now=NOW)
    await store.close()
    await store.open()
    await store.audit.commit(entry("b"))
    page = await store.audit.query(AuditQuery())
    found = await store.audit.verify()
    _, content = await store.files.read("session-1", "/a.txt")
    await store.close()
    expect([(record.seq, record.id) for record in page.items], [(2, "b"), (1, "a")], "the records")
    expect(found.problem, None, "the chain over both times")
    expect(len({record.writer for record in page.items}), 2, "the writers: one for each time")
    expect(content, b"kept", "the file")


async def an_open_intent_is_closed_as_interrupted(make: Make) -> None:
    """Check that an intent left open by its writer gets an outcome at opening; one with an outcome gets no other."""
    store = make()
    await store.open()
    await store.audit.commit(intent("a", correlation="x"))
    await store.audit.commit(intent("b"))
    await store.audit.commit(entry("b"))
    await store.close()
    for _ in range(2):
        await store.open()
        page = await store.audit.query(AuditQuery(id="a"))
        found = await store.audit.verify()
        await store.close()
        expect([record.outcome for record in page.items], ["interrupted"], "the outcomes of the open intent")
        expect((found.problem, found.checked), (None, 4), "the chain")
        record = page.items[0]
        expect((record.code, record.decision, record.correlation), ("interrupted", "allow", "x"), "its columns")
        expect(record.time > NOW, True, "whether it has a time of its own")


async def a_store_that_is_not_open_refuses(make: Make) -> None:
    """Before ``open`` and after ``close``, everything raises ``StoreError`` and nothing is accepted."""
    store = make()
    for _ in range(2):

        async def append() -> None:
            store.audit.append(entry("a"))

        await expect_error(StoreError, append(), "append")
        await expect_error(StoreError, store.audit.commit(entry("a")), "commit")
        await expect_error(StoreError, store.audit.flush(), "flush")
        await expect_error(StoreError, store.audit.query(AuditQuery()), "query")
        await expect_error(StoreError, store.audit.verify(), "verify")
        await expect_error(StoreError, store.sessions.get("a"), "sessions.get")
        await expect_error(StoreError, store.files.stat("a", "/"), "files.stat")
        await expect_error(StoreError, store.files.delete("a", "/", recursive=True), "files.delete")
        await expect_error(StoreError, store.files.move("a", "/a", "/b", overwrite=False, now=NOW), "files.move")
        await expect_error(StoreError, store.files.read_many("a", ["/a"]), "files.read_many")
        key = ScopeKey("user", None, "ada", "notes")
        await expect_error(StoreError, store.states.read([key]), "states.read")
        await expect_error(StoreError, store.states.change(key, lambda _row: "1", now=NOW), "states.change")
        await expect_error(StoreError, store.documents.add(key, DocumentRow("a", "text", NOW)), "documents.add")
        await expect_error(StoreError, store.documents.recent(key, limit=1), "documents.recent")
        await expect_error(StoreError, store.documents.search(key, "text", limit=1), "documents.search")
        await expect_error(StoreError, store.lineage.record_payloads([]), "lineage.record_payloads")
        await expect_error(StoreError, store.lineage.latest_link(None, "session-1"), "lineage.latest_link")
        await expect_error(StoreError, store.lineage.envelope(None, "a"), "lineage.envelope")
        await expect_error(StoreError, store.lineage.payload(None, "a"), "lineage.payload")
        await expect_error(StoreError, store.keys.find("a"), "keys.find")
        await expect_error(StoreError, store.keys.list(), "keys.list")
        await expect_error(StoreError, store.keys.any(), "keys.any")
        await expect_error(StoreError, store.keys.revoke("a", NOW), "keys.revoke")
        await expect_error(StoreError, store.agents.get(None, "a"), "agents.get")
        await expect_error(StoreError, store.agents.list(AgentQuery(None)), "agents.list")
        await expect_error(StoreError, store.agents.version(None, "a", 1), "agents.version")
        await expect_error(StoreError, store.agents.by_hash(None, "a"), "agents.by_hash")
        await expect_error(StoreError, store.approvals.get(None, "a"), "approvals.get")
        await expect_error(StoreError, store.approvals.overdue(NOW), "approvals.overdue")
        await expect_error(StoreError, store.replies.release("a", "b"), "replies.release")
        await expect_error(StoreError, store.events.read("a", after=0, limit=1), "events.read")
        await store.open()
        await expect_error(StoreError, store.open(), "open when it is open")
        await store.close()
        await store.close()


async def the_digest_key_is_made_once(make: Make) -> None:
    """Check that the key is the same 32 bytes after closing and opening, and different in another store."""
    store = make()
    await store.open()
    first = await store.audit.digest_key()
    await store.close()
    await store.open()
    again = await store.audit.digest_key()
    await store.close()
    async with opened(make) as other:
        another = await other.audit.digest_key()
    expect(len(first), 32, "the key's bytes")
    expect(again, first, "the key after opening again")
    expect(another != first, True, "whether another store has a key of its own")


CHECKS: Final[tuple[Check, ...]] = (
    what_was_taken_outlives_closing,
    an_open_intent_is_closed_as_interrupted,
    a_store_that_is_not_open_refuses,
    the_digest_key_is_made_once,
)
