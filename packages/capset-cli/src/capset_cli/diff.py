"""``capset diff``: the differences between two versions (spec 2, F31)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Final, cast
from uuid import UUID

import typer
from pydantic import ValidationError
from pydantic_core import from_json

from capset.errors import DefinitionError, closest
from capset.evaluation.compare.comparison import diff_sides
from capset.evaluation.compare.differences import Diff
from capset.evaluation.compare.report import Line, Sign, report_lines
from capset.evaluation.compare.sides import Side, side_of, stored_side
from capset.evaluation.snapshot.envelope import read_envelope
from capset.fingerprint.links import CapabilityLink
from capset.wire.diffs import diff_shape
from capset_cli.common.exits import Exit, guarded, ignoring_closed_pipe
from capset_cli.common.options import AsJson, Db
from capset_cli.common.output import cell, err, out, print_json
from capset_cli.common.settings import load_settings, require_db
from capset_cli.common.targets import open_store

_STYLES: Final[dict[Sign, str]] = {"+": "green", "-": "red", "~": "yellow", "=": "dim", "#": "bold"}

Org = Annotated[str | None, typer.Option("--org", help="The organisation that ids in the database belong to, if any.")]

MAX_BYTES: Final = 64 * 1024 * 1024
_KINDS: Final = "an envelope, as SnapshotEnvelope.to_json() writes it, or a link, as model_dump_json() does"


@guarded
def diff_command(
    before: Annotated[
        str,
        typer.Argument(metavar="A", help="A file with an envelope or a link, - for stdin, or the id of a stored one."),
    ],
    after: Annotated[str, typer.Argument(metavar="B", help="What to compare it with, in the same form.")],
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 3 if they differ.")] = False,
    org: Org = None,
    db: Db = None,
    as_json: AsJson = False,
) -> Exit:
    """Compare two versions of an agent: which hashes changed, and why.

    Shows the tools that were added (+), removed (-) or changed (~), field by field; the policies that decide
    differently; and the changes in the prompt and the definition. Ids are looked up in the database.
    """
    if before == after == "-":
        raise DefinitionError("stdin can be read once: give a file or an id for A or for B")
    diff = asyncio.run(_compare(before, after, org, db))
    with ignoring_closed_pipe():
        if as_json:
            print_json(diff_shape(diff).plain())
        else:
            print_report(report_lines(diff, width=out().width))
    return Exit.DIFFERENT if exit_code and diff.differs else Exit.DONE


async def _compare(before: str, after: str, org: str | None, db: str | None) -> Diff:
    ours, theirs = resolve_side(before), resolve_side(after)
    if isinstance(ours, Side) and isinstance(theirs, Side):
        return diff_sides(ours, theirs)
    async with open_store(require_db(load_settings(db=db).db)) as store:
        ours, theirs = [
            side if isinstance(side, Side) else await stored_side(store.lineage, org, str(side))
            for side in (ours, theirs)
        ]
        return diff_sides(ours, theirs)


def print_report(lines: Iterable[Line]) -> None:
    """Print a report in colours, with a note on stderr if values in it are shortened."""
    console = out()
    is_cut = False
    for line in lines:
        style = _STYLES.get(line.sign)
        text = cell(str(line))
        console.print(f"[{style}]{text}[/]" if style else text, soft_wrap=True)
        is_cut |= line.is_truncated
    if is_cut:
        err().print("[dim]values with … are shortened: --json has them in full[/]")


def resolve_side(reference: str) -> Side | UUID:
    """Return the version in a file, or on stdin for ``-``; or the id of a stored one.

    Raises ``DefinitionError`` for any other name, and for a file that cannot be read or has no link or envelope.
    """
    path = Path(reference)
    if reference == "-":
        return _parse_side("stdin", sys.stdin.buffer.read(MAX_BYTES + 1))
    try:
        if path.exists():
            with path.open("rb") as file:
                return _parse_side(reference, file.read(MAX_BYTES + 1))
    except OSError as error:
        raise DefinitionError(f"{reference}: cannot be read: {error.strerror}") from None
    try:
        return UUID(reference)
    except ValueError:
        raise _unknown_side_error(path) from None


def _parse_side(source: str, text: bytes) -> Side:
    if len(text) > MAX_BYTES:
        raise DefinitionError(f"{source}: at most {MAX_BYTES} bytes are read")
    try:
        data: Any = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise DefinitionError(f"{source} is not JSON: {error}", hint=f"it must contain {_KINDS}") from None
    if not isinstance(data, dict) or not {"runtime", "runtime_hash"} & cast("dict[str, Any]", data).keys():
        raise DefinitionError(f"{source} contains no link or envelope", hint=f"it must contain {_KINDS}")
    try:
        if "runtime" in data:
            return side_of(read_envelope(text))
        return Side(CapabilityLink.model_validate_json(text))
    except DefinitionError as error:
        raise DefinitionError(f"{source}: {error.message}", hint=error.hint) from None
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors()[:5]
        )
        raise DefinitionError(f"{source} is not a valid link: {problems}", hint=f"it must contain {_KINDS}") from None


def _unknown_side_error(path: Path) -> DefinitionError:
    try:
        meant = closest(path.name, (sibling.name for sibling in path.parent.iterdir()))
    except OSError:
        meant = None
    suggestion = f"; did you mean {str(path.with_name(meant))!r}?" if meant else ""
    return DefinitionError(
        f"there is no file {str(path)!r}{suggestion}", hint="or give the id of a stored link or envelope"
    )
