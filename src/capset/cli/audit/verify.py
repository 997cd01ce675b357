"""``capset audit verify``: the whole chain, in a database or in an exported file."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from capset.cli.audit.files import exported_rows, kept_checkpoints, public_keys
from capset.cli.common.exits import Exit, ended, guarded
from capset.cli.common.options import AsJson, Db
from capset.cli.common.output import err, out, print_json, verbatim
from capset.cli.common.settings import existing_db, load_settings
from capset.cli.common.targets import opened_store
from capset.errors import DefinitionError
from capset.fingerprint.chain import Verification, verify
from capset.fingerprint.checkpoints import Checkpoint
from capset.fingerprint.signatures import PublicKey
from capset.wire.audit import verification_shape


@guarded
def verify_command(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="Records that were exported, instead.")] = None,
    key: Annotated[
        list[Path] | None,
        typer.Option(metavar="PUBLIC", help="A public key of the checkpoints, in a file; may be repeated."),
    ] = None,
    checkpoint: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Checkpoints that were kept elsewhere, in a file; may be repeated."),
    ] = None,
    db: Db = None,
    as_json: AsJson = False,
) -> Exit:
    """Check the whole chain of records; the exit code is 3 if it does not hold."""
    keys, kept = public_keys(key), kept_checkpoints(checkpoint)
    if file is None:
        found = asyncio.run(_verify(existing_db(load_settings(db=db).db), keys, kept))
    elif db is not None:
        raise DefinitionError("there are records to verify in a file, or in a database: leave out FILE or --db")
    else:
        found = _verify_file(file, keys, kept)
    with ended():
        if as_json:
            print_json(verification_shape(found).plain())
        elif found.ok:
            _tell(found, in_file=file is not None, by_kept=bool(kept))
        else:
            err().print(f"[red]not verified:[/] {verbatim(found.problem or '')}", soft_wrap=True)
            err().print(f"[dim]{found.checked} records before it hold[/]")
    return Exit.DONE if found.ok else Exit.REFUSED


def _tell(found: Verification, *, in_file: bool, by_kept: bool) -> None:
    """Print the result, and the limits of the check."""
    held = f"{found.checked} records, every hash holds" if found.checked else "there are no records"
    out().print(f"[green]verified:[/] {held}")
    notes: list[str] = []
    if found.since > 1:
        where = "what was before is not in the file" if in_file else "what was before was pruned"
        notes.append(f"they begin with record {found.since}; {where}")
    last = found.since + found.checked - 1
    if found.covered is None and not by_kept:
        notes.append("a tail that was cut off, or a chain that was computed anew, is seen with --key only")
    elif found.covered is not None and found.covered < last:
        notes.append(
            f"signed checkpoints cover records up to {found.covered}; of those after it, a tail may be missing"
        )
    for note in notes:
        err().print(f"[dim]{note}[/]", soft_wrap=True)


async def _verify(url: str, keys: Sequence[PublicKey], kept: Sequence[Checkpoint]) -> Verification:
    async with opened_store(url) as store:
        return await store.audit.verify(keys, kept)


def _verify_file(path: Path, keys: Sequence[PublicKey], kept: Sequence[Checkpoint]) -> Verification:
    if keys and not kept:
        raise DefinitionError(
            "the checkpoints of an exported file stand in a file of their own: name it with --checkpoint",
            hint="capset audit export --checkpoints FILE writes it beside the records",
        )
    if not path.is_file():
        raise DefinitionError(f"there is no file {str(path)!r}")
    try:
        with path.open(encoding="utf-8") as file:
            rows: Iterator[Mapping[str, Any]] = exported_rows(file)
            first = next(rows, None)
            if first is None or first["seq"] == 1 or type(first["seq"]) is not int or first["seq"] < 1:
                return verify(chain([first] if first else [], rows), keys=keys, kept=kept)
            # The records before a partial chain are missing, so only a checkpoint can confirm its start.
            anchored = any(one.seq == first["seq"] - 1 for one in kept)
            previous = None if anchored else str(first["previous"])
            return verify(chain([first], rows), since=first["seq"], previous=previous, keys=keys, kept=kept)
    except UnicodeDecodeError as error:
        raise DefinitionError(f"{str(path)!r} is not UTF-8 text, at byte {error.start}") from None
