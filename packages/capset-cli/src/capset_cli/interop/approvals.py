"""Approval of the tools of imported MCP servers, after a table of them: ``capset gateway import FILE --approve``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from capset.errors import counted
from capset.kernel.kernel import Kernel
from capset.wire.tool_sources import McpServerShape
from capset_cli.common.actors import local_actor
from capset_cli.common.exits import Exit
from capset_cli.common.output import cell, err, escaped, table
from capset_cli.common.settings import Settings
from capset_cli.common.sources import unset_secrets
from capset_cli.mcp.pins import query_sources, tool_effect
from capset_connect.declared_sources import need_of
from capset_connect.mcp.client_files import read_client_file
from capset_connect.mcp.server import server_of
from capset_connect.pins.tool_pins import SeenSource, Standing, approve
from capset_connect.sources import Source


def approve_servers(text: str, settings: Settings, options: str) -> Exit:
    """Query the MCP servers of a client's file, show their new tools, and approve them if the user agrees.

    They are approved as they were queried for the table. Tools that have changed since they were approved are left to
    ``capset mcp diff``. ``options`` are those of commands for the configuration.
    """
    servers = [
        server_of(name, McpServerShape.model_validate(dict(server)), Path.cwd())
        for name, server in read_client_file(text).servers.items()
    ]
    reports = query_sources(servers, settings)
    for report in reports:
        need = need_of(report, unset_secrets(report.source))
        if need is not None and need.verb != "approve":
            lines = "".join(f"\n  {line}" for line in report.output)
            err().print(f"[yellow]warning:[/] {escaped(f'{need.key}: {need.line(options)}{lines}')}", soft_wrap=True)
    code = Exit.FAILED if any(report.problem for report in reports) else Exit.DONE
    new = [(report, tool) for report in reports for tool in report.tools if tool.state == "new"]
    rows = ([cell(column) for column in _row(report, tool)] for report, tool in new)
    number = sum(not tool.problems for _, tool in new)
    err().print(table("SERVER", "TOOL", "EFFECT", "DESCRIPTION", "PROBLEMS", rows=rows, folds=("DESCRIPTION",)))
    if not number:
        err().print("[dim]there is no tool to approve[/]")
        return code
    err().print(escaped(f"Approve {counted(number, 'tool')} as described here? [y/N] "), end="")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):  # stdout may be the file
        err().print("[dim]nothing was approved[/]")
        return Exit.REFUSED
    asyncio.run(_approve(reports, settings))
    err().print(f"[dim]{counted(number, 'tool')} approved; next: capset gateway FILE[/]", soft_wrap=True)
    return code


async def _approve(reports: Sequence[SeenSource[Source]], settings: Settings) -> None:
    async with Kernel(store=settings.db) as kernel:
        for report in reports:
            offers = [tool.offer for tool in report.tools if tool.offer is not None]
            chosen = [tool.name for tool in report.tools if tool.state == "new" and not tool.problems]
            if chosen:
                await approve(kernel, report.source, offers, local_actor(settings.principal), chosen=chosen)


def _row(report: SeenSource[Source], tool: Standing) -> Iterator[str]:
    yield report.source.pin_key
    yield tool.name
    yield tool_effect(report, tool)
    yield str(tool.offer.shape.get("description") or "–") if tool.offer else "–"
    yield "; ".join(tool.problems) or "–"
