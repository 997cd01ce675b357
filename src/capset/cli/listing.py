"""``capset list``: what is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from capset.cli.exits import Exit, guarded
from capset.cli.options import AsJson
from capset.cli.output import cell, err, out, print_json, table, verbatim
from capset.cli.remote import Url, ask, server_of
from capset.kernel.registry import Registry
from capset.wire.capabilities import CapabilityShape, capability_shape

if TYPE_CHECKING:
    from capset.client import Client


@guarded
def list_command(
    category: Annotated[str | None, typer.Option(help="Only capabilities of this category.")] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """List the capabilities that are installed, here or on a server."""
    server = server_of(url)
    if server is not None:
        found = ask(server, lambda client: _list_there(client, category, with_tools=not as_json))
        _show(*found, as_json=as_json)
        return Exit.DONE
    registry = Registry.installed()
    shapes = [capability_shape(one) for one in registry.capabilities.values()]
    shapes = [one for one in shapes if category is None or one.category == category]
    for problem in registry.problems:
        err().print(f"[yellow]warning:[/] {verbatim(problem.entry_point)}: {verbatim(problem.message)}", soft_wrap=True)
    problems = [{"entry_point": one.entry_point, "message": one.message} for one in registry.problems]
    tools = {one.id: [tool.name for tool in registry.capabilities[one.id].tools] for one in shapes}
    _show(shapes, tools, {"problems": problems} if problems else {}, as_json=as_json)
    return Exit.DONE


Listed = tuple[Sequence[CapabilityShape], Mapping[str, Sequence[str]]]
"""Capabilities, and by their ids the names of their tools."""


async def _list_there(client: Client, category: str | None, *, with_tools: bool) -> Listed:
    page = await client.capabilities.list(category=category)
    details = [await client.capabilities.get(one.id) for one in page.items] if with_tools else []
    return page.items, {one.id: [tool.name for tool in one.tools] for one in details}


def _show(
    shapes: Sequence[CapabilityShape],
    tools: Mapping[str, Sequence[str]],
    more: Mapping[str, object] | None = None,
    *,
    as_json: bool,
) -> None:
    if as_json:
        print_json({"items": [one.plain() for one in shapes], "total": len(shapes), **(more or {})})
        return
    rows = ((one.id, one.status, cell(one.category or "–"), ", ".join(tools[one.id]) or "–") for one in shapes)
    out().print(table("ID", "STATUS", "CATEGORY", "TOOLS", rows=rows, folds=("CATEGORY", "TOOLS")))
