"""Missing tables, and foreign triggers and rules on capset's tables (spec 5, P70)."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, inspect

from capset.stores.sql.documents import WORD_TABLES
from capset.stores.sql.schema.tables import metadata

_OWN_TRIGGERS: Final = frozenset(" ".join(statement.split()) for statement in WORD_TABLES["sqlite"])
_SQLITE_TRIGGERS: Final = "SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'trigger' ORDER BY name"
_POSTGRES_TRIGGERS: Final = (
    "SELECT 'trigger', t.tgname, c.relname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid"
    " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE NOT t.tgisinternal AND n.nspname = current_schema()"
    " UNION ALL"
    " SELECT 'rule', r.rulename, c.relname FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class"
    " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p') AND n.nspname = current_schema()"
    " ORDER BY 1, 2, 3"
)


def missing_tables(connection: Connection) -> list[str]:
    """Return the names of capset's missing tables. The database's revision must be one that has all of them."""
    return sorted(metadata.tables.keys() - set(inspect(connection).get_table_names()))


def foreign_objects(connection: Connection) -> list[str]:
    """Return descriptions of the triggers and rules on capset's tables that capset did not create.

    They can change what is written without a trace in any record.
    """
    if connection.dialect.name == "sqlite":
        rows = connection.exec_driver_sql(_SQLITE_TRIGGERS)
        objects = [
            ("trigger", name, table) for name, table, sql in rows if " ".join(str(sql).split()) not in _OWN_TRIGGERS
        ]
    else:
        objects = [tuple(row) for row in connection.exec_driver_sql(_POSTGRES_TRIGGERS)]
    # SQLite stores the table's name with the case used in the trigger's statement.
    return [f"the {kind} {name} on {table}" for kind, name, table in objects if str(table).lower() in metadata.tables]
