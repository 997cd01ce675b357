"""The versions that ``capset diff`` compares: files, standard input, or the ids of stored versions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final, cast
from uuid import UUID

from pydantic import ValidationError
from pydantic_core import from_json

from capset.errors import DefinitionError, closest
from capset.evaluation.compare.sides import Side, side_of
from capset.evaluation.snapshot.envelope import read_envelope
from capset.fingerprint.links import CapabilityLink

MAX_BYTES: Final = 64 * 1024 * 1024
_KINDS: Final = "an envelope, as SnapshotEnvelope.to_json() writes it, or a link, as model_dump_json() does"


def find(named: str) -> Side | UUID:
    """Return the version in a file, or in standard input for ``-``; or the id of a stored one.

    Raises ``DefinitionError`` for any other name, and a file that cannot be read, or contains no link and no envelope.
    """
    path = Path(named)
    if named == "-":
        return _read("stdin", sys.stdin.buffer.read(MAX_BYTES + 1))
    try:
        if path.exists():
            with path.open("rb") as file:
                return _read(named, file.read(MAX_BYTES + 1))
    except OSError as error:
        raise DefinitionError(f"{named}: cannot be read: {error.strerror}") from None
    try:
        return UUID(named)
    except ValueError:
        raise _nowhere(path) from None


def _read(named: str, text: bytes) -> Side:
    if len(text) > MAX_BYTES:
        raise DefinitionError(f"{named}: at most {MAX_BYTES} bytes are read")
    try:
        data: Any = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise DefinitionError(f"{named} is not JSON: {error}", hint=f"it must hold {_KINDS}") from None
    if not isinstance(data, dict) or not {"runtime", "runtime_hash"} & cast("dict[str, Any]", data).keys():
        raise DefinitionError(f"{named} holds no link and no envelope", hint=f"it must hold {_KINDS}")
    try:
        if "runtime" in data:
            return side_of(read_envelope(text))
        return Side(CapabilityLink.model_validate_json(text))
    except DefinitionError as error:
        raise DefinitionError(f"{named}: {error.message}", hint=error.hint) from None
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:5])
        raise DefinitionError(f"{named}: this is no link: {problems}", hint=f"it must hold {_KINDS}") from None


def _nowhere(path: Path) -> DefinitionError:
    try:
        meant = closest(path.name, (one.name for one in path.parent.iterdir()))
    except OSError:
        meant = None
    told = f"; did you mean {str(path.with_name(meant))!r}?" if meant else ""
    return DefinitionError(
        f"there is no file {str(path)!r}{told}", hint="or give the id of a link or an envelope that a store keeps"
    )
