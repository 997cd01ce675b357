"""``capset list``: the installed capabilities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from capset.extras import MissingExtras
from capset.kernel.registry import Registry
from capset.wire.capabilities import CapabilityDetail, CapabilityShape, capability_detail, capability_shape
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import AsJson
from capset_cli.common.output import cell, err, escaped, print_json, print_table
from capset_cli.common.remote import Url, run_on_server, select_server

if TYPE_CHECKING:
    from capset_server.client import Client


@guarded
def list_command(
    category: Annotated[str | None, typer.Option(help="Only capabilities in this category.")] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> Exit:
    """List the capabilities that are installed on this machine or on a server."""
    server = select_server(url)
    if server is not None:
        listing = run_on_server(server, lambda client: _list_on_server(client, category, with_details=not as_json))
        _show(*listing, as_json=as_json)
        return Exit.DONE
    registry = Registry.installed()
    shapes = [capability_shape(capability) for capability in registry.capabilities.values()]
    shapes = [shape for shape in shapes if category is None or shape.category == category]
    for problem in registry.problems:
        err().print(f"[yellow]warning:[/] {escaped(problem.entry_point)}: {escaped(problem.message)}", soft_wrap=True)
    problems = [{"entry_point": problem.entry_point, "message": problem.message} for problem in registry.problems]
    missing = {shape.id: registry.missing[shape.id] for shape in shapes if shape.id in registry.missing}
    details = {} if as_json else {shape.id: capability_detail(registry.capabilities[shape.id]) for shape in shapes}
    more: dict[str, object] = {"problems": problems} if problems else {}
    if missing:
        more["missing_extras"] = {name: extras.names for name, extras in missing.items()}
    _show(shapes, details, more, missing, as_json=as_json)
    if not as_json:
        for extras_needed in dict.fromkeys(missing.values()):
            names = ", ".join(name for name, other in missing.items() if other == extras_needed)
            line = f"[dim]{names} {'need' if ',' in names else 'needs'}:[/] {escaped(extras_needed.command)}"
            err().print(line, soft_wrap=True)
    return Exit.DONE


Listing = tuple[Sequence[CapabilityShape], Mapping[str, CapabilityDetail]]
"""Capabilities, and their details by id, as far as known."""


async def _list_on_server(client: Client, category: str | None, *, with_details: bool) -> Listing:
    shapes = [shape async for shape in client.capabilities.all(category=category)]
    return shapes, {shape.id: await client.capabilities.get(shape.id) for shape in shapes if with_details}


def _show(
    shapes: Sequence[CapabilityShape],
    details: Mapping[str, CapabilityDetail],
    more: Mapping[str, object] | None = None,
    missing: Mapping[str, MissingExtras] | None = None,
    *,
    as_json: bool,
) -> None:
    if as_json:
        print_json({"items": [shape.plain() for shape in shapes], "total": len(shapes), **(more or {})})
        return
    has_aliases = any(detail.aliases for detail in details.values())
    rows = (_row(shape, details[shape.id], (missing or {}).get(shape.id), has_aliases=has_aliases) for shape in shapes)
    columns = ["ID", *(["ALIASES"] if has_aliases else []), "STATUS", "CATEGORY", "TOOLS"]
    empty = "no capabilities match: packages bring them, and capset list without --category shows all"
    print_table(columns, rows, folds=("ALIASES", "CATEGORY", "TOOLS"), empty=empty)


def _row(
    shape: CapabilityShape, detail: CapabilityDetail, missing: MissingExtras | None, *, has_aliases: bool
) -> Iterator[str]:
    yield shape.id
    if has_aliases:
        yield ", ".join(detail.aliases) or "–"
    yield shape.status if missing is None else cell(f"needs [{','.join(missing.names)}]")
    yield cell(shape.category or "–")
    yield ", ".join(tool.name for tool in detail.tools) or "–"
