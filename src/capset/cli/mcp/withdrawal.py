"""``capset mcp withdraw``: the end of an approval."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

import typer

from capset.adapters.sources import source_named
from capset.cli.common.actors import actor_here
from capset.cli.common.exits import Exit, guarded
from capset.cli.common.options import AsJson, Db, Who
from capset.cli.common.output import err, out, print_json, verbatim
from capset.cli.common.settings import Settings, existing_db, load_settings
from capset.kernel.kernel import Kernel


@guarded
def withdraw_command(
    server: Annotated[str, typer.Argument(metavar="SERVER", help="The name of a server, or api:NAME for an API.")],
    tools: Annotated[
        list[str] | None, typer.Argument(metavar="TOOL...", help="Tools by their names there; all if left out.")
    ] = None,
    principal: Who = None,
    db: Db = None,
    as_json: AsJson = False,
) -> Exit:
    """Withdraw the approval of tools of an MCP server or an API, on record. No agent has them any more.

    The server is not asked, and no file is needed. A server that is running takes it over within seconds.
    """
    settings = load_settings(db=db, principal=principal)
    withdrawn = asyncio.run(_withdraw(server, tools or None, settings))
    if as_json:
        print_json({"items": [{"server": server, "tool": name} for name in withdrawn]})
        return Exit.DONE
    for name in withdrawn:
        out().print(f"{verbatim(name)} is no longer approved", soft_wrap=True)
    if not withdrawn:
        err().print("[dim]nothing has changed: nothing of it was approved[/]")
    return Exit.DONE


async def _withdraw(key: str, tools: Sequence[str] | None, settings: Settings) -> list[str]:
    from capset.adapters.pins import withdraw

    async with Kernel(store=existing_db(settings.db)) as kernel:
        return await withdraw(kernel, source_named(key), actor_here(settings.principal), chosen=tools)
