"""Calls with the credential of their user: over stdio, over HTTP, to an API and in a handler (spec 11, V20–V24)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Header, HTTPException
from starlette.responses import RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from capset import Agent, Kernel, Principal, tool
from capset.clock import Clock, SystemClock
from capset.definitions.calls.contexts import Context
from capset.definitions.capabilities import AnyCapability, Capability
from capset.errors import CapsetError, ConnectionRequired, InvalidArguments, PermissionDenied, ToolError
from capset.stores.base import ApprovalQuery, AuditQuery
from capset.wire.connections import DelegationInput
from capset_connect.mcp import McpServer
from capset_connect.mcp.connection import McpConnection
from capset_connect.mcp.servers import McpServers
from capset_connect.openapi import OpenApi
from capset_connect.openapi.client import OpenApiClient
from capset_connect.openapi.tools import capability_of
from capset_connect.pins.tool_pins import approve, approved_in
from capset_connect.sources import Source
from capset_connect.vault.connections import ConnectionService
from capset_connect.vault.encryption import VaultKeyRing, new_vault_key
from capset_connect.vault.providers import Provider
from capset_connect.vault.user_auth import UserCredential
from capset_connect.vault.user_secrets import secrets_of
from capset_connect.vault.user_vault import UserVault
from capset_testing import FakeClock
from tests.helpers.connect.mcp.opening import Named, server
from tests.helpers.connect.mcp.urls import serving
from tests.helpers.connect.vault.accounts import Accounts, accounts, consent
from tests.helpers.connect.vault.upstreams import Upstream
from tests.waiting import until

ADA, BOB = Principal("ada", org="acme"), Principal("bob", org="acme")
CALLBACK = "http://127.0.0.1:9/connections/callback"
SECRETS = Named({"CLIENT_SECRET": "client-secret-of-capset"})


Calling = Callable[..., Awaitable[Any]]


@dataclass
class Site:
    """A kernel with a vault, and a capability of each source, whose tools Ada has approved."""

    kernel: Kernel
    connections: ConnectionService
    capabilities: Sequence[AnyCapability]

    @asynccontextmanager
    async def calling(self, principal: Principal) -> AsyncGenerator[Calling]:
        """Yield a function that calls a tool by name as a principal; with ``defer``, it does not wait."""
        tools = {tool.name: tool for capability in self.capabilities for tool in capability.every_tool}
        async with self.kernel.open(Agent("clerk", uses=[*self.capabilities]), principal=principal) as session:

            async def call(name: str, /, *, defer: bool = False, **arguments: Any) -> Any:
                chosen = session.options(approvals="defer") if defer else session
                return await chosen.call(tools[name], **arguments)

            yield call


@asynccontextmanager
async def opened(
    *sources: Source, tools: Sequence[Any] = (), keys: bool = True, clock: Clock | None = None
) -> AsyncGenerator[Site]:
    """Open a site; with ``keys``, Ada and Bob have entered a key for each source."""
    vault = UserVault(VaultKeyRing([new_vault_key()]), SECRETS)
    vault.declare(sources)
    options: dict[str, Any] = {"store": "memory://", "secrets": SECRETS, "clock": clock or SystemClock()}
    async with Kernel(**options, credentials=vault.open) as kernel, McpServers(SECRETS) as mcp:
        connections, capabilities = vault.connections(kernel), list[AnyCapability]()
        for source in sources:
            for user in (ADA, BOB) if keys else ():
                await connections.enter_key(user, source.pin_key, f"key-of-{user.id}")
            if isinstance(source, OpenApi):
                client = OpenApiClient(source, SECRETS)
                await approve(kernel, source, await client.offers(), ADA)
                pins = await kernel.store.pins.list(source.pin_key)
                capabilities.append(capability_of(client, pins, approved_in(kernel, source)))
            elif keys:
                await approve_as(kernel, source, ADA)
                pins = await kernel.store.pins.list(source.pin_key)
                capabilities.append(mcp.capability(source, pins, approved_in(kernel, source)))
        if tools:
            capabilities.append(Capability("own", tools=[*tools]))
        yield Site(kernel, connections, capabilities)


async def approve_as(kernel: Kernel, source: McpServer, by: Principal) -> None:
    """Approve the tools of a server as ``by`` sees them."""
    secrets = await secrets_of(source, SECRETS, kernel.credentials, by)
    async with McpConnection(source, secrets) as connection:
        await approve(kernel, source, await connection.offers(), by)


@pytest.mark.realtime
@pytest.mark.spec("V22")
async def test_over_stdio_each_user_has_a_process_with_their_own_key(tmp_path: Path) -> None:
    source = server("keyed", tmp_path, env={"API_KEY": "${USER_CREDENTIAL}"}, auth=UserCredential())
    async with opened(source) as site, site.calling(ADA) as ada, site.calling(BOB) as bob:
        texts = [f"{user}-{number}" for number in range(20) for user in ("ada", "bob")]
        sessions = {"ada": ada, "bob": bob}
        await asyncio.gather(*[sessions[text[:3]]("keyed_shout", text=text) for text in texts])
        noted = [line.split() for line in (tmp_path / "calls").read_text().splitlines()]
        assert sorted(text for _, text in noted) == sorted(texts)
        assert all(key == f"key-of-{text[:3]}" for key, text in noted)
        await site.connections.enter_key(ADA, "keyed", "new-key-of-ada")
        await ada("keyed_shout", text="again")
        assert (tmp_path / "calls").read_text().splitlines()[-1] == "new-key-of-ada again"


async def connect_at_provider(site: Site, running: Accounts, user: Principal, name: str) -> None:
    """Connect a user as a browser does."""
    running.user = user.id
    back = await consent(await site.connections.begin(user, name, CALLBACK))
    await site.connections.finish(user, back)


@pytest.mark.spec("V11", "V22", "V23")
async def test_over_http_each_user_has_their_own_token_which_is_renewed() -> None:
    async with accounts() as running, serving(upstream := Upstream(running)) as remote:
        provider = Provider(
            name="town", issuer=running.issuer, client_id="capset", client_secret="${CLIENT_SECRET}",
            internal=[running.issuer.removeprefix("http://")],
        )  # fmt: skip
        auth = UserCredential(provider=provider, scopes=["read"], audience=remote.url)
        source = McpServer(name="books", url=remote.url, internal=[remote.host], auth=auth)
        async with opened(source, keys=False) as site:
            for user in (ADA, BOB):
                await connect_at_provider(site, running, user, "books")
            await approve_as(site.kernel, source, ADA)
            pins = await site.kernel.store.pins.list("books")
            async with McpServers(SECRETS) as mcp:
                site.capabilities = [mcp.capability(source, pins, approved_in(site.kernel, source))]
                async with site.calling(ADA) as ada, site.calling(BOB) as bob:
                    sessions = {"ada": ada, "bob": bob}
                    texts = [f"{user}-{number}" for number in range(20) for user in ("ada", "bob")]
                    await asyncio.gather(*[sessions[text[:3]]("books_echo", text=text) for text in texts])
                    assert Counter(user for user, _ in upstream.noted) == {"ada": 20, "bob": 20}
                    assert all(text.startswith(user) for user, text in upstream.noted)
                    running.expire()  # the upstream refuses both tokens; each is renewed once
                    await asyncio.gather(*[sessions[text[:3]]("books_echo", text=text) for text in texts])
                    assert Counter(user for user, _ in upstream.noted) == {"ada": 40, "bob": 40}
                    grants = Counter(request["grant_type"] for request in running.token_requests)
                    assert grants == {"authorization_code": 2, "refresh_token": 2}


def pets(noted: list[tuple[str, str]]) -> FastAPI:
    """Return an API that takes the keys of Ada and Bob."""
    app = FastAPI(title="Pets")

    @app.get("/pets/{name}", operation_id="get_pet")
    async def get_pet(name: str, authorization: str = Header("", include_in_schema=False)) -> dict[str, str]:
        if not authorization.startswith("Bearer key-of-"):
            raise HTTPException(401)
        noted.append((authorization.removeprefix("Bearer key-of-"), name))
        return {"name": name}

    return app


@pytest.mark.spec("V15", "V23")
async def test_an_api_is_called_with_the_key_of_each_user() -> None:
    noted: list[tuple[str, str]] = []
    async with serving(app := pets(noted)) as remote:
        source = OpenApi(
            name="pets", document=app.openapi(), url=f"http://{remote.host}", internal=[remote.host],
            auth=UserCredential(), headers={"Authorization": "Bearer ${USER_CREDENTIAL}"},
        )  # fmt: skip
        clock = FakeClock()
        async with opened(source, clock=clock) as site, site.calling(ADA) as ada, site.calling(BOB) as bob:
            calls = [(ada, "ada-1"), (bob, "bob-1"), (ada, "ada-2")]
            await asyncio.gather(*[call("pets_get_pet", name=name) for call, name in calls])
            assert sorted(noted) == [("ada", "ada-1"), ("ada", "ada-2"), ("bob", "bob-1")]
            await site.connections.enter_key(ADA, "api:pets", "wrong-key-of-ada")
            for seconds in (0, 1, 60):  # the second refusal of a key counts, but for one in the same outage
                clock.advance(seconds)
                with pytest.raises(ToolError):
                    await ada("pets_get_pet", name="x", defer=True)
            with pytest.raises(ConnectionRequired, match="has refused the key"):
                await ada("pets_get_pet", name="x", defer=True)


@pytest.mark.spec("V4", "V21", "T101")
async def test_a_redirect_to_another_host_does_not_take_the_key_along() -> None:
    async def nothing(scope: Scope, receive: Receive, send: Send) -> None:
        await Response(status_code=200)(scope, receive, send)

    async with serving(nothing) as thief:

        async def away(scope: Scope, receive: Receive, send: Send) -> None:
            await RedirectResponse(thief.url, 307)(scope, receive, send)

        async with serving(away) as upstream:
            hosts = [upstream.host, thief.host]
            source = McpServer(name="books", url=upstream.url, internal=hosts, auth=UserCredential())
            api = OpenApi(
                name="pets", document=pets([]).openapi(), url=f"http://{upstream.host}", internal=hosts,
                auth=UserCredential(), headers={"Authorization": "Bearer ${USER_CREDENTIAL}"},
            )  # fmt: skip
            async with opened(api) as site, site.calling(ADA) as ada:
                with pytest.raises(ToolError, match="which is not followed"):
                    await ada("pets_get_pet", name="x")
            with pytest.raises(CapsetError):
                async with opened(source):
                    pass
            assert {headers["authorization"] for headers in upstream.headers} == {"Bearer key-of-ada"}
            assert thief.headers == []


@tool(credential="pets")
async def whose(ctx: Context, name: str) -> str:
    """Say the key of the user."""
    return f"{name} {(await ctx.credential()).get_secret_value()}"


@tool(credential="pets")
async def whose_any(ctx: Context) -> str:
    """Say the key of the user, for all names."""
    return (await ctx.credential()).get_secret_value()


@tool
async def thief(ctx: Context) -> str:
    """Ask for a credential that it has not declared."""
    return (await ctx.credential()).get_secret_value()


def shared() -> McpServer:
    """Return a server that only gives the connection of a handler its name."""
    return McpServer(name="pets", url="https://pets.example/mcp", auth=UserCredential())


@pytest.mark.spec("V3", "V20", "V21", "T99")
async def test_a_call_waits_until_its_user_has_connected_and_the_record_names_the_credential() -> None:
    vault = UserVault(VaultKeyRing([new_vault_key()]), SECRETS)
    vault.declare([shared()])
    async with Kernel(store="memory://", secrets=SECRETS, credentials=vault.open) as kernel:
        connections = vault.connections(kernel)
        site = Site(kernel, connections, [Capability("own", tools=[whose, thief])])
        async with site.calling(ADA) as ada:
            with pytest.raises(ConnectionRequired) as required:
                await ada("whose", defer=True, name="a")
            assert (required.value.connection, required.value.approval is not None) == ("pets", True)
            waiting = asyncio.ensure_future(ada("whose", name="b"))
            await until(lambda: _are_pending(kernel, 2), "the call to wait")
            await connections.enter_key(ADA, "pets", "key-of-ada")
            assert await waiting == "b key-of-ada"
            assert await ada("whose", defer=True, name="a") == "a key-of-ada"
            with pytest.raises(ToolError, match="declares no credential"):
                await ada("thief")
            row = await kernel.store.credentials.find("acme", "user:ada", "pets")
            assert row is not None
            await kernel.audit.flush()
            records = (await kernel.store.audit.query(AuditQuery(tool="whose", limit=10))).items
            assert f"{row.id}@1 user:ada" in {record.credential for record in records}
            assert "key-of-ada" not in str(records)
            await connections.disconnect(ADA, "pets")
            with pytest.raises(ConnectionRequired):
                await ada("whose", defer=True, name="a")


async def _are_pending(kernel: Kernel, count: int) -> bool:
    return len((await kernel.store.approvals.list(ApprovalQuery("acme", "pending"))).items) == count


@pytest.mark.spec("V21")
async def test_nothing_is_lent_after_the_end_of_a_call() -> None:
    vault = UserVault(VaultKeyRing([new_vault_key()]), SECRETS)
    vault.declare([shared()])
    kept: list[Context] = []

    @tool(credential="pets")
    async def leak(ctx: Context) -> str:
        """Keep the context."""
        kept.append(ctx)
        return (await ctx.credential()).get_secret_value()

    async with Kernel(store="memory://", secrets=SECRETS, credentials=vault.open) as kernel:
        connections = vault.connections(kernel)
        await connections.enter_key(ADA, "pets", "key-of-ada")
        async with Site(kernel, connections, [Capability("own", tools=[leak])]).calling(ADA) as ada:
            assert await ada("leak") == "key-of-ada"
            with pytest.raises(ToolError):
                await kept[0].credential()


@pytest.mark.spec("V14", "V21")
async def test_a_call_that_is_running_gets_no_credential_that_was_disconnected_since() -> None:
    vault = UserVault(VaultKeyRing([new_vault_key()]), SECRETS)
    vault.declare([shared()])

    @tool(credential="pets")
    async def twice(ctx: Context) -> str:
        """Ask for the credential before and after the user disconnects."""
        await ctx.credential()
        await connections.disconnect(ADA, "pets")
        return (await ctx.credential()).get_secret_value()

    async with Kernel(store="memory://", secrets=SECRETS, credentials=vault.open) as kernel:
        connections = vault.connections(kernel)
        await connections.enter_key(ADA, "pets", "key-of-ada")
        async with Site(kernel, connections, [Capability("own", tools=[twice])]).calling(ADA) as ada:
            with pytest.raises(ToolError, match="no credential any more: pets is not connected"):
                await ada("twice")


@pytest.mark.spec("V4", "T101")
async def test_a_session_from_before_a_reload_does_not_take_the_key_to_the_old_place() -> None:
    noted: list[tuple[str, str]] = []
    async with serving(app := pets(noted)) as remote:
        source = OpenApi(
            name="pets", document=app.openapi(), url=f"http://{remote.host}", internal=[remote.host],
            auth=UserCredential(), headers={"Authorization": "Bearer ${USER_CREDENTIAL}"},
        )  # fmt: skip
        async with opened(source) as site, site.calling(ADA) as ada:
            site.connections.declare([replace(source, url="https://pets.example")])
            await site.connections.enter_key(ADA, "api:pets", "new-key-of-ada")
            with pytest.raises(ToolError, match="is declared otherwise now"):
                await ada("pets_get_pet", name="ada-1")
        assert noted == []


@pytest.mark.spec("V13", "V14", "V24")
async def test_servers_that_are_connected_together_are_delegated_and_disconnected_together() -> None:
    provider = Provider(name="town", issuer="https://town.example", client_id="capset", exchange=True)
    names = ("mail", "payroll")
    vault = UserVault(VaultKeyRing([new_vault_key()]), SECRETS)
    vault.declare(
        McpServer(name=name, url=f"https://{name}.example/mcp", auth=UserCredential(provider=provider))
        for name in names
    )
    async with Kernel(store="memory://", secrets=SECRETS, credentials=vault.open) as kernel:
        connections = vault.connections(kernel)
        with pytest.raises(InvalidArguments, match="name provider:town"):
            await connections.delegate(ADA, "mail", DelegationInput(delegate="agent:helper"))
        with pytest.raises(InvalidArguments, match="name provider:town"):
            await connections.disconnect(ADA, "mail")
        row = await connections.delegate(ADA, "provider:town", DelegationInput(delegate="agent:helper"))
        assert row.server == "provider:town"


@pytest.mark.spec("V24", "T103")
async def test_what_acts_for_a_user_has_the_credential_as_far_as_the_user_let_it() -> None:
    vault = UserVault(VaultKeyRing([new_vault_key()]), SECRETS)
    vault.declare([shared()])
    helper = Principal("helper", kind="agent", org="acme")
    async with Kernel(store="memory://", secrets=SECRETS, credentials=vault.open) as kernel:
        connections = vault.connections(kernel)
        await connections.enter_key(ADA, "pets", "key-of-ada")
        site = Site(kernel, connections, [Capability("own", tools=[whose, whose_any])])

        async def outcome(principal: Principal, name: str = "a", tool: str = "whose") -> str:
            async with site.calling(principal) as call:
                try:
                    return await call(tool, defer=True, **({"name": name} if name else {}))
                except PermissionDenied as error:
                    return error.message

        acting = helper.acting_for(ADA)
        assert "user:ada has not let agent:helper use pets" in await outcome(acting)
        only_a = DelegationInput(
            delegate="agent:helper", tools=["whose", "whose_any"], arguments={"name": {"enum": ["a"]}}
        )
        row = await connections.delegate(ADA, "pets", only_a)
        assert await outcome(acting) == "a key-of-ada"
        assert "has not let" in await outcome(acting, "b")
        assert "only for calls with name" in await outcome(acting, "", "whose_any"), "what is left out is not allowed"
        assert "has not let" in await outcome(helper.acting_for(BOB))
        sub = Principal("sub", kind="agent", org="acme").acting_for(acting)
        assert "has not let agent:sub use" in await outcome(sub)
        await connections.delegate(ADA, "pets", DelegationInput(delegate="agent:sub", arguments=None))
        assert [await outcome(sub), "has not let" in await outcome(sub, "b")] == ["a key-of-ada", True]
        with pytest.raises(PermissionDenied):
            await connections.delegate(acting, "pets", DelegationInput(delegate="agent:other", arguments=None))
        await connections.end_delegation(ADA, row.id)
        assert "has not let agent:helper" in await outcome(acting)
