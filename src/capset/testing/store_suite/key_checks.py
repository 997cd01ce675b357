"""Checks of the API keys."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from capset.errors import StoreError
from capset.stores.base import KeyRow
from capset.testing.store_suite.support import LATER, NOW, Check, Make, expect, expect_error, opened

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
)


async def a_key_is_found_by_its_digest(make: Make) -> None:
    """Unchanged; a second one with the same id or digest is refused."""
    async with opened(make) as store:
        other = replace(_KEY, id="id-1", digest="1" * 64, org=None, permissions=(), expires_at=None, agent=None)
        other = replace(other, attributes=None, allowance=None)
        expect(await store.keys.any(), False, "whether there is a key")
        await store.keys.create(_KEY)
        await store.keys.create(other)
        expect(await store.keys.find("0" * 64), _KEY, "the key")
        expect(await store.keys.find("1" * 64), other, "the other key")
        expect(await store.keys.find("2" * 64), None, "a key that no one made")
        for twin in (replace(_KEY, digest="3" * 64), replace(_KEY, id="id-3")):
            await expect_error(StoreError, store.keys.create(twin), "a second key of an id or a digest")
        expect(await store.keys.list(), [other, _KEY], "all keys, newest first")
        expect(await store.keys.any(), True, "whether there is a key")


async def a_key_is_revoked_once(make: Make) -> None:
    """Check that the time of the first revocation stays, and so does the key itself."""
    async with opened(make) as store:
        await store.keys.create(_KEY)
        revoked = replace(_KEY, revoked_at=NOW)
        expect(await store.keys.revoke("id-0", NOW), revoked, "the revoked key")
        expect(await store.keys.revoke("id-0", LATER), revoked, "the key that is revoked again")
        expect(await store.keys.find("0" * 64), revoked, "the key that is found")
        expect(await store.keys.revoke("id-9", NOW), None, "revoking a key that no one made")


CHECKS: Final[tuple[Check, ...]] = (a_key_is_found_by_its_digest, a_key_is_revoked_once)
