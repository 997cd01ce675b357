"""Checks of the credentials of users (spec 11, V1)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from capset.stores.base import (
    AuthorizationRow,
    CredentialQuery,
    CredentialRow,
    DataKeyRow,
    DelegationQuery,
    DelegationRow,
)
from capset_testing.store_suite.support import LATER, NOW, Make, expect, open_store

CREDENTIAL: Final = CredentialRow(
    id="c-1", org="acme", principal="user:ada", server="github", kind="oauth", sealed="c2VhbGVk", data_key="k-1",
    binding="b" * 64, created_at=NOW, renewed_at=NOW, scopes=("repo", "user"), expires_at=LATER,
)  # fmt: skip
DATA_KEY: Final = DataKeyRow(id="k-1", org="acme", wrapped="d3JhcHBlZA", wrapped_by="v-1", created_at=NOW)
DELEGATION: Final = DelegationRow(
    id="d-1", org="acme", principal="user:ada", server="github", delegate="agent:helper", tools=("read", "list"),
    arguments='{"repo":{"const":"capset"}}', expires_at=LATER, created_at=NOW,
)  # fmt: skip
AUTHORIZATION: Final = AuthorizationRow(
    id="a" * 64, org="acme", principal="user:ada", server="github", sealed="c2VhbGVk", data_key="k-1",
    redirect_uri="https://capset.example/connections/callback", created_at=NOW, expires_at=LATER,
)  # fmt: skip
_LATEST: Final = LATER.replace("2026", "2027")


async def a_principal_has_one_credential_for_a_server(make: Make) -> None:
    """Check that a credential is found by its principal, server and org alone, and that a new one replaces it."""
    async with open_store(make) as store:
        stored = store.credentials
        expect(await stored.find("acme", "user:ada", "github"), None, "a credential of a new store")
        of_none = replace(CREDENTIAL, id="c-2", org=None)
        others = [
            of_none,
            replace(CREDENTIAL, id="c-3", principal="user:bob"),
            replace(CREDENTIAL, id="c-4", server="x"),
        ]
        for row in (CREDENTIAL, *others):
            await stored.put(row)
        for row in (CREDENTIAL, *others):
            expect(await stored.find(row.org, row.principal, row.server), row, "the credential of a principal")
            expect(await stored.get(row.org, row.id), row, "the credential with an id")
        expect(await stored.get("other", "c-1"), None, "the credential of another org")
        again = replace(CREDENTIAL, id="c-9", kind="key", scopes=(), expires_at=None)
        await stored.put(again)
        expect(await stored.find("acme", "user:ada", "github"), again, "the credential that replaced another")
        expect(await stored.get("acme", "c-1"), None, "the replaced credential")
        page = await stored.list(CredentialQuery("acme", limit=2))
        expect([row.id for row in page.items], ["c-9", "c-4"], "the newest credentials of an org")
        page = await stored.list(CredentialQuery("acme", limit=2, before=page.next))
        expect(([row.id for row in page.items], page.next), (["c-3"], None), "the next page")
        for query in (CredentialQuery("acme", principal="user:bob"), CredentialQuery("acme", server="x")):
            expect(len((await stored.list(query)).items), 1, f"the credentials that match {query}")
        expect(await stored.remove("other", "c-9"), False, "the removal of another org's credential")
        expect(await stored.remove("acme", "c-9"), True, "the removal of a credential")
        expect(await stored.find("acme", "user:ada", "github"), None, "a removed credential")
        expect(await stored.find(None, "user:ada", "github"), of_none, "the credential of another org")


async def a_version_of_a_credential_is_renewed_once(make: Make) -> None:
    """Check that one of several processes reserves the renewal, and that only the stored version is replaced."""
    async with open_store(make) as store:
        stored = store.credentials
        await stored.put(CREDENTIAL)
        tries = [stored.lease("c-1", 1, now=NOW, until=LATER) for _ in range(8)]
        expect(sorted(await asyncio.gather(*tries)), [False] * 7 + [True], "leases of one version")
        expect(await stored.lease("c-1", 1, now=LATER, until=_LATEST), True, "the lease after the first has expired")
        expect(await stored.lease("c-1", 2, now=_LATEST, until=_LATEST), False, "the lease of another version")
        await stored.mark_used("c-1", LATER)
        renewed = replace(CREDENTIAL, version=2, sealed="bmV3", renewed_at=LATER, expires_at=_LATEST)
        expect(await stored.renew(CREDENTIAL, renewed), True, "the renewal of the stored version")
        expect(await stored.get("acme", "c-1"), replace(renewed, used_at=LATER), "the renewed credential")
        expect(await stored.renew(CREDENTIAL, renewed), False, "the renewal of an earlier version")
        expect(await stored.lease("c-1", 2, now=NOW, until=LATER), True, "the lease of the renewed version")
        await stored.remove("acme", "c-1")
        expect(await stored.renew(renewed, replace(renewed, version=3)), False, "the renewal of a removed credential")


async def a_delegation_belongs_to_its_principal(make: Make) -> None:
    """Check that delegations are listed for their principal alone, and that only it ends them."""
    async with open_store(make) as store:
        stored = store.credentials
        rows = [
            DELEGATION,
            replace(DELEGATION, id="d-2", delegate="agent:other", tools=(), arguments=None, expires_at=None),
            replace(DELEGATION, id="d-3", server="x"),
            replace(DELEGATION, id="d-4", principal="user:bob"),
            replace(DELEGATION, id="d-5", org=None),
        ]
        for row in rows:
            await stored.add_delegation(row)
        page = await stored.delegations(DelegationQuery("acme", "user:ada", limit=2))
        expect(list(page.items), [rows[2], rows[1]], "the newest delegations of a principal")
        page = await stored.delegations(DelegationQuery("acme", "user:ada", limit=2, before=page.next))
        expect((list(page.items), page.next), ([rows[0]], None), "the next page")
        page = await stored.delegations(DelegationQuery("acme", "user:ada", "github", "agent:helper"))
        expect(list(page.items), [rows[0]], "the delegations of a server to a delegate")
        for org, principal in (("acme", "user:bob"), ("other", "user:ada"), (None, "user:ada")):
            expect(await stored.remove_delegation(org, principal, "d-1"), False, "the end of another's delegation")
        expect(await stored.remove_delegation("acme", "user:ada", "d-1"), True, "the end of a delegation")
        expect(await stored.remove_delegation("acme", "user:ada", "d-1"), False, "the end of one that has ended")
        await stored.put(CREDENTIAL)
        await stored.remove("acme", "c-1")
        page = await stored.delegations(DelegationQuery("acme", "user:ada"))
        expect(list(page.items), [rows[2]], "the delegations of other connections than the removed one")


async def an_org_has_one_data_key(make: Make) -> None:
    """Check that the first data key of an org stays, and is replaced only by a wrapping of what is stored."""
    async with open_store(make) as store:
        stored = store.credentials
        expect(await stored.data_key("acme"), None, "the data key of a new store")
        keys = [replace(DATA_KEY, id=f"k-{number}") for number in range(4)]
        added = await asyncio.gather(*map(stored.add_data_key, keys))
        expect(len({row.id for row in added}), 1, "different data keys of one org")
        key = added[0]
        of_none = replace(DATA_KEY, id="k-9", org=None)
        expect(await stored.add_data_key(of_none), of_none, "the data key of no org")
        expect([await stored.data_key("acme"), await stored.data_key(None)], [key, of_none], "the data keys of orgs")
        expect(list(await stored.data_keys()), [key, of_none], "all data keys")
        rewrapped = replace(key, wrapped="bmV3", wrapped_by="v-2")
        expect(await stored.rewrap(key, rewrapped), True, "a new wrapping of the stored key")
        expect(await stored.rewrap(key, rewrapped), False, "a new wrapping of what is not stored any more")
        expect(await stored.data_key("acme"), rewrapped, "the key as it was wrapped again")


async def an_authorization_is_taken_once(make: Make) -> None:
    """Check that an authorization is taken by one process, and by none after it has expired."""
    async with open_store(make) as store:
        stored = store.credentials
        await stored.begin_authorization(AUTHORIZATION)
        expect(await stored.take_authorization("b" * 64, now=NOW), None, "an authorization that was not begun")
        taken = await asyncio.gather(*[stored.take_authorization("a" * 64, now=NOW) for _ in range(4)])
        expect([row for row in taken if row is not None], [AUTHORIZATION], "an authorization taken several times")
        await stored.begin_authorization(AUTHORIZATION)
        expect(await stored.take_authorization("a" * 64, now=LATER), None, "an expired authorization")
