"""Errors of a database, each in one clear sentence: no SQL, no traceback, no path but the one given."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from capset.errors import StoreError
from capset.stores.sql.postgres.problems import TOO_LONG, WAITED, code_of, is_of_driver, sentence

# SQLite's primary result codes (https://sqlite.org/rescode.html), with the problem and its remedy.
_SQLITE: Final = {
    sqlite3.SQLITE_FULL: ("has no room left: the disk is full", "free some space and try again"),
    sqlite3.SQLITE_BUSY: ("is locked by another process", "try again, or close what holds it"),
    sqlite3.SQLITE_LOCKED: ("is locked by another process", "try again, or close what holds it"),
    sqlite3.SQLITE_NOTADB: ("is not a SQLite database", "name another file, or restore a backup"),
    sqlite3.SQLITE_CORRUPT: ("is damaged", "restore a backup"),
    sqlite3.SQLITE_CANTOPEN: ("cannot be opened", "check the permissions of the file and its folder"),
    sqlite3.SQLITE_PERM: ("cannot be opened", "check the permissions of the file and its folder"),
    sqlite3.SQLITE_READONLY: (
        "cannot be written: it is read-only here",
        "check the permissions of the file and its folder",
    ),
    sqlite3.SQLITE_IOERR: (
        "could not be read or written: the system reported an error",
        "check the disk, its room and the limits of this process",
    ),
}


def store_error(name: str, error: BaseException) -> StoreError:
    """Return the error for a failure of the database that its user calls ``name``."""
    if isinstance(error, StoreError):
        return StoreError(error.message, hint=error.hint)
    cause: BaseException | None = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, sqlite3.Error):
        # Absent from errors that the driver raises by itself, such as one for a value that it cannot bind.
        code: int | None = getattr(cause, "sqlite_errorcode", None)
        if code is not None and (known := _SQLITE.get(code & 0xFF)):
            return StoreError(f"the database {name!r} {known[0]}", hint=known[1])
        reason: str | None = getattr(cause, "sqlite_errorname", None)
        return StoreError(f"the database {name!r} failed ({reason or type(cause).__name__})")
    if cause is not None and is_of_driver(cause):
        said, todo = sentence(cause)
        return StoreError(f"the database {name!r} {said}", hint=todo or None)
    if isinstance(cause, OSError):
        return StoreError(f"the database {name!r} failed: {cause.strerror or type(cause).__name__}")
    return StoreError(f"the database {name!r} failed ({type(cause).__name__})")


def is_locked(error: BaseException) -> bool:
    """Return whether a database failed only because another process is writing it."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    code: int | None = getattr(cause, "sqlite_errorcode", None)
    if code is not None:
        return code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    return code_of(cause) in WAITED


def is_too_long(error: BaseException) -> bool:
    """Return whether a database failed because a text does not fit its indexes; SQLite's hold any."""
    return isinstance(error, DBAPIError) and code_of(error.orig) == TOO_LONG


@contextmanager
def explained(name: str) -> Generator[None]:
    """Turn errors of SQLAlchemy, the driver and the system into ``StoreError``."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:
        raise store_error(name, error) from error
