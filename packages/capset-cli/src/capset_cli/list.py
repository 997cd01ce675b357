"""``capset list``: what is installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from capset.extras import MissingExtras
from capset.kernel.registry import Registry
from capset.wire.capabilities import CapabilityDetail, CapabilityShape, capability_detail, capability_shape
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import AsJson
from capset_cli.common.output import cell, err, out, print_json, table, verbatim
from capset_cli.common.remote import Url, ask, server_of

if TYPE_CHECKING:
    from capset_server.client import Client


@guarded
def list_command(
    category: Annotated[str | None, typer.Option(help="Only capabilities of this category.")] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """List the capabilities that are installed, here or on a server."""
    server = server_of(url)
    if server is not None:
        found = ask(server, lambda client: _list_there(client, category, with_details=not as_json))
        _show(*found, as_json=as_json)
        return Exit.DONE
    registry = Registry.installed()
    shapes = [capability_shape(one) for one in registry.capabilities.values()]
    shapes = [one for one in shapes if category is None or one.category == category]
    for problem in registry.problems:
        err().print(f"[yellow]warning:[/] {verbatim(problem.entry_point)}: {verbatim(problem.message)}", soft_wrap=True)
    problems = [{"entry_point": one.entry_point, "message": one.message} for one in registry.problems]
    missing = {one.id: registry.missing[one.id] for one in shapes if one.id in registry.missing}
    details = {} if as_json else {one.id: capability_detail(registry.capabilities[one.id]) for one in shapes}
    more: dict[str, object] = {"problems": problems} if problems else {}
    if missing:
        more["missing_extras"] = {name: one.names for name, one in missing.items()}
    _show(shapes, details, more, missing, as_json=as_json)
    if not as_json:
        for one in dict.fromkeys(missing.values()):
            names = ", ".join(name for name, other in missing.items() if other == one)
            told = f"[dim]{names} {'need' if ',' in names else 'needs'}:[/] {verbatim(one.command)}"
            err().print(told, soft_wrap=True)
    return Exit.DONE


Listed = tuple[Sequence[CapabilityShape], Mapping[str, CapabilityDetail]]
"""Capabilities, and the known details by id."""


async def _list_there(client: Client, category: str | None, *, with_details: bool) -> Listed:
    found = [one async for one in client.capabilities.all(category=category)]
    return found, {one.id: await client.capabilities.get(one.id) for one in found if with_details}


def _show(
    shapes: Sequence[CapabilityShape],
    details: Mapping[str, CapabilityDetail],
    more: Mapping[str, object] | None = None,
    missing: Mapping[str, MissingExtras] | None = None,
    *,
    as_json: bool,
) -> None:
    if as_json:
        print_json({"items": [one.plain() for one in shapes], "total": len(shapes), **(more or {})})
        return
    has_aliases = any(one.aliases for one in details.values())
    rows = (_row(one, details[one.id], (missing or {}).get(one.id), has_aliases=has_aliases) for one in shapes)
    columns = ["ID", *(["ALIASES"] if has_aliases else []), "STATUS", "CATEGORY", "TOOLS"]
    out().print(table(*columns, rows=rows, folds=("ALIASES", "CATEGORY", "TOOLS")))


def _row(
    one: CapabilityShape, detail: CapabilityDetail, missing: MissingExtras | None, *, has_aliases: bool
) -> Iterator[str]:
    yield one.id
    if has_aliases:
        yield ", ".join(detail.aliases) or "–"
    yield one.status if missing is None else cell(f"needs [{','.join(missing.names)}]")
    yield cell(one.category or "–")
    yield ", ".join(tool.name for tool in detail.tools) or "–"
