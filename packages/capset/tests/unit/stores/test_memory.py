"""What is particular to the store in memory: what goes is forgotten, and what is read cannot change it."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from capset.errors import StateError
from capset.stores.base import AuditQuery, Claim, NewEvent, TurnRow, Window, WindowFull
from capset.stores.memory import MemoryStore, admissions
from capset_testing.store_suite.support import NOW, begin, entry


@pytest.mark.spec("P25")
async def test_content_is_kept_once_within_an_org_and_goes_with_the_last_file() -> None:
    store = MemoryStore()
    await store.open()
    await begin(store, "s", "t", "u")
    files, blobs = store.files, store.files._blobs._content
    for session, path, org in (("s", "/d/a", "acme"), ("s", "/b", "acme"), ("t", "/a", "acme"), ("u", "/a", None)):
        await files.write(session, path, b"shared", org=org, now=NOW)
    assert sorted(content for content in blobs.values()) == [b"shared", b"shared"]
    await files.write("s", "/b", b"another", org="acme", now=NOW)
    assert len(blobs) == 3
    for session in "stu":
        await files.delete(session, "/", recursive=True)
    assert not blobs
    tree = files._trees["s"]
    assert (tree.orgs, tree._nodes, list(tree._children)) == ({}, {}, ["/"])


async def test_what_was_given_and_what_was_read_cannot_change_what_is_kept() -> None:
    store = MemoryStore()
    await store.open()
    await begin(store, "s")
    content = bytearray(b"one")
    await store.files.write("s", "/a", cast("bytes", content), org=None, now=NOW)
    content[:] = b"two"
    assert (await store.files.read("s", "/a"))[1] == b"one"
    taken = entry("a")
    await store.audit.commit(taken)
    values = taken.columns()
    assert isinstance(values, dict)
    values["tool"] = "another"
    assert (await store.audit.query(AuditQuery())).items[0].tool == "save_note"
    assert (await store.audit.verify()).ok


def test_a_store_serves_several_event_loops_in_turn() -> None:
    store = MemoryStore()
    asyncio.run(store.open())
    asyncio.run(store.audit.commit(entry("a")))
    assert len(asyncio.run(store.audit.query(AuditQuery())).items) == 1


@pytest.mark.spec("G13")
async def test_windows_that_still_count_are_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admissions, "_SWEEP_EVERY", 3)
    store = MemoryStore()
    await store.open()
    second = 1_000_000_000
    for number in range(20):
        claim = Claim(
            f"call-{number}", lambda number=number: number * second, (Window(f"window-{number}", 1, 60 * second),)
        )
        await store.admissions.admit(claim, None)
    for number in range(20):
        repeated = Claim("again", lambda: 20 * second, (Window(f"window-{number}", 1, 60 * second),))
        assert isinstance(await store.admissions.look(repeated), WindowFull)
    later = Claim("later", lambda: 1_000 * second, tuple(Window(f"new-{number}", 1, second) for number in range(5)))
    await store.admissions.admit(later, None)
    assert not [key for key in store.admissions._windows if key.startswith("window-")]


async def test_a_turn_of_no_session_says_that_it_is_the_turn() -> None:
    store = MemoryStore()
    await store.open()
    started = NewEvent("turn.started", "{}")
    with pytest.raises(StateError, match="turn"):
        await store.events.begin(TurnRow("none", "turn-1", "me", NOW), started, now=NOW, interrupted=started)


@pytest.mark.spec("G19")
@pytest.mark.parametrize("reading", ["query", "read", "span", "verify"])
async def test_every_reading_of_the_record_has_what_was_appended_before(reading: str) -> None:
    store = MemoryStore()
    await store.open()
    audit = store.audit
    audit.append(entry("a"))
    match reading:
        case "query":
            assert len((await audit.query(AuditQuery())).items) == 1
        case "read":
            assert len(await audit.read()) == 1
        case "span":
            assert await audit.span() == (1, 1)
        case _:
            assert (await audit.verify()).checked == 1
