"""``/v1/connections``: what callers connect, delegate and disconnect (spec 11, V10, V14, V20, V24, V30)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta

import pytest

from capset.errors import Conflict, ConnectionRequired, InvalidArguments, NotFound, PermissionDenied
from capset_server.client import Client, error_of
from tests.helpers.connect.vault.accounts import accounts, consent
from tests.helpers.connect.vault.calendars import provider_of, secretary, vault_of
from tests.helpers.server.support import Site, problem, site

KEY = "the-key-of-ada"


@pytest.fixture
async def here() -> AsyncGenerator[Site]:
    """Give a server with a tool that needs a key of its caller; ``boss`` administers ``acme``, ``spy`` another."""
    async with site(agents=[secretary], vault=vault_of()) as server:
        await server.key("boss", scopes=["capset:admin"])
        await server.key("spy", org="other", scopes=["capset:admin", "capset:call"])
        yield server


def client(server: Site, name: str = "ada") -> Client:
    return Client(server.url, key=server.keys[name], plain_http=True)


@pytest.mark.spec("V20", "V30")
async def test_a_caller_connects_and_its_call_goes_through(here: Site) -> None:
    async with client(here) as ada:
        (connection,) = (await ada.connections.list()).items
        assert (connection.name, connection.kind, connection.connected) == ("calendar", "key", False)
        session = await ada.sessions.create("secretary")
        refused = await ada.call(session.id, "meetings", {"day": "Monday"})
        assert refused.error is not None
        error = error_of(refused.error)
        assert isinstance(error, ConnectionRequired)
        assert (error.connection, error.approval is not None) == ("calendar", True)
        connected = await ada.connections.enter_key("calendar", KEY)
        assert (connected.connected, connected.usable, connected.version) == (True, True, 1)
        done = await ada.call(session.id, "meetings", {"day": "Monday"})
        assert done.data == f"Monday: {len(KEY)}"
        assert (await ada.connections.get("calendar")).used_at is not None
        assert (await ada.connections.disconnect("calendar")) is False, "there is no provider that could revoke it"
        again = await ada.call(session.id, "meetings", {"day": "Monday"})
        assert (again.error and again.error.code) == "connection_required"
    acts = [record.act for record in await here.records(kind="act") if (record.act or "").startswith("credential.")]
    assert acts == ["credential.connect", "credential.disconnect"]


@pytest.mark.spec("V3", "V30", "T100")
async def test_administrators_see_that_something_is_connected_and_revoke_it(here: Site) -> None:
    async with client(here) as ada, client(here, "boss") as boss, client(here, "spy") as spy:
        await ada.connections.enter_key("calendar", KEY)
        (credential,) = [row async for row in boss.connections.all_credentials()]
        assert (credential.principal, credential.connection) == ("user:ada", "calendar")
        assert KEY not in credential.model_dump_json()
        assert (await spy.connections.credentials()).items == []
        for stranger in (spy,):
            with pytest.raises(NotFound):
                await stranger.connections.revoke(credential.id)
        with pytest.raises(PermissionDenied):
            await ada.connections.credentials()
        await boss.connections.revoke(credential.id)
        assert not (await ada.connections.get("calendar")).connected
    records = await here.records()
    assert KEY not in str(records)


@pytest.mark.spec("V10")
async def test_invalid_keys_and_names_are_refused(here: Site) -> None:
    async with client(here) as ada:
        for key in ("", "with space", "ключ", "x" * 8_193):
            with pytest.raises(InvalidArguments) as refused:
                await ada.connections.enter_key("calendar", key)
            assert not key or key not in str(refused.value)
        with pytest.raises(NotFound):
            await ada.connections.get("calender")
        with pytest.raises(Conflict):
            await ada.connections.authorize("calendar")
        with pytest.raises(NotFound):
            await ada.connections.disconnect("calendar")


@pytest.mark.spec("V24", "V30")
async def test_delegations_are_created_listed_and_ended(here: Site) -> None:
    async with client(here) as ada, client(here, "spy") as spy:
        until = datetime.now(UTC) + timedelta(days=1)
        allowed = {"day": {"enum": ["Monday"]}}
        row = await ada.connections.delegate(
            "calendar", "agent:helper", tools=["meetings"], arguments=allowed, until=until
        )
        assert (row.delegate, row.tools, row.arguments) == ("agent:helper", ["meetings"], allowed)
        assert (await ada.connections.delegations()).items == [row]
        assert (await spy.connections.delegations()).items == []
        for delegate, arguments in (("user:ada", None), ("helper", None), ("agent:x", {"day": {}})):
            with pytest.raises(InvalidArguments):
                await ada.connections.delegate("calendar", delegate, arguments=arguments)
        with pytest.raises(NotFound):
            await spy.connections.end_delegation(row.id)
        await ada.connections.end_delegation(row.id)
        with pytest.raises(NotFound):
            await ada.connections.end_delegation(row.id)


@pytest.mark.spec("V10", "V14", "T102")
async def test_a_caller_connects_at_a_provider_once_and_as_itself() -> None:
    async with accounts() as running:
        public = "https://tools.example.com"
        async with site(agents=[secretary], vault=vault_of(provider=provider_of(running)), public_url=public) as server:
            await server.key("bob")
            async with client(server) as ada, client(server, "bob") as bob:
                page = await ada.connections.authorize("calendar")
                back = await consent(page)
                with pytest.raises(PermissionDenied, match="another user has begun"):
                    await bob.connections.complete(back)
                with pytest.raises(PermissionDenied, match="has ended"):
                    await ada.connections.complete(back)
                back = await consent(await ada.connections.authorize("calendar"))
                with pytest.raises(PermissionDenied, match="another provider"):
                    await ada.connections.complete({**back, "iss": "https://evil.example"})
                back = await consent(await ada.connections.authorize("calendar"))
                connected = await ada.connections.complete(back)
                assert (connected.usable, connected.provider, connected.scopes) == (True, "town", ["read"])
                session = await ada.sessions.create("secretary")
                assert (await ada.call(session.id, "meetings", {"day": "Monday"})).data is not None
                assert await ada.connections.disconnect("calendar"), "the provider has revoked it"
                assert running.active(running.issued[-1].access) is None
                with pytest.raises(Conflict):
                    await ada.connections.enter_key("calendar", "a-key")


@pytest.mark.spec("V30")
async def test_a_server_without_a_vault_has_nothing_to_connect() -> None:
    async with site() as server, server.client() as ada:
        assert (await ada.get("/v1/connections")).json() == {"items": []}
        problem(await ada.get("/v1/connections/calendar"), 404, "not_found")
