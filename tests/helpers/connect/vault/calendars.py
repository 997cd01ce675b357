"""A tool that acts as its caller, by a key or at a provider, and a vault for it."""

from __future__ import annotations

from capset import Agent, Capability, Context, tool
from capset_connect.mcp import McpServer
from capset_connect.vault.encryption import VaultKeyRing, new_vault_key
from capset_connect.vault.providers import Provider
from capset_connect.vault.user_auth import UserCredential
from capset_connect.vault.user_vault import UserVault
from tests.helpers.connect.mcp.opening import Named
from tests.helpers.connect.vault.accounts import Accounts

SECRETS = Named({"CLIENT_SECRET": "client-secret-of-capset"})


@tool(effect="read", credential="calendar")
async def meetings(ctx: Context, day: str) -> str:
    """Say how long the caller's credential is, and the day."""
    return f"{day}: {len((await ctx.credential()).get_secret_value())}"


secretary = Agent("secretary", uses=[Capability("calendars", tools=[meetings])])


def provider_of(running: Accounts) -> Provider:
    """Return the declaration of an authorization server."""
    return Provider(
        name="town",
        issuer=running.issuer,
        client_id="capset",
        client_secret="${CLIENT_SECRET}",  # a placeholder
        internal=[running.issuer.removeprefix("http://")],
    )


def vault_of(server: str = "calendar", provider: Provider | None = None) -> UserVault:
    """Return a vault for a server, which takes a key, or tokens of a provider."""
    scopes = () if provider is None else ("read",)
    auth = UserCredential(provider=provider, scopes=scopes)
    vault = UserVault(VaultKeyRing([new_vault_key()]), SECRETS)
    vault.declare([McpServer(name=server, url=f"https://{server}.example/mcp", auth=auth)])
    return vault
