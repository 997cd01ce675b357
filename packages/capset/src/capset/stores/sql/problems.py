"""Errors of a database, each in one clear sentence: no SQL, no traceback, no path but the one given."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from capset.errors import StoreBusy, StoreError

Sentence = tuple[str, str]
"""The problem of a database, and the remedy."""

_UNREACHABLE: Final = (
    "cannot be reached",
    "check that the server runs and is reached by the host and port of the URL",
)
_REFUSED: Final = ("refused the user or the password", "check the user and the password of the URL")
_MISSING: Final = ("does not exist", "make it first, with createdb, or name another")
_BUSY: Final = ("has no connection left", "raise the server's max_connections, or close what is connected")
_LOST: Final = ("was lost: the server ended the connection", "try again once the server runs")
_FULL: Final = ("has no room left: the disk is full", "free some space and try again")
_READ_ONLY: Final = ("cannot be written: it is read-only here", "name a server that can be written")
_FORBIDDEN: Final = ("forbids its user what capset needs", "give the user CONNECT, and CREATE and USAGE on the schema")
_DAMAGED: Final = ("is damaged", "restore a backup")
_TOO_SLOW: Final = (
    "took too long and was stopped",
    "ask for less at once; where the server's own statement_timeout for this user is short, raise it",
)
_UNKNOWN: Final = ("has an option that its driver does not know", "correct the options of the URL")
_POOLED: Final = (
    "is behind a pooler that takes no such option in a URL",
    "set it for the user or the database, as by ALTER ROLE … SET search_path, or connect to the server itself",
)
_TOO_LONG: Final = ("cannot hold a text so long in an index", "shorten the names and ids")

# https://www.postgresql.org/docs/current/errcodes-appendix.html, first by the whole code, then by its class.
_CODES: Final = {
    "28000": _REFUSED,
    "28P01": _REFUSED,
    "3D000": _MISSING,
    "53300": _BUSY,
    "53100": _FULL,
    "25006": _READ_ONLY,
    "42501": _FORBIDDEN,
    "3F000": _FORBIDDEN,
    "57014": _TOO_SLOW,
    "25P03": _TOO_SLOW,
    "25P04": _TOO_SLOW,
    "57P05": _TOO_SLOW,
    "54000": _TOO_LONG,
}
_CLASSES: Final = {"08": _UNREACHABLE, "57": _LOST, "XX": _DAMAGED}
_WORDS: Final = {
    "authentication failed": _REFUSED,
    "no password supplied": _REFUSED,
    "no pg_hba.conf entry": _REFUSED,
    "permission denied": _FORBIDDEN,
    "too many clients": _BUSY,
    "too many connections": _BUSY,
    "connection slots": _BUSY,
    "starting up": _LOST,
    "shutting down": _LOST,
    "in recovery mode": _LOST,
    "invalid connection option": _UNKNOWN,
    "unsupported startup parameter": _POOLED,
    "invalid sslmode": _UNKNOWN,
    'FATAL:  role "': _REFUSED,
    'FATAL:  database "': _MISSING,
}
"""Sentences for a refused connection, by words of an English-speaking server; the first match counts."""

TOO_LONG: Final = "54000"
WAITED: Final = frozenset({"40001", "40P01", "55P03"})
"""The codes of errors that are caused by another process's writing, and that pass by themselves."""
CUT_OFF: Final = "25P03"
"""The code of a transaction that the server rolled back since its process said nothing for too long."""

# SQLite's primary result codes (https://sqlite.org/rescode.html), with the problem and its remedy.
_SQLITE: Final = {
    sqlite3.SQLITE_FULL: ("has no room left: the disk is full", "free some space and try again"),
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


def sentence(error: BaseException) -> Sentence:
    """Return the meaning of a driver's error."""
    code = code_of(error)
    if code is None:
        text = str(error)
        return next((meaning for words, meaning in _WORDS.items() if words in text), _lost(error))
    return _CODES.get(code) or _CLASSES.get(code[:2]) or (f"failed ({code})", "")


def code_of(error: BaseException | None) -> str | None:
    """Return an error's SQLSTATE, ``None`` for one without, or of another driver."""
    return getattr(error, "sqlstate", None)


def is_of_driver(error: BaseException) -> bool:
    """Return whether an error is psycopg's, without importing it."""
    return type(error).__module__.partition(".")[0] == "psycopg"


def _lost(error: BaseException) -> Sentence:
    """Return the sentence for an error without code or known words, as from a server in another language."""
    if "Timeout" in type(error).__name__ or type(error).__name__ == "OperationalError":
        return _UNREACHABLE
    return f"failed ({type(error).__name__})", ""


def store_error(name: str, error: BaseException) -> StoreError:
    """Return the error for a failure of the database that its user calls ``name``."""
    if isinstance(error, StoreError):
        return repeated(error)
    if is_locked(error):
        return busy_error(name, "another process")
    cause: BaseException | None = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, sqlite3.Error):
        # Absent from errors that the driver raises by itself, such as one for a value that it cannot bind.
        code: int | None = getattr(cause, "sqlite_errorcode", None)
        if code is not None and (description := _SQLITE.get(code & 0xFF)):
            return StoreError(f"the database {name!r} {description[0]}", hint=description[1])
        reason: str | None = getattr(cause, "sqlite_errorname", None)
        return StoreError(f"the database {name!r} failed ({reason or type(cause).__name__})")
    if cause is not None and is_of_driver(cause):
        summary, todo = sentence(cause)
        return StoreError(f"the database {name!r} {summary}", hint=todo or None)
    if isinstance(cause, OSError):
        return StoreError(f"the database {name!r} failed: {cause.strerror or type(cause).__name__}")
    return StoreError(f"the database {name!r} failed ({type(cause).__name__})")


def busy_error(name: str, holder: str) -> StoreBusy:
    """Return the error for a database that another process, the ``holder`` of its lock, keeps from being written."""
    busy = StoreBusy(f"the database {name!r} is locked by {holder}", hint="try again, or end what holds the lock")
    busy.public = f"The store is busy: {holder} is writing to it; try again."
    return busy


def repeated(error: StoreError) -> StoreError:
    """Return the same error for one more task: one that is raised twice would mix their tracebacks."""
    duplicate = type(error)(error.message, hint=error.hint)
    duplicate.public, duplicate.__cause__ = error.public, error.__cause__
    return duplicate


def is_locked(error: BaseException) -> bool:
    """Return whether a database failed only because another process is writing it."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    code: int | None = getattr(cause, "sqlite_errorcode", None)
    if code is not None:
        return code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    return code_of(cause) in WAITED


def is_cut_off(error: BaseException) -> bool:
    """Return whether a transaction was surely rolled back because this process was frozen in the middle of it."""
    return isinstance(error, DBAPIError) and code_of(error.orig) == CUT_OFF


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
