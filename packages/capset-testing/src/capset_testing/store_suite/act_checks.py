"""Checks of administrative acts, which are on record if and only if their change is made, and of a log's key."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, cast

from capset.definitions.governance.acts import ActName
from capset.errors import Conflict, StoreError
from capset.fingerprint.checkpoints import CheckpointKey
from capset.stores.base import AuditQuery, Entry, KeyRow, SessionRow, Store
from capset_testing.store_suite.support import LATER, NOW, Make, entry, expect, expect_error, open_store

_KEY: Final = KeyRow("id-0", "laptop", "0" * 64, None, "user-1", "user", (), ("capset:read",), NOW)


def act(id: str, name: ActName = "key.create", **changes: str | int | None) -> Entry:
    """Return an act."""
    return entry(id, phase="act", act=name, source="cli ada", **changes)


async def _acts_of(store: Store) -> list[str]:
    """Return the ids of the acts on record, oldest first."""
    page = await store.audit.query(AuditQuery(kind="act", limit=100))
    return [record.id for record in reversed(page.items)]


async def an_act_is_on_record_if_its_change_is_made(make: Make) -> None:
    """Check every change that takes an act, first when it is made, then when it is not."""
    async with open_store(make) as store:
        await store.sessions.create(SessionRow("s", "agent", "{}", "0" * 64, "user-1", "user", None, NOW))
        done: dict[str, Callable[[Entry], Awaitable[object]]] = {
            "create": lambda record: store.keys.create(_KEY, act=record),
            "revoke": lambda record: store.keys.revoke("id-0", NOW, act=record),
            "write": lambda record: store.files.write("s", "/a", b"x", org=None, now=NOW, version=0, act=record),
            "remove": lambda record: store.files.delete("s", "/a", recursive=False, act=record),
            "delete": lambda record: store.sessions.delete("s", act=record),
        }
        for name, change in done.items():
            await change(act(name))
        expect(await _acts_of(store), list(done), "the acts of the changes that were made")
        await expect_error(StoreError, store.keys.create(_KEY, act=act("twin")), "a second key with its id")
        await store.keys.revoke("id-0", LATER, act=act("revoked already"))
        await store.sessions.delete("s", act=act("deleted already"))
        expect(await _acts_of(store), list(done), "the acts, without those of changes that were not made")
        expect((await store.audit.verify()).problem, None, "the problem of the chain")


async def a_change_whose_act_cannot_be_recorded_is_not_made(make: Make) -> None:
    """Check that a change is not made if its record is refused because its id and phase are taken."""
    async with open_store(make) as store:
        await store.audit.commit(act("taken"))
        await expect_error(StoreError, store.keys.create(_KEY, act=act("taken")), "a change without its record")
        expect(await store.keys.list(), [], "the keys")
        await store.sessions.create(SessionRow("s", "agent", "{}", "0" * 64, "user-1", "user", None, NOW))
        writing = store.files.write("s", "/a", b"x", org=None, now=NOW, act=act("taken"))
        await expect_error(StoreError, writing, "a file without its record")
        expect(await store.files.stat("s", "/a"), None, "the file")
        await store.files.write("s", "/a", b"x", org=None, now=NOW)
        removed = store.files.delete("s", "/a", recursive=False, act=act("taken"))
        await expect_error(StoreError, removed, "a deletion without its record")
        expect((await store.files.read("s", "/a"))[1], b"x", "the file that was not deleted")
        expect(await store.events.rewind("s", to=0, act=act("rewind")), 0, "the number of messages that were cut")
        expect(await _acts_of(store), ["taken"], "the acts")
        broken = act("broken", tool=cast("str", 5))
        await expect_error(StoreError, store.keys.create(_KEY, act=broken), "a change with a broken record")
        expect(await store.keys.list(), [], "the keys")


async def acts_and_calls_are_listed_apart_or_together(make: Make) -> None:
    """Check what each kind of query finds, across pages."""
    async with open_store(make) as store:
        for number in range(3):
            await store.audit.commit(entry(f"call-{number}", act=None, source=None))
            await store.audit.commit(act(f"act-{number}", "log.read" if number else "key.create"))
        names = ("act-2", "call-2", "act-1", "call-1", "act-0", "call-0")
        for query, ids in (
            (AuditQuery(), names[1::2]),
            (AuditQuery(kind="act"), names[::2]),
            (AuditQuery(act="log.read"), ("act-2", "act-1")),
            (AuditQuery(act="log.read", kind="call"), ()),
            (AuditQuery(kind="all"), names),
            (AuditQuery(kind="all", limit=3), names[:3]),
            (AuditQuery(kind="all", limit=3, before=4), names[3:]),
        ):
            items = (await store.audit.query(query)).items
            expect(tuple(record.id for record in items), tuple(ids), f"the records of {query}")


async def a_log_has_one_key(make: Make) -> None:
    """Check that the first key is adopted, and another only as its replacement, each with an act."""
    async with open_store(make) as store:
        first, second, third = (CheckpointKey.generate().public for _ in range(3))
        expect(await store.audit.signer(), None, "the key of a new log")
        for number, (key, before, is_adopted) in enumerate(
            (
                (first, None, True),
                (first, None, False),
                (second, None, False),
                (second, third.id, False),
                (second, first.id, True),
                (second, second.id, False),
            )
        ):
            was_adopted = await store.audit.adopt(key, replacing=before, act=act(str(number), "checkpoint_key.adopt"))
            expect(was_adopted, is_adopted, f"whether try {number} changed the key")
        signer = await store.audit.signer()
        expect(signer and signer.id, second.id, "the log's key")
        expect(await _acts_of(store), ["0", "4"], "the acts of adoption")


async def a_key_that_has_handed_over_signs_no_more(make: Make) -> None:
    """Check that a replaced key makes no checkpoint, prunes nothing and is not adopted again; its successor signs."""
    async with open_store(make) as store:
        old, new = CheckpointKey.generate(), CheckpointKey.generate()
        before, after = old.public.id, new.public.id
        await store.audit.commit(entry("call", time=NOW))
        await store.audit.checkpoint(old, now=NOW)
        expect(await store.audit.adopt(new.public, replacing=before, act=act("a")), True, "whether it was replaced")
        await expect_error(Conflict, store.audit.checkpoint(old, now=NOW), "a checkpoint by a replaced key")
        await expect_error(Conflict, store.audit.prune(LATER, old, now=NOW), "pruning by a replaced key")
        expect(await store.audit.adopt(old.public, replacing=after, act=act("b")), False, "whether the old key is back")
        checkpoint = await store.audit.checkpoint(new, now=NOW)
        expect(checkpoint and (checkpoint.number, checkpoint.key), (2, after), "the checkpoint of its successor")
        expect((await store.audit.verify([old.public, new.public])).ok, True, "whether the log verifies with both keys")


async def a_log_that_is_signed_adopts_no_other_key(make: Make) -> None:
    """Check that the key of the newest checkpoint counts as the log's own."""
    async with open_store(make) as store:
        key, other = CheckpointKey.generate(), CheckpointKey.generate().public
        await store.audit.commit(entry("call"))
        await store.audit.checkpoint(key, now=NOW)
        expect(await store.audit.adopt(other, replacing=None, act=act("a")), False, "whether another was adopted")
        expect(await store.audit.adopt(key.public, replacing=None, act=act("b")), True, "whether its own was adopted")
