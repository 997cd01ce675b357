"""Two users of one tool, each with a key of their own, and an agent that one of them lets use it for some calls."""

import asyncio

from capset import Agent, Context, Kernel, Principal, tool
from capset.errors import PermissionDenied
from capset.kernel.runtime import EnvironmentSecrets
from capset.stores.base import AuditQuery
from capset.wire.connections import DelegationInput
from capset_connect.mcp import McpServer
from capset_connect.vault.encryption import VaultKeyRing, new_vault_key
from capset_connect.vault.user_auth import UserCredential
from capset_connect.vault.user_vault import UserVault

OWNERS = {"key-of-ada": "Ada", "key-of-fred": "Fred"}


@tool(effect="read", credential="wiki")
async def read_page(ctx: Context, title: str) -> str:
    """Read a page of the wiki, as whoever calls."""
    key = await ctx.credential()
    return f"{OWNERS[key.get_secret_value()]} reads {title}"


# A configuration file declares such a server under mcp_servers, with auth: user.
wiki = McpServer(name="wiki", url="https://wiki.example/mcp", auth=UserCredential())
clerk = Agent("clerk", tools=[read_page])
ada, fred = (Principal(name, org="acme") for name in ("ada", "fred"))
helper = Principal("helper", kind="agent", org="acme")


async def read(kernel: Kernel, principal: Principal, title: str) -> None:
    async with kernel.open(clerk, principal=principal) as session:
        try:
            print(await session.options(approvals="defer").call(read_page, title))
        except PermissionDenied as error:
            print(error.code, "-", error.message.partition(". The request")[0])


async def main() -> None:
    # Outside of examples, the vault's key comes from CAPSET_VAULT_KEY: capset vault key
    vault = UserVault(VaultKeyRing([new_vault_key()]), EnvironmentSecrets())
    vault.declare([wiki])
    async with Kernel(store="memory://", credentials=vault.open) as kernel:
        connections = vault.connections(kernel)
        await read(kernel, ada, "Home")
        for user in (ada, fred):
            await connections.enter_key(user, "wiki", f"key-of-{user.id}")
            await read(kernel, user, "Home")
        acting = helper.acting_for(ada)
        await read(kernel, acting, "Home")
        only_home = DelegationInput(delegate="agent:helper", arguments={"title": {"enum": ["Home"]}})
        await connections.delegate(ada, "wiki", only_home)
        await read(kernel, acting, "Home")
        await read(kernel, acting, "Salaries")
        await kernel.audit.flush()
        for record in reversed((await kernel.audit.query(AuditQuery(tool="read_page"))).items):
            owner = record.credential and record.credential.partition(" ")[2]
            print(f"{record.principal} with the credential of {owner}: {record.outcome}")


asyncio.run(main())
