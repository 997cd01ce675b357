"""``capset diff``: the differences between two versions (spec 2, F31)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Annotated, Final

import typer

from capset.cli.common.exits import Exit, ended, guarded
from capset.cli.common.options import AsJson, Db
from capset.cli.common.output import cell, err, out, print_json
from capset.cli.common.settings import existing_db, load_settings
from capset.cli.common.targets import opened_store
from capset.cli.common.versions import find
from capset.errors import DefinitionError
from capset.evaluation.compare.comparison import diff_sides
from capset.evaluation.compare.differences import Diff
from capset.evaluation.compare.report import Line, Sign, report_lines
from capset.evaluation.compare.sides import Side, stored_side
from capset.wire.diffs import diff_shape

_STYLES: Final[dict[Sign, str]] = {"+": "green", "-": "red", "~": "yellow", "=": "dim", "#": "bold"}


@guarded
def diff_command(
    before: Annotated[
        str, typer.Argument(metavar="A", help="A file with an envelope or a link, - for stdin, or the id of one.")
    ],
    after: Annotated[str, typer.Argument(metavar="B", help="What to compare it with, named in the same ways.")],
    exit_code: Annotated[bool, typer.Option("--exit-code", help="End with 3 if they differ.")] = False,
    db: Db = None,
    as_json: AsJson = False,
) -> Exit:
    """Compare two versions of an agent: which hashes moved, and why.

    Shows which tools came (+), went (-) or changed (~) and what changed in them, field by field; which policies answer
    otherwise; and what changed in the prompt and the definition. Ids are looked up in the database.
    """
    if before == after == "-":
        raise DefinitionError("stdin can be read once: give a file or an id for A or for B")
    diff = asyncio.run(_compared(before, after, db))
    with ended():
        if as_json:
            print_json(diff_shape(diff).plain())
        else:
            show_lines(report_lines(diff, width=out().width))
    return Exit.DIFFERENT if exit_code and diff.differs else Exit.DONE


async def _compared(before: str, after: str, db: str | None) -> Diff:
    ours, theirs = find(before), find(after)
    if isinstance(ours, Side) and isinstance(theirs, Side):
        return diff_sides(ours, theirs)
    async with opened_store(existing_db(load_settings(db=db).db)) as store:
        ours, theirs = [
            one if isinstance(one, Side) else await stored_side(store.lineage, None, str(one)) for one in (ours, theirs)
        ]
        return diff_sides(ours, theirs)


def show_lines(lines: Iterable[Line]) -> None:
    """Print a report in colours, with a note on stderr if values in it are cut."""
    console = out()
    is_cut = False
    for line in lines:
        style = _STYLES.get(line.sign)
        text = cell(str(line))
        console.print(f"[{style}]{text}[/]" if style else text, soft_wrap=True)
        is_cut |= line.is_cut
    if is_cut:
        err().print("[dim]values with … are cut: --json has them whole[/]")
