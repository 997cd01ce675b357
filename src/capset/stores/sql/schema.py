"""The version of a database: read by plain SQL, raised by Alembic, which is imported only for that.

A new SQLite file needs no raising: programs make many, and each would wait for Alembic and all its steps. A database on
a server is made once, by the migrations.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, Engine, inspect

from capset.errors import StoreError
from capset.stores.sql.making import make

HEAD: Final = "0008"
"""The revision that this version of capset works with: the last of ``migrations/versions``."""

KNOWN: Final = frozenset({"0001", "0002", "0003", "0004", "0005", "0006", "0007", HEAD})
"""Every revision that this version can raise to ``HEAD``."""


def prepare(reading: Engine, writing: Engine, name: str) -> None:
    """Make or upgrade the tables, unless they are as they must be.

    Raises ``StoreError`` if the database was made by a newer version of capset or by another program. Two processes may
    do this at once: the second waits for the first and finds nothing left to do.
    """
    with writing.connect():
        pass  # the first connection makes the file and switches it to WAL
    with reading.connect() as connection:
        if _revision(connection, name) == HEAD:
            return
    with writing.begin() as connection:
        revision = _revision(connection, name)
        if revision is None and connection.dialect.name == "sqlite":
            make(connection, HEAD)
        elif revision != HEAD:
            _upgrade(connection)


def _revision(connection: Connection, name: str) -> str | None:
    """Return the database's revision, ``None`` for an empty one."""
    tables = inspect(connection).get_table_names()
    if "alembic_version" not in tables:
        if tables:
            raise StoreError(f"the database {name!r} belongs to another program", hint="name one of its own for capset")
        return None
    revision = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    if revision is not None and revision not in KNOWN:
        raise StoreError(
            f"the database {name!r} was made by a newer version of capset (its revision is {str(revision)[:40]!r})",
            hint="upgrade capset, or name another database",
        )
    return revision


def _upgrade(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", "capset.stores.sql:migrations")
    command.upgrade(config, HEAD)
