"""The hash chain of records: every link covers its own columns and the hash of the link before it (spec 4, G20–G22)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from capset.definitions.records import COLUMNS
from capset.fingerprint.canonical import NotCanonical, digest

GENESIS: Final = "0" * 64
"""What the first link has as its ``previous``."""


@dataclass(frozen=True, slots=True)
class Verification:
    """What ``verify`` found: how many links hold, and the first that does not, by its ``seq``."""

    checked: int
    problem: str | None = None
    seq: int | None = None

    @property
    def ok(self) -> bool:
        """Whether every link holds."""
        return self.problem is None


def link_payload(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a link's hash covers: every column but ``hash`` that is not null.

    A column's value may be anything here, since a tampered row is read too.
    """
    payload = {name: value for name, value in columns.items() if value is not None and name != "hash"}
    payload["kind"] = "record"
    return payload


def seal(columns: dict[str, Any]) -> dict[str, Any]:
    """Add the ``hash`` to a record's columns, ``seq``, ``writer`` and ``previous`` among them; return them.

    Raises ``NotCanonical`` for text with a lone surrogate.
    """
    columns["hash"] = digest(link_payload(columns))
    return columns


def verify(rows: Iterable[Mapping[str, Any]]) -> Verification:
    """Walk a chain from its first link, in ``seq`` order, and stop at the first that does not hold.

    Finds a change of any column, a removal, an insertion and a reordering. A removed tail needs a checkpoint.
    """
    previous, expected = GENESIS, 1
    for row in rows:
        if problem := _problem(row, previous, expected):
            seq = row.get("seq")
            return Verification(expected - 1, problem, seq if isinstance(seq, int) else expected)
        previous, expected = row["hash"], expected + 1
    return Verification(expected - 1)


def _problem(row: Mapping[str, Any], previous: str, expected: int) -> str | None:
    if row["seq"] != expected:
        return f"record {expected} is missing; found {row['seq']!r} in its place"
    if row["previous"] != previous:
        return f"record {expected} does not follow the one before it: its 'previous' is another hash"
    try:
        actual = digest(link_payload({name: row[name] for name in COLUMNS}))
    except NotCanonical as error:
        return f"record {expected} holds what no record can hold: {error}"
    return None if row["hash"] == actual else f"record {expected} was changed: its columns do not give its hash"
