"""What is particular to the store in memory: what goes is forgotten, and what is read cannot change it."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from capset.stores.base import AuditQuery
from capset.stores.memory import MemoryStore
from capset.testing.store_suite.support import NOW, begin, entry


@pytest.mark.spec("P25")
async def test_content_is_kept_once_within_an_org_and_goes_with_the_last_file() -> None:
    store = MemoryStore()
    await store.open()
    await begin(store, "s", "t", "u")
    files, kept = store.files, store.files._blobs._content
    for session, path, org in (("s", "/d/a", "acme"), ("s", "/b", "acme"), ("t", "/a", "acme"), ("u", "/a", None)):
        await files.write(session, path, b"shared", org=org, now=NOW)
    assert sorted(content for content in kept.values()) == [b"shared", b"shared"]
    await files.write("s", "/b", b"another", org="acme", now=NOW)
    assert len(kept) == 3
    for session in "stu":
        await files.delete(session, "/", recursive=True)
    assert not kept
    tree = files._trees["s"]
    assert (tree.orgs, tree._nodes, list(tree._children)) == ({}, {}, ["/"])


async def test_what_was_given_and_what_was_read_cannot_change_what_is_kept() -> None:
    store = MemoryStore()
    await store.open()
    await begin(store, "s")
    given = bytearray(b"one")
    await store.files.write("s", "/a", cast("bytes", given), org=None, now=NOW)
    given[:] = b"two"
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
