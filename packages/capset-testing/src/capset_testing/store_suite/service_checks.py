"""Checks of a server's own data: API keys, signing keys, the directory, and replies."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from capset.errors import StoreError
from capset.stores.base import (
    AgentRow,
    KeyQuery,
    KeyRow,
    KnownOrg,
    KnownPrincipal,
    Page,
    ReplyRow,
    SessionRow,
    SigningKey,
)
from capset.stores.base.replies import KeysFull
from capset_testing.store_suite.support import LATER, NOW, Make, expect, expect_error, open_store

_KEY: Final = KeyRow(
    id="id-0",
    name="laptop",
    digest="0" * 64,
    org="acme",
    principal="user-1",
    principal_kind="user",
    permissions=("notes:read", "notes:write"),
    scopes=("capset:read",),
    created_at=NOW,
    expires_at=LATER,
    agent="id-a",
    attributes={"tier": "pro", "level": 3},
    allowance={"session": {"calls": 5}},
    makers=("user:root", "user:boss"),
)

_ROW: Final = ReplyRow("a", "key-1", "0" * 64, NOW)


async def a_key_is_found_by_its_digest(make: Make) -> None:
    """Check that it is unchanged, and that a second key with its id or digest is refused."""
    async with open_store(make) as store:
        other = replace(_KEY, id="id-1", digest="1" * 64, org=None, permissions=(), expires_at=None, agent=None)
        other = replace(other, attributes=None, allowance=None, makers=())
        expect(await store.keys.any(), False, "whether there is a key")
        await store.keys.create(_KEY)
        await store.keys.create(other)
        expect(await store.keys.find("0" * 64), _KEY, "the key")
        expect(await store.keys.find("1" * 64), other, "the other key")
        expect(await store.keys.find("2" * 64), None, "a missing key")
        for twin in (replace(_KEY, digest="3" * 64), replace(_KEY, id="id-3")):
            await expect_error(StoreError, store.keys.create(twin), "a second key with an id or a digest")
        expect(await store.keys.list(), [other, _KEY], "all keys, newest first")
        expect(await store.keys.any(), True, "whether there is a key")


async def a_key_is_revoked_once(make: Make) -> None:
    """Check that the time of the first revocation stays, and so does the key itself."""
    async with open_store(make) as store:
        await store.keys.create(_KEY)
        revoked = replace(_KEY, revoked_at=NOW)
        expect(await store.keys.revoke("id-0", NOW), revoked, "the revoked key")
        expect(await store.keys.revoke("id-0", LATER), revoked, "the key that is revoked again")
        expect(await store.keys.find("0" * 64), revoked, "the key that is found")
        expect(await store.keys.revoke("id-9", NOW), None, "revoking a missing key")


async def revoked_keys_are_found_among_many(make: Make) -> None:
    """Check one lookup of many digests: only revoked ones among them are returned, no unknown ones."""
    async with open_store(make) as store:
        keys = [replace(_KEY, id=f"id-{number}", digest=f"{number:064}") for number in range(5)]
        for key in keys:
            await store.keys.create(key)
        for key in keys[1:4]:
            await store.keys.revoke(key.id, NOW)
        digests = [*(key.digest for key in keys[:3]), *(f"{number:064}" for number in range(10, 1_500))]
        expect(await store.keys.revoked(digests), frozenset(key.digest for key in keys[1:3]), "the revoked keys")
        expect(await store.keys.revoked([]), frozenset[str](), "the revoked ones among no keys")


async def keys_are_paged_by_org(make: Make) -> None:
    """Check pages of the keys of one org, of none and of all, newest first, and lookup by id."""
    async with open_store(make) as store:
        orgs = ("acme", None, "globex", "acme", None, "acme")
        rows = [
            replace(_KEY, id=f"id-{number}", digest=str(number) * 64, org=org, principal=f"user-{number % 2}")
            for number, org in enumerate(orgs)
        ]
        for row in rows:
            await store.keys.create(row)

        async def ids(query: KeyQuery) -> list[str]:
            return [key.id for key in (await store.keys.page(query)).items]

        expect(await ids(KeyQuery(None)), [f"id-{number}" for number in (5, 4, 3, 2, 1, 0)], "keys of all orgs")
        expect(await ids(KeyQuery("")), ["id-4", "id-1"], "keys of no org")
        expect(await ids(KeyQuery("acme", principal="user-1")), ["id-5", "id-3"], "keys of a principal of an org")
        first = await store.keys.page(KeyQuery("acme", limit=2))
        expect((first.items, first.next), ((rows[5], rows[3]), "id-3"), "the first page")
        expect(await store.keys.page(KeyQuery("acme", before="id-3")), Page((rows[0],), None), "the last page")
        expect(await ids(KeyQuery(None, max_bytes=1)), ["id-5"], "a page that ends by its size")
        expect(await store.keys.get("id-2"), rows[2], "a key by its id")
        expect(await store.keys.get("id-9"), None, "a missing key")


async def signing_keys_are_shared_and_renewed(make: Make) -> None:
    """Check that a key is made when it is needed, and that earlier ones stay until they expire."""
    async with open_store(make) as store:

        async def keys(now: str, *, renewed: str, expired: str = "") -> list[SigningKey]:
            return [*await store.keys.signing_keys(now=now, renewed=renewed, expired=expired)]

        (first,) = await keys(NOW, renewed=NOW)
        expect((first.made_at, len(bytes.fromhex(first.key))), (NOW, 32), "the first key")
        expect(await keys(LATER, renewed=NOW), [first], "the keys while the first is young enough")
        second, *others = await keys(LATER, renewed=LATER)
        expect((second.made_at, others), (LATER, [first]), "the keys after a new one was made")
        expect(second.key != first.key, True, "whether the new key is another")
        expect(await keys(LATER, renewed=LATER, expired=LATER), [second, first], "the keys if nothing is made")
        third, *others = await keys(LATER, renewed="9", expired=LATER)
        expect((third.made_at, others), (LATER, [second]), "the keys after the first has expired")


async def principals_and_orgs_are_known(make: Make) -> None:
    """Check principals with the time of their newest session, and organisations with their counts."""
    async with open_store(make) as store:

        async def create_session(id: str, org: str | None, principal: str, kind: str = "user", now: str = NOW) -> None:
            await store.sessions.create(SessionRow(id, "scribe", "{}", "1" * 64, principal, kind, org, now))

        await create_session("s-1", "acme", "bob")
        await create_session("s-2", "acme", "bob", now=LATER)
        await create_session("s-3", "acme", "ada", "agent")
        await create_session("s-4", "acme", "ada")
        await create_session("s-5", None, "eve")
        agent = AgentRow("a-1", "globex", "scribe", "", "", (), (), (), "active", 1, "1" * 64, NOW, NOW)
        await store.agents.create(agent)
        await store.keys.create(_KEY)
        await store.keys.create(replace(_KEY, id="id-1", digest="1" * 64, org=None))
        principals = [KnownPrincipal("ada", "agent", NOW), KnownPrincipal("ada", "user", NOW)]
        principals.append(KnownPrincipal("bob", "user", LATER))
        find = store.directory.principals
        first, second, last = principals
        expect(await find("acme"), Page((first, second, last), None), "the principals of an org")
        expect(await find("acme", limit=2), Page((first, second), ("ada", "user")), "the first principals")
        expect(await find("acme", limit=2, after=("ada", "agent")), Page((second, last), None), "those after one")
        expect(await find(None), Page((KnownPrincipal("eve", "user", NOW),), None), "the principals of no org")
        expect(await find("acme", text="nothing"), Page((), None), "principals without a text in their id")
        expect(await find("acme", text="DA"), Page((first, second), None), "principals with a text in their id")
        following = await find("acme", text="a", after=("ada", "agent"), limit=1)
        expect(following, Page((second,), None), "the next principal with a text in its id")
        searched = await find("acme", text="b", max_searched=2)
        expect(searched, Page((), ("ada", "user")), "a search that ended before it found one")
        following = await find("acme", text="b", after=searched.next, max_searched=2)
        expect(following, Page((last,), None), "the search after it")
        expect(await find("nowhere"), Page((), None), "the principals of a missing org")
        orgs = [KnownOrg("", 1, 0, 1), KnownOrg("acme", 1, 0, 4), KnownOrg("globex", 0, 1, 0)]
        expect(await store.directory.orgs(), orgs, "the organisations")
        expect(await store.directory.orgs(limit=1), orgs[:1], "the first organisation")
        expect(await store.directory.orgs(after=""), orgs[1:], "the organisations after none")


async def a_request_is_reserved_once(make: Make) -> None:
    """Check that later requests get the stored row: first without, then with its reply."""
    async with open_store(make) as store:
        tries = [store.replies.reserve(replace(_ROW, digest=str(number)), expired=NOW) for number in range(8)]
        replies = await asyncio.gather(*tries)
        expect(len([reply for reply in replies if reply is None]), 1, "how many of eight were the first")
        (stored,) = {reply for reply in replies if reply is not None}
        expect(await store.replies.get("a", "key-1"), stored, "the row of a request")
        expect(await store.replies.get("a", "key-2"), None, "the row of a missing request")
        expect((stored.status, stored.body), (None, None), "the reply while the request is running")
        await store.replies.complete("a", "key-1", 200, '{"é": 1}')
        answered = replace(stored, status=200, body='{"é": 1}')
        expect(await store.replies.reserve(_ROW, expired=NOW), answered, "the stored answer")
        for other in (replace(_ROW, session="b"), replace(_ROW, key="key-2")):
            expect(await store.replies.reserve(other, expired=NOW), None, "a request of another session or key")


async def a_request_is_forgotten_when_it_should_be(make: Make) -> None:
    """Check that it is forgotten when it failed, when it is old, and with its session."""
    async with open_store(make) as store:
        await store.replies.reserve(_ROW, expired=NOW)
        await store.replies.release("a", "key-1")
        expect(await store.replies.reserve(_ROW, expired=NOW), None, "a request that was released before")
        expect(await store.replies.reserve(_ROW, expired=NOW), _ROW, "a request that is not old")
        later = replace(_ROW, created_at=LATER)
        expect(await store.replies.reserve(later, expired=LATER), None, "a request that was old")
        await store.sessions.create(SessionRow("a", "scribe", "{}", "1" * 64, "user-1", "user", None, NOW))
        await store.sessions.delete("a")
        expect(await store.replies.reserve(later, expired=LATER), None, "a request of a session that was deleted")


async def an_org_has_so_many_keys_of_requests(make: Make) -> None:
    """Check the limit for concurrent requests; stored ones are still found, and old ones make room."""
    async with open_store(make) as store:
        replies, row = store.replies, replace(_ROW, org="acme")

        async def reserve(row: ReplyRow, expired: str = NOW) -> str:
            try:
                return "kept" if await replies.reserve(row, expired=expired, max_keys=3) else "new"
            except KeysFull as full:
                return full.oldest

        rows = [replace(row, session=f"session-{number}") for number in range(9)]
        outcomes = await asyncio.gather(*map(reserve, rows))
        expect((outcomes.count("new"), outcomes.count(NOW)), (3, 6), "how many were reserved, and how many not")
        expect(await reserve(rows[outcomes.index("new")]), "kept", "a key that exists")
        expect(await reserve(replace(row, key="of another", org="other")), "new", "a key of another org")
        expect(await reserve(replace(row, key="of none", org=None)), "new", "a key of no org")
        expect(await reserve(replace(row, key="later", created_at=LATER), LATER), "new", "one when the others are old")


async def the_oldest_replies_make_room(make: Make) -> None:
    """Check that their keys stay, with status and record, so that nothing is done twice."""
    async with open_store(make) as store:
        text, rows = "é" * 500, [replace(_ROW, key=f"key-{number}", org="acme") for number in range(4)]
        rows = [replace(row, created_at=f"2026-01-0{number + 1}T00:00:00.000000Z") for number, row in enumerate(rows)]
        other = replace(rows[0], session="other", org="other")
        for row in (*rows, other):
            await store.replies.reserve(row, expired="2026")
            await store.replies.complete(row.session, row.key, 200, text, record=f"of {row.key}", max_bytes=2_500)

        async def read_reply(row: ReplyRow) -> ReplyRow | None:
            return await store.replies.reserve(row, expired="2026")

        for number, row in enumerate(rows):
            body = text if number >= 2 else None
            expect(await read_reply(row), replace(row, status=200, body=body, record=f"of {row.key}"), "a stored reply")
        expect(await read_reply(other), replace(other, status=200, body=text, record="of key-0"), "another org's reply")
        await store.replies.sweep(expired=rows[3].created_at)
        expect(await read_reply(rows[0]), None, "an old reply that was swept")
        expect((await read_reply(rows[3]) or _ROW).body, text, "a young reply")
