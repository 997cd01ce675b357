"""The input files of ``capset audit``: keys, checkpoints stored elsewhere, and exported records."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TextIO, cast

import typer

from capset.definitions.records import COLUMNS, NUMBERS
from capset.errors import DefinitionError
from capset.fingerprint.checkpoints import Checkpoint, Unsound, checkpoints_in
from capset.fingerprint.signatures import CheckpointKey, PublicKey

PrivateKey = Annotated[
    Path, typer.Option("--key", metavar="FILE", help="The private key that signs, as capset audit keygen makes it.")
]


def private_key(path: Path) -> CheckpointKey:
    """Return the key in a file. Raises ``DefinitionError`` for a file that has none, or does not exist."""
    return CheckpointKey.read(_there(path))


def public_keys(paths: list[Path] | None) -> list[PublicKey]:
    """Return the keys in files. Raises ``DefinitionError`` as ``private_key`` does."""
    return [PublicKey.read(_there(path)) for path in paths or ()]


def kept_checkpoints(paths: list[Path] | None) -> list[Checkpoint]:
    """Return the checkpoints in files, one JSON object per line. Raises ``DefinitionError`` for an invalid line."""
    found: list[Checkpoint] = []
    for path in paths or ():
        try:
            checkpoints = checkpoints_in(_there(path).read_text(encoding="utf-8"))
        except (Unsound, UnicodeDecodeError) as error:
            raise DefinitionError(f"there are no checkpoints in {str(path)!r}: {error}") from None
        if not checkpoints:
            raise DefinitionError(
                f"there are no checkpoints in {str(path)!r}", hint="capset audit checkpoints gives them"
            )
        found += checkpoints
    return found


def exported_rows(file: TextIO) -> Iterator[Mapping[str, Any]]:  # an altered row can contain any value
    """Yield the records of a file unchanged, one JSON object per line. Raises ``DefinitionError`` for other lines.

    A column that is missing in a record of an earlier version becomes null.
    """
    for number, line in enumerate(file, 1):
        try:
            data: Any = json.loads(line)
        except (ValueError, RecursionError):
            data = None
        if not isinstance(data, dict) or not data.keys() <= set(COLUMNS) or "seq" not in data:
            raise DefinitionError(f"line {number} is no record", hint="capset audit export writes a file of them")
        row = cast("dict[str, Any]", data)
        yield {name: _plain(row.get(name), name) for name in COLUMNS}


def _plain(value: Any, name: str) -> Any:
    """Return a column's value; one of the wrong type becomes a form that matches no record."""
    expected = int if name in NUMBERS else str
    return value if value is None or type(value) is expected else {"changed": repr(value)}


def _there(path: Path) -> Path:
    if not path.is_file():
        raise DefinitionError(f"there is no file {str(path)!r}")
    return path
