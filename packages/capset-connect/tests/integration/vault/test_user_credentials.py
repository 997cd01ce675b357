"""Credentials of users with a real authorization server: connected, renewed by one process, refused, revoked."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from capset import Kernel, Principal
from capset.clock import Clock, SystemClock
from capset.definitions.credentials import LentCredential, MissingCredential
from capset.definitions.governance.policies import Request
from capset.errors import StoreError, TransientError
from capset.ids import Ids
from capset.stores.base import CredentialRow, Store
from capset.stores.memory import MemoryStore
from capset_connect.token_requests import TokenRefused
from capset_connect.vault import renewals
from capset_connect.vault.encryption import VaultKeyRing
from capset_connect.vault.providers import Provider, ProviderClient
from capset_connect.vault.user_auth import UserCredential, UserServer
from capset_connect.vault.user_credentials import UserCredentials
from capset_connect.vault.vault import CredentialOwner, CredentialSecret, Vault
from capset_testing import FakeClock
from tests.helpers.connect.vault.accounts import Accounts, accounts, consent
from tests.waiting import until

CALLBACK = "http://127.0.0.1:9/connections/callback"
ADA, BOB = Principal("ada", org="acme"), Principal("bob", org="acme")
SERVER = "calendar"


async def _no_secret(name: str) -> str | None:
    return {"CLIENT_SECRET": "client-secret-of-capset"}.get(name)


@dataclass
class Site:
    """A vault in a store, with one provider and one server that is used with credentials of users."""

    kernel: Kernel
    store: Store
    accounts: Accounts
    need: UserCredential

    def process(self) -> UserCredentials:
        """Return the credentials as another process of the same store has them."""
        credentials = UserCredentials(
            self.vault, self.store, self.kernel.clock, lambda provider: ProviderClient(provider, _no_secret)
        )
        credentials.declare({name: self.server(name) for name in (SERVER, "wiki")})
        return credentials

    def server(self, name: str = SERVER) -> UserServer:
        """Return a server that needs a credential of each user."""
        return UserServer(name, f"https://{name}.example/mcp", self.need)

    @property
    def vault(self) -> Vault:
        """The vault of one process."""
        return Vault(
            self.store, VaultKeyRing([b64encode(b"k" * 32).decode()]), self.kernel.clock, Ids(self.kernel.clock)
        )

    @property
    def client(self) -> ProviderClient:
        """The client of the provider."""
        assert self.need.provider is not None
        return ProviderClient(self.need.provider, _no_secret)

    async def connect(self, user: Principal, server: str = SERVER) -> CredentialRow:
        """Connect a user to the server, as a browser does."""
        self.accounts.user = user.id
        client, owner = self.client, CredentialOwner(user.org, user.qualified_id, self.server(server).connection)
        start = await client.begin(CALLBACK, self.need.scopes, self.need.audience)
        binding = self.server(server).binding
        await self.vault.begin(owner, start, binding=binding, redirect_uri=CALLBACK, seconds=600)
        back = await consent(start.url)
        begun = await self.vault.take(back["state"])
        assert begun is not None
        verifier = await self.vault.verifier_of(begun, back["state"], binding=binding)
        answer = await client.redeem(back["code"], verifier, begun.redirect_uri, self.need.audience)
        secret, process = CredentialSecret(answer.access, answer.refresh), self.process()
        return await self.vault.put(
            owner,
            "oauth",
            secret,
            binding=binding,
            scopes=answer.scopes or (),
            expires_at=process.expiry(answer),
        )

    async def lend(
        self, user: Principal = ADA, server: str = SERVER, **options: Any
    ) -> LentCredential | MissingCredential:
        """Lend a credential in a new process."""
        return await self.process().lend(Request({}, user), server, **options)

    def user_of(self, lent: LentCredential | MissingCredential) -> str | None:
        """Return whose token it is at the provider."""
        assert isinstance(lent, LentCredential), lent
        issued = self.accounts.active(lent.value)
        return issued and issued.user


@asynccontextmanager
async def connecting(clock: Clock | None = None, *, exchange: bool = False) -> AsyncGenerator[Site]:
    async with accounts() as running, Kernel(store=(store := MemoryStore()), clock=clock or SystemClock()) as kernel:
        provider = Provider(
            name="town",
            issuer=running.issuer,
            client_id="capset",
            client_secret="${CLIENT_SECRET}",  # a placeholder
            internal=[running.issuer.removeprefix("http://")],
            exchange=exchange,
        )
        need = UserCredential(provider=provider, scopes=["read"], audience="https://calendar.example")
        yield Site(kernel, store, running, need)


@pytest.mark.spec("V1", "V10", "V21")
async def test_each_user_gets_a_token_of_their_own() -> None:
    async with connecting() as site:
        assert isinstance(missing := await site.lend(), MissingCredential)
        assert (missing.connection, missing.owner) == (SERVER, "user:ada")
        rows = [await site.connect(user) for user in (ADA, BOB)]
        assert [site.user_of(await site.lend(user)) for user in (ADA, BOB)] == ["ada", "bob"]
        assert [issued.audience for issued in site.accounts.issued] == ["https://calendar.example"] * 2
        lent = await site.lend()
        assert isinstance(lent, LentCredential)
        assert (lent.reference, lent.owner) == (f"{rows[0].id}@1", "user:ada")
        assert isinstance(await site.lend(Principal("ada", org="other")), MissingCredential)
        assert isinstance(await site.lend(Principal("ada", kind="agent", org="acme")), MissingCredential)
        assert isinstance(await site.lend(Principal.anonymous()), MissingCredential)


@pytest.mark.spec("V11", "T104")
async def test_an_expired_token_is_renewed_by_one_of_many_processes() -> None:
    async with connecting() as site:
        site.accounts.seconds = 1  # due at once
        row = await site.connect(ADA)
        site.accounts.seconds = 3_600
        lent = await asyncio.gather(*[site.lend() for _ in range(8)])
        assert {site.user_of(credential) for credential in lent} == {"ada"}
        assert {credential.reference for credential in lent if isinstance(credential, LentCredential)} == {
            f"{row.id}@2"
        }
        grants = [request["grant_type"] for request in site.accounts.token_requests]
        assert grants == ["authorization_code", "refresh_token"]
        # The refresh token has rotated: the next renewal uses the new one.
        refused = lent[0]
        assert isinstance(refused, LentCredential)
        renewed = await site.lend(refused=refused.value)
        assert isinstance(renewed, LentCredential)
        assert (renewed.reference, site.user_of(renewed)) == (f"{row.id}@3", "ada")


@pytest.mark.spec("V12")
async def test_after_a_refused_renewal_the_user_has_to_connect_again() -> None:
    async with connecting() as site:
        row = await site.connect(ADA)
        lent = await site.lend()
        assert isinstance(lent, LentCredential)
        site.accounts.revoke("ada")
        missing = await site.lend(refused=lent.value)
        assert isinstance(missing, MissingCredential)
        assert "has to be connected again" in missing.reason
        assert "invalid_grant" in missing.reason
        assert isinstance(await site.lend(), MissingCredential)
        assert len(site.accounts.token_requests) == 2, "a refusal that lasts is not asked for again"
        again = await site.connect(ADA)
        assert again.id != row.id
        assert site.user_of(await site.lend()) == "ada"


@pytest.mark.spec("V12")
async def test_while_the_provider_is_down_nothing_is_lost() -> None:
    async with connecting() as site:
        site.accounts.seconds = 1
        await site.connect(ADA)
        site.accounts.seconds, site.accounts.failing = 3_600, 503
        for _ in range(2):
            with pytest.raises(TransientError, match="cannot be renewed"):
                await site.lend()
        site.accounts.failing = None
        assert site.user_of(await site.lend()) == "ada"


@pytest.mark.spec("V11", "V12")
async def test_a_rotated_refresh_token_is_stored_although_the_store_fails_for_a_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(renewals, "_STORE_SECONDS", 0.0)
    async with connecting() as site:
        lent, store, failures = await first_of(site), site.store.credentials, [StoreError("busy")] * 3
        renew = store.renew

        async def failing(previous: CredentialRow, then: CredentialRow) -> bool:
            if failures:
                raise failures.pop()
            return await renew(previous, then)

        monkeypatch.setattr(store, "renew", failing)
        renewed = await site.lend(refused=lent.value)
        assert isinstance(renewed, LentCredential)
        assert (site.user_of(renewed), failures) == ("ada", [])
        assert site.user_of(await site.lend(refused=renewed.value)) == "ada", "with the rotated refresh token"


async def first_of(site: Site) -> LentCredential:
    """Connect Ada, and return what is lent."""
    await site.connect(ADA)
    lent = await site.lend()
    assert isinstance(lent, LentCredential)
    return lent


@pytest.mark.spec("V14")
async def test_a_credential_that_is_removed_during_its_renewal_is_not_stored_again() -> None:
    async with connecting() as site:
        site.accounts.seconds = 1
        row = await site.connect(ADA)
        client = site.client

        class Removing(ProviderClient):
            async def refresh(self, token: str, audience: str | None) -> Any:
                answer = await client.refresh(token, audience)
                await site.store.credentials.remove("acme", row.id)
                return answer

        credentials = UserCredentials(
            site.vault, site.store, site.kernel.clock, lambda provider: Removing(provider, _no_secret)
        )
        credentials.declare({SERVER: site.server()})
        missing = await credentials.lend(Request({}, ADA), SERVER)
        assert isinstance(missing, MissingCredential)
        assert "is not connected" in missing.reason
        assert await site.store.credentials.get("acme", row.id) is None


@pytest.mark.spec("V14")
async def test_another_process_uses_what_was_disconnected_no_more_within_a_second() -> None:
    async with connecting() as site:
        row, process = await site.connect(ADA), site.process()
        first = await process.lend(Request({}, ADA), SERVER)
        assert [site.user_of(first), site.user_of(await process.lend(Request({}, ADA), SERVER))] == ["ada", "ada"]
        await site.store.credentials.remove("acme", row.id)

        async def is_missing() -> bool:
            return isinstance(await process.lend(Request({}, ADA), SERVER), MissingCredential)

        await until(is_missing, "the other process to notice")


@pytest.mark.spec("V12")
async def test_scopes_that_were_not_granted_are_named() -> None:
    async with connecting() as site:
        await site.connect(ADA)
        site.need = UserCredential(provider=site.need.provider, scopes=["read", "write"], audience=site.need.audience)
        missing = await site.lend()
        assert isinstance(missing, MissingCredential)
        assert "without the scopes write" in missing.reason


@pytest.mark.spec("V13")
async def test_tokens_of_each_server_are_exchanged_for_that_of_the_provider() -> None:
    async with connecting(exchange=True) as site:
        await site.connect(ADA)
        lent = [await site.lend(server=server) for server in (SERVER, "wiki")]
        assert [site.user_of(credential) for credential in lent] == ["ada", "ada"]
        assert len({credential.value for credential in lent if isinstance(credential, LentCredential)}) == 2
        first, *exchanged = site.accounts.issued
        assert [issued.audience for issued in exchanged] == ["https://calendar.example"] * 2
        assert first.access not in {credential.value for credential in lent if isinstance(credential, LentCredential)}
        process = site.process()
        tokens = [await process.lend(Request({}, ADA), SERVER) for _ in range(2)]
        assert tokens[0] == tokens[1], "an exchanged token is used until it expires"


@pytest.mark.spec("V14")
async def test_a_token_is_revoked_at_the_provider() -> None:
    async with connecting() as site:
        row = await site.connect(ADA)
        secret = await site.vault.read(row)
        assert await site.client.revoke(secret.refresh or "")
        assert site.accounts.active(secret.value) is None
        with pytest.raises(TokenRefused) as refused:
            await site.client.refresh(secret.refresh or "", None)
        assert secret.refresh is not None
        assert secret.refresh not in str(refused.value)


@pytest.mark.spec("V23")
async def test_a_key_that_its_server_refuses_has_to_be_entered_again() -> None:
    clock = FakeClock()
    async with connecting(clock) as site:
        site.need = UserCredential()
        owner, key = CredentialOwner("acme", "user:ada", SERVER), CredentialSecret("key-of-ada")
        await site.vault.put(owner, "key", key, binding=site.server().binding)
        process = site.process()
        refusals = (None, key.value, key.value)  # the second within the same outage
        lent = [await process.lend(Request({}, ADA), SERVER, refused=refused) for refused in refusals]
        assert [credential.value for credential in lent if isinstance(credential, LentCredential)] == [key.value] * 3
        clock.advance(60)
        again = await process.lend(Request({}, ADA), SERVER, refused=key.value)
        assert isinstance(again, MissingCredential), "a key that is refused twice"
        assert isinstance(await site.lend(), MissingCredential)


@pytest.mark.spec("V4", "T101")
async def test_a_credential_is_sent_to_no_other_place_and_used_for_no_other_provider() -> None:
    async with connecting() as site:
        await site.connect(ADA)
        moved = site.process()
        moved.declare({SERVER: UserServer(SERVER, "https://evil.example/mcp", site.need)})
        assert isinstance(await moved.lend(Request({}, ADA), SERVER), MissingCredential)
        moved.declare({SERVER: UserServer(SERVER, site.server().place, UserCredential())})
        assert isinstance(await moved.lend(Request({}, ADA), SERVER), MissingCredential)
        assert site.user_of(await site.lend()) == "ada"
