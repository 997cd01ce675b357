"""What is particular to the store in memory: what goes is forgotten, and what is read cannot change it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from operator import methodcaller
from typing import cast

import pytest

from capset.errors import StateError
from capset.stores.base import AuditLog, AuditQuery, Claim, NewEvent, TurnRow, Window, WindowFull
from capset.stores.memory import MemoryStore, admissions
from capset_testing.store_suite.support import NOW, create_sessions, entry

SECOND = 1_000_000_000


@pytest.fixture
async def store() -> MemoryStore:
    store = MemoryStore()
    await store.open()
    await create_sessions(store, "s", "t", "u")
    return store


@pytest.mark.spec("P25")
async def test_content_is_kept_once_within_an_org_and_goes_with_the_last_file(store: MemoryStore) -> None:
    files, blobs = store.files, store.files._blobs._content
    for session, path, org in (("s", "/d/a", "acme"), ("s", "/b", "acme"), ("t", "/a", "acme"), ("u", "/a", None)):
        await files.write(session, path, b"shared", org=org, now=NOW)
    assert [*blobs.values()] == [b"shared", b"shared"]
    await files.write("s", "/b", b"another", org="acme", now=NOW)
    assert len(blobs) == 3
    for session in "stu":
        await files.delete(session, "/", recursive=True)
    assert not blobs
    tree = files._trees["s"]
    assert (tree.orgs, tree._nodes, list(tree._children)) == ({}, {}, ["/"])


async def test_what_was_given_and_what_was_read_cannot_change_what_is_kept(store: MemoryStore) -> None:
    content = bytearray(b"one")
    await store.files.write("s", "/a", cast("bytes", content), org=None, now=NOW)
    content[:] = b"two"
    assert (await store.files.read("s", "/a"))[1] == b"one"
    committed = entry("a")
    await store.audit.commit(committed)
    values = committed.columns()
    assert isinstance(values, dict)
    values["tool"] = "another"
    assert (await store.audit.query(AuditQuery())).items[0].tool == "save_note"
    assert (await store.audit.verify()).ok


def test_a_store_serves_several_event_loops_in_turn() -> None:
    store = MemoryStore()
    asyncio.run(store.open())
    asyncio.run(store.audit.commit(entry("a")))
    assert len(asyncio.run(store.audit.query(AuditQuery())).items) == 1


def claim(id: str, now: int, *windows: str, seconds: int = 60) -> Claim:
    return Claim(id, lambda: now * SECOND, tuple(Window(name, 1, seconds * SECOND) for name in windows))


@pytest.mark.spec("G13")
async def test_windows_that_still_count_are_not_forgotten(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admissions, "_SWEEP_EVERY", 3)
    for number in range(20):
        await store.admissions.admit(claim(f"call-{number}", number, f"window-{number}"), None)
    for number in range(20):
        assert isinstance(await store.admissions.check(claim("again", 20, f"window-{number}")), WindowFull)
    await store.admissions.admit(claim("later", 1_000, *(f"new-{number}" for number in range(5)), seconds=1), None)
    assert not [key for key in store.admissions._windows if key.startswith("window-")]


async def test_a_turn_of_no_session_says_that_it_is_the_turn(store: MemoryStore) -> None:
    started = NewEvent("turn.started", "{}")
    with pytest.raises(StateError, match="turn"):
        await store.events.begin(TurnRow("none", "turn-1", "me", NOW), started, now=NOW, interrupted=started)


@pytest.mark.spec("G19")
@pytest.mark.parametrize("read", [methodcaller("query", AuditQuery()), *map(methodcaller, ("read", "span", "verify"))])
async def test_every_reading_of_the_record_has_what_was_appended_before(
    store: MemoryStore, read: Callable[[AuditLog], Awaitable[object]]
) -> None:
    before = await read(store.audit)
    store.audit.append(entry("a"))
    assert await read(store.audit) != before
