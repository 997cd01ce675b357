"""Databases as they came to be: at each revision, rows in every table that there was, with a value in every column."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Boolean as Bool
from sqlalchemy import (
    Connection,
    Engine,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    event,
    insert,
    inspect,
    make_url,
    select,
)

from capset.fingerprint.chain import GENESIS, seal
from capset.fingerprint.checkpoints import CheckpointKey
from capset.stores.sql.audit.checkpoints import put_checkpoint
from capset.stores.sql.postgres.engines import writing_engine
from capset.stores.sql.schema.revisions import HEAD, KNOWN, raise_to
from capset.stores.sql.sqlite import make_engine
from capset_testing.store_suite.support import LATER, NOW, entry, intent
from tests.helpers.stores.sql.support import path_of

REVISIONS: Final = tuple(sorted(KNOWN - {HEAD}))
KEY: Final = CheckpointKey.generate()

_SEEN: Final[dict[tuple[str, str], MetaData]] = {}
"""The tables of each revision, by engine: to look them up takes longer than all else here."""
_OWN: Final = ("alembic_version", "records", "open_intents", "checkpoints", "settings", "usage_reservations")
"""Tables whose rows are no free texts, or go with their process; they are filled otherwise, or not at all."""
_VALUES: Final[dict[str, Any]] = {
    "org": "acme",
    "scope": "session",
    "status": "active",
    "definition": "{}",
    "metadata": "{}",
    "document": "{}",
    "entry": '{"config": {"limit": 5}}',
    "static_context": '{"a": 1}',
    "attributes": '{"tier": "pro"}',
    "allowance": '{"run": {"calls": 5}}',
    "mcp_servers": '{"shop": {"url": "https://shop.example.com/mcp"}}',
    "budget": '{"calls": 5}',
    "value": "7",
    "expires_at": LATER,
    "principal_kind": "user",
    "parent": "/",
    "text": "Two words",
    "tool_refs": '[{"name": "find", "hash": "1"}]',
} | dict.fromkeys(("instructions", "tags", "permissions", "scopes", "policies", "makers"), "[]")


@dataclass
class Era:
    """What was written at one revision: the rows of each table."""

    rows: dict[str, dict[str, Any]] = field(default_factory=dict)


def engine_at(url: str) -> Engine:
    """Return an engine whose transactions write as the store's do."""
    if (path := path_of(url)) is not None:
        return make_engine(path, "IMMEDIATE")
    engine = writing_engine(make_url(url), "a", busy_seconds=5)
    event.listen(engine, "begin", _take_time)
    return engine


def _take_time(connection: Connection) -> None:
    """Let a transaction say nothing for long, as while all tables are reflected on a busy machine."""
    connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")


def made(url: str, last: str) -> dict[str, Era]:
    """Make a database that has seen every revision up to ``last``, and return what was written at each."""
    eras: dict[str, Era] = {}
    engine = engine_at(url)
    for revision in REVISIONS[: REVISIONS.index(last) + 1]:
        with engine.begin() as connection:
            raise_to(connection, revision)
        with engine.begin() as connection:
            eras[revision] = _fill(connection, revision)
    engine.dispose()
    return eras


def _tables(connection: Connection, revision: str) -> MetaData:
    """Return the tables of a revision, but for those of the engine's own index of words."""
    key = connection.dialect.name, revision
    if key not in _SEEN:
        names = [name for name in inspect(connection).get_table_names() if not name.startswith("document_words")]
        metadata = MetaData()
        metadata.reflect(connection, only=names)
        _SEEN[key] = metadata
    return _SEEN[key]


def _filled(tables: MetaData) -> list[Table]:
    return [table for table in tables.sorted_tables if table.name not in _OWN]


def still_there(connection: Connection, era: Era) -> list[str]:
    """Return what is not any more what it was when it was written."""
    tables = _tables(connection, HEAD).tables
    lost: list[str] = []
    for name, row in era.rows.items():
        table = tables[name]
        primary = [table.c[column.name] == row[column.name] for column in table.primary_key]
        current = connection.execute(select(table).where(*primary)).mappings().one_or_none()
        lost += [
            f"{name}.{column}" for column, value in row.items() if current is None or _plain(current[column]) != value
        ]
    return lost


def _fill(connection: Connection, revision: str) -> Era:
    era = Era()
    for table in _filled(_tables(connection, revision)):
        row = {column.name: _value(table, column.name, revision) for column in table.c}
        for key in table.foreign_keys:
            row[key.parent.name] = era.rows[key.column.table.name][key.column.name]
        connection.execute(insert(table).values(row))
        era.rows[table.name] = row
    _record(connection, revision)
    return era


def _value(table: Table, name: str, revision: str) -> Any:
    kind = table.c[name].type
    if isinstance(kind, Bool):
        return False
    if (table.name, name) == ("files", "parts"):
        return None  # its content is one row
    if isinstance(kind, Integer):
        return int(revision)
    if isinstance(kind, Float):
        return float(revision)
    if isinstance(kind, LargeBinary):
        return b"content"
    if name == "path":
        return f"/{revision}.txt"
    if name.endswith(("_at", "until")):
        return _VALUES.get(name, NOW)
    return _VALUES.get(name) or f"{table.name}-{name}-{revision}"


def _record(connection: Connection, revision: str) -> None:
    """Add a call to the chain, and at the first revision one that its process did not end; from 0006 on, sign it."""
    tables = _tables(connection, revision).tables
    records = tables["records"]
    last = connection.execute(select(records).order_by(records.c.seq.desc()).limit(1)).mappings().one_or_none()
    entries = [entry(f"call-{revision}", org="acme")]
    if revision == "0001":
        entries.insert(0, intent("left-open"))
        connection.execute(insert(tables["open_intents"]).values(id="left-open", seq=1, writer="gone"))
    seq, previous = (last["seq"], last["hash"]) if last else (0, GENESIS)
    for audit_entry in entries:
        columns = {name: value for name, value in audit_entry.columns().items() if name in records.c}
        row: dict[str, Any] = dict(audit_entry.columns()) | dict.fromkeys(set(audit_entry.columns()) - set(columns))
        row |= {"seq": seq + 1, "writer": "gone", "previous": previous}
        seal(row)
        connection.execute(insert(records).values({name: row[name] for name in records.c.keys()}))  # noqa: SIM118
        seq, previous = row["seq"], row["hash"]
    if revision >= "0006":
        put_checkpoint(connection, KEY, NOW)


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview) else value
