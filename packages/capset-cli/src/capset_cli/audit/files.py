"""Files of exported records and of checkpoints, read and verified without a database (spec 4, G22, G64)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final, cast

from capset.definitions.calls.records import COLUMNS, NUMBERS
from capset.errors import DefinitionError
from capset.fingerprint.chain import Verification, verify
from capset.fingerprint.checkpoints import Checkpoint, TrustedKey, VerificationError, checkpoint_of
from capset_cli.audit.keys import require_file

_COLUMNS: Final = frozenset(COLUMNS)


def verify_file(path: Path, keys: Sequence[TrustedKey], kept: Sequence[Checkpoint]) -> Verification:
    """Verify an exported file against its own checkpoints and those that were ``kept`` elsewhere."""
    try:
        checkpoints = [*_checkpoints(path), *kept]
    except VerificationError as error:
        return Verification(0, str(error), error.seq)
    rows = _rows(path)
    first = next(rows, None)
    if first is None or first["seq"] == 1 or type(first["seq"]) is not int or first["seq"] < 1:
        return verify(chain([first] if first else [], rows), keys=keys, external=checkpoints)
    # The records before a partial chain are missing, so only a checkpoint can confirm its start.
    is_anchored = any(checkpoint.seq == first["seq"] - 1 for checkpoint in checkpoints)
    previous = None if is_anchored else str(first["previous"])
    return verify(chain([first], rows), since=first["seq"], previous=previous, keys=keys, external=checkpoints)


def read_checkpoints(path: Path) -> list[Checkpoint]:
    """Return the checkpoints in a file, one JSON object per line; records of an export are skipped.

    Raises ``DefinitionError`` for an invalid line, or if there are none.
    """
    try:
        checkpoints = list(_checkpoints(path))
    except (VerificationError, DefinitionError) as error:
        raise DefinitionError(f"there are no checkpoints in {str(path)!r}: {error}") from None
    if not checkpoints:
        raise DefinitionError(
            f"there are no checkpoints in {str(path)!r}",
            hint="capset audit export and capset audit checkpoints --json print them",
        )
    return checkpoints


def _checkpoints(path: Path) -> Iterator[Checkpoint]:
    return (checkpoint_of(line) for line in _lines(path) if "signature" in line)


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:  # an altered row can contain any value
    """Yield the records of a file unchanged. A column that is missing in a record of an earlier version is null."""
    return (
        {name: _checked_value(line.get(name), name) for name in COLUMNS}
        for line in _lines(path)
        if "signature" not in line
    )


def _lines(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the records and checkpoints of a file, one JSON object per line. Raises ``DefinitionError`` for others."""
    try:
        with require_file(path).open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    data: Any = json.loads(line)
                except (ValueError, RecursionError):
                    data = None
                if not isinstance(data, dict) or not (
                    "signature" in data or (data.keys() <= _COLUMNS and "seq" in data)
                ):
                    raise DefinitionError(
                        f"line {number} is not a record or a checkpoint",
                        hint="capset audit export writes a file of them",
                    )
                yield cast("dict[str, Any]", data)
    except UnicodeDecodeError as error:
        raise DefinitionError(f"{str(path)!r} is not UTF-8 text, at byte {error.start}") from None


def _checked_value(value: Any, name: str) -> Any:
    """Return a column's value, or, if its type is wrong, a value that matches no record."""
    expected = int if name in NUMBERS else str
    return value if value is None or type(value) is expected else {"changed": repr(value)}
