"""Records on the wire."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from operator import attrgetter
from typing import Any, get_type_hints

from pydantic import Field, TypeAdapter, create_model

from capset.definitions.records import COLUMNS, Record
from capset.errors import StoreError
from capset.fingerprint.chain import Verification
from capset.stores.base import AuditLog, AuditQuery
from capset.wire.pages import read_page
from capset.wire.shapes import Shape


@cache
def record_shape() -> type[Shape]:
    """Return the shape of ``record_data``, to be described; no record is refused for one that another version wrote."""
    described = TypeAdapter(Record).json_schema()["properties"]
    types = get_type_hints(Record) | {"arguments": Any, "policies": list[str]}
    columns: dict[str, Any] = {
        name: (types[name], Field(description=described[name]["description"])) for name in COLUMNS
    }
    return create_model("RecordShape", __base__=Shape, __doc__="One link of the chain of records.", **columns)


class AuditPageShape(Shape):
    """Some records, and where the next page begins, if there is one."""

    items: list[dict[str, Any]]
    next: int | None = None


class RecordPageShape(Shape):
    """Some records, and the cursor of the next page, if there is one."""

    items: list[dict[str, Any]]
    next: str | None = None


class VerificationShape(Shape):
    """Whether the chain holds, how many links do, and the first that does not.

    ``since`` is the record that the log begins with, if that is not the first; ``covered`` the last one that a
    checkpoint vouches for, if a key was given. ``keys`` are the ids of the keys that the caller gave or has pinned;
    unless it is ``vouched`` for by them, or by a checkpoint that was kept, the log is only consistent in itself.
    """

    ok: bool
    checked: int
    problem: str | None = None
    seq: int | None = None
    since: int | None = None
    covered: int | None = None
    keys: tuple[str, ...] | None = None
    vouched: bool | None = None


class PrunedShape(Shape):
    """How many records were cut off, and the first that is left, or is to come."""

    removed: int
    since: int


class ExportShape(Shape):
    """How many records were written, from which to which position, and how many checkpoints stand over them."""

    records: int
    checkpoints: int
    first: int | None = None
    last: int | None = None


class KeyPairShape(Shape):
    """A pair of keys: its id, and the files of the two."""

    id: str
    private: str
    public: str


class PinShape(Shape):
    """A pin that was set: the id of a key, the last record that is kept with it, and the file of the pins."""

    key: str
    seq: int | None = None
    pins: str


class SuccessionShape(Shape):
    """The ids of a key and of the one before it, and whether that has signed the succession."""

    key: str
    before: str
    signed: bool


async def audit_page_shape(log: AuditLog, query: AuditQuery) -> AuditPageShape:
    """Return the wire shape of a page of records."""
    items, following = await read_page(log.query, query, record_data, attrgetter("seq"))
    return AuditPageShape(items=items, next=following)


async def record_page_shape(log: AuditLog, query: AuditQuery) -> RecordPageShape:
    """Return the wire shape of a page of records, in the REST API's paging format."""
    page = await audit_page_shape(log, query)
    return RecordPageShape(items=page.items, next=str(page.next) if page.next else None)


def record_data(record: Record) -> dict[str, Any]:
    """Return a record as plain JSON data, with its arguments and policies as JSON instead of text.

    Raises ``StoreError`` if they are not JSON: the record was altered.
    """
    return asdict(record) | {name: _parsed(record, name) for name in ("arguments", "policies")}


def _parsed(record: Record, name: str) -> Any:  # JSON of every type
    try:
        return json.loads(getattr(record, name))
    except (ValueError, TypeError, RecursionError):
        raise StoreError(
            f"record {record.seq} was changed: its {name} are not JSON", hint="capset audit verify says more"
        ) from None


def verification_shape(
    verification: Verification, keys: Sequence[str] = (), *, is_vouched: bool | None = None
) -> VerificationShape:
    """Return the wire shape of a verification by keys with these ids."""
    return VerificationShape(
        ok=verification.ok,
        checked=verification.checked,
        problem=verification.problem,
        seq=verification.seq,
        since=verification.since if verification.since > 1 else None,
        covered=verification.covered,
        keys=tuple(keys) or None,
        vouched=is_vouched,
    )
