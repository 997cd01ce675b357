"""``capset mcp withdraw``: withdrawal of approvals."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Annotated, cast

import typer

from capset.definitions.governance.acts import ActName
from capset.errors import DefinitionError, unknown
from capset.kernel.kernel import Kernel
from capset.stores.base import AuditQuery
from capset_cli.common.actors import local_actor
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import AsJson, Db, Who
from capset_cli.common.output import err, escaped, out, print_json
from capset_cli.common.settings import Settings, load_settings, require_db
from capset_connect.mcp.server import OF_AGENTS
from capset_connect.sources import source_named


@guarded
def withdraw_command(
    server: Annotated[str, typer.Argument(metavar="SERVER", help="The name of a server, or api:NAME for an API.")],
    tools: Annotated[
        list[str] | None, typer.Argument(metavar="TOOL...", help="Tools by their original names; by default all.")
    ] = None,
    principal: Who = None,
    db: Db = None,
    as_json: AsJson = False,
) -> Exit:
    """Withdraw the approval of tools of an MCP server or an API, on record. Agents can no longer use them.

    The MCP server or API is not contacted, and no file is needed. A running capset server follows within seconds. Exits
    with 2 for an MCP server, API or tool that was never approved in this database.
    """
    settings = load_settings(db=db, principal=principal)
    withdrawn, before = asyncio.run(_withdraw(server, tools or None, settings))
    if as_json:
        print_json({"items": [{"server": server, "tool": name} for name in withdrawn]})
        return Exit.DONE
    for name in withdrawn:
        out().print(f"{escaped(name)} is no longer approved", soft_wrap=True)
    for name in before:
        err().print(f"[dim]{escaped(name)} is not approved[/]", soft_wrap=True)
    if not withdrawn:
        err().print("[dim]nothing has changed: none of its tools was approved[/]")
    return Exit.DONE


async def _withdraw(key: str, tools: Sequence[str] | None, settings: Settings) -> tuple[list[str], list[str]]:
    """Withdraw approvals; return the tools that had one, and the named tools that only had one in the past.

    Raises ``DefinitionError`` for a source or tools that were never approved.
    """
    from capset_connect.pins.tool_pins import withdraw

    source = source_named(key)
    async with Kernel(store=require_db(settings.db)) as kernel:
        pins = [pin for pin in await kernel.store.pins.list() if not pin.server.startswith(OF_AGENTS)]
        pinned = {pin.tool for pin in pins if pin.server == key}
        missing = sorted(set(tools or ()) - pinned)
        if not pinned or missing:
            past = await _past_approvals(kernel, source.approval_act)
            servers = {*past, *(pin.server for pin in pins)}
            if key not in servers:
                raise DefinitionError(unknown("MCP server or API", key, servers))
            tool_names = pinned | past.get(key, set())
            for name in missing:
                if name not in tool_names:
                    raise DefinitionError(f"{source.label}: {unknown('tool', name, tool_names)}")
        chosen = None if tools is None else pinned.intersection(tools)
        return await withdraw(kernel, source, local_actor(settings.principal), chosen=chosen), missing


async def _past_approvals(kernel: Kernel, act: ActName) -> dict[str, set[str]]:
    """Return the tools of each source that were ever approved or withdrawn, as far back as the records go."""
    tools_by_server: dict[str, set[str]] = {}
    before: int | None = None
    while True:
        page = await kernel.audit.query(AuditQuery(act=act, limit=200, before=before))
        for record in page.items:
            about = json.loads(record.arguments or "{}")
            if isinstance(tools := about.get("tools"), dict):  # not if it was truncated
                tools_by_server.setdefault(about["server"], set()).update(cast("dict[str, object]", tools))
        if page.next is None:
            return tools_by_server
        before = page.next
