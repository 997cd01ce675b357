"""Access to connections: those of a server, or those of a configuration file in a local database."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar

import typer

from capset.errors import DefinitionError
from capset.kernel.governance.acts import acting
from capset.kernel.registry import Registry
from capset_cli.common.actors import local_actor
from capset_cli.common.configuration import load_configuration, make_kernel
from capset_cli.common.remote import run_on_server, select_server
from capset_cli.common.settings import Settings, load_settings
from capset_cli.common.upstream import Upstream
from capset_cli.common.vaults import user_vault

if TYPE_CHECKING:
    from capset_cli.administration.connections import LocalConnections
    from capset_connect.config_file import Configuration
    from capset_connect.vault.user_vault import UserVault
    from capset_server.client.connections import ConnectionResource

    Connections: TypeAlias = "ConnectionResource | LocalConnections"

T = TypeVar("T")
ConnectionName = Annotated[str, typer.Argument(metavar="NAME", help="A connection, or a server that uses it.")]
DeclaringFile = Annotated[
    Path | None, typer.Option("--agent", metavar="FILE", help="The configuration file that declares the servers.")
]


def use_connections(
    work: Callable[[Connections], Awaitable[T]],
    *,
    agent: Path | None,
    principal: str | None,
    db: str | None,
    url: str | None,
) -> T:
    """Run ``work`` with the connections of a server if one is named, otherwise of a file, and return its result.

    Raises ``DefinitionError`` without either, and without the vault's key.
    """
    server = select_server(url, agent=agent, principal=principal, db=db)
    if server is not None:
        return run_on_server(server, lambda client: work(client.connections))
    if agent is None:
        raise DefinitionError(
            "name the configuration file that declares the servers: --agent FILE", hint="or a server: --url URL"
        )
    settings = load_settings(db=db, principal=principal)
    configuration = load_configuration(agent, Registry.installed(), Upstream(settings.db))
    vault = user_vault(configuration.sources, is_required=True)
    if vault is None:
        raise DefinitionError(f"{agent} declares no server that users connect", hint="such a server has auth: user")
    return asyncio.run(_use_local(work, settings, configuration, vault))


async def _use_local(
    work: Callable[[Connections], Awaitable[T]], settings: Settings, configuration: Configuration, vault: UserVault
) -> T:
    from capset_cli.administration.connections import LocalConnections

    kernel = make_kernel(settings.db, configuration, signs=False, redis=settings.redis, vault=vault)
    async with kernel:
        with acting(local_actor(settings.principal)):
            return await work(LocalConnections(vault.connections(kernel), settings.principal))
