"""``capset list``: what is installed."""

from __future__ import annotations

from typing import Annotated

import typer

from capset.cli.exits import Exit, guarded
from capset.cli.options import AsJson
from capset.cli.output import cell, err, out, print_json, table, verbatim
from capset.kernel.registry import Registry
from capset.wire.capabilities import capability_shape


@guarded
def list_command(
    category: Annotated[str | None, typer.Option(help="Only capabilities of this category.")] = None,
    as_json: AsJson = False,
) -> Exit:
    """List the capabilities that are installed."""
    registry = Registry.installed()
    shapes = [capability_shape(one) for one in registry.capabilities.values()]
    shapes = [one for one in shapes if category is None or one.category == category]
    for problem in registry.problems:
        err().print(f"[yellow]warning:[/] {verbatim(problem.entry_point)}: {verbatim(problem.message)}", soft_wrap=True)
    if as_json:
        problems = [{"entry_point": one.entry_point, "message": one.message} for one in registry.problems]
        listed = {"items": [one.plain() for one in shapes], "total": len(shapes)}
        print_json(listed | {"problems": problems} if problems else listed)
        return Exit.DONE
    names = {one.id: ", ".join(tool.name for tool in registry.capabilities[one.id].tools) for one in shapes}
    rows = ((one.id, one.status, cell(one.category or "–"), names[one.id] or "–") for one in shapes)
    out().print(table("ID", "STATUS", "CATEGORY", "TOOLS", rows=rows, folds=("CATEGORY", "TOOLS")))
    return Exit.DONE
