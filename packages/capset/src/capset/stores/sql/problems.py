"""Database errors as clear sentences: without SQL, tracebacks, or any path but the one given."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from capset.errors import StoreBusy, StoreError

Problem = tuple[str, str]
"""A database's problem, and the remedy."""

_UNREACHABLE: Final = (
    "cannot be reached",
    "check that the server is running, and check the host and port in the URL",
)
_REFUSED: Final = ("refused the user or the password", "check the user and the password in the URL")
_MISSING: Final = ("does not exist", "create it with createdb, or name another database")
_BUSY: Final = ("has no connection left", "raise the server's max_connections, or close other connections")
_LOST: Final = ("was lost: the server ended the connection", "try again once the server is running")
_FULL: Final = ("has no room left: the disk is full", "free some space and try again")
_READ_ONLY: Final = ("cannot be written: it is read-only here", "name a server that accepts writes")
_FORBIDDEN: Final = (
    "does not grant its user what capset needs",
    "grant the user CONNECT, and CREATE and USAGE on the schema",
)
_DAMAGED: Final = ("is damaged", "restore a backup")
_TOO_SLOW: Final = (
    "took too long and was stopped",
    "request less at once; if the server's statement_timeout for this user is short, raise it",
)
_UNKNOWN: Final = ("has an option that its driver does not know", "correct the options in the URL")
_POOLED: Final = (
    "is behind a pooler that does not accept this option in a URL",
    "set it for the user or the database, as with ALTER ROLE … SET search_path, or connect to the server directly",
)
_TOO_LONG: Final = ("cannot index a text this long", "shorten the names and ids")

# https://www.postgresql.org/docs/current/errcodes-appendix.html; the whole code comes before its class.
_BY_CODE: Final = {
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
_BY_CLASS: Final = {"08": _UNREACHABLE, "57": _LOST, "XX": _DAMAGED}
_BY_PHRASE: Final = {
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
"""Sentences for a refused connection, by words in a server's English message. The first match wins."""

TOO_LONG: Final = "54000"
CONFLICT_CODES: Final = frozenset({"40001", "40P01", "55P03"})
"""The codes of temporary errors that another process causes by writing."""
IDLE_TIMEOUT: Final = "25P03"
"""The code of a transaction that the server rolled back because its process was idle for too long."""

_CHECK_PERMISSIONS: Final = "check the permissions of the file and its folder"
# SQLite's primary result codes (https://sqlite.org/rescode.html), with the problem and its remedy.
_BY_SQLITE_CODE: Final = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_NOTADB: ("is not a SQLite database", "name another file, or restore a backup"),
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_CANTOPEN: ("cannot be opened", _CHECK_PERMISSIONS),
    sqlite3.SQLITE_PERM: ("cannot be opened", _CHECK_PERMISSIONS),
    sqlite3.SQLITE_READONLY: ("cannot be written: it is read-only here", _CHECK_PERMISSIONS),
    sqlite3.SQLITE_IOERR: (
        "could not be read or written: the system reported an error",
        "check the disk, its free space and the limits of this process",
    ),
}


def describe_error(error: BaseException) -> Problem:
    """Return the problem that a driver's error reports, and the remedy."""
    code = code_of(error)
    if code is None:
        text = str(error)
        return next((meaning for words, meaning in _BY_PHRASE.items() if words in text), _describe_unknown(error))
    return _BY_CODE.get(code) or _BY_CLASS.get(code[:2]) or (f"failed ({code})", "")


def code_of(error: BaseException | None) -> str | None:
    """Return an error's SQLSTATE, or ``None`` if it has none or is from another driver."""
    return getattr(error, "sqlstate", None)


def is_of_driver(error: BaseException) -> bool:
    """Return whether an error is psycopg's, without importing it."""
    return type(error).__module__.partition(".")[0] == "psycopg"


def _describe_unknown(error: BaseException) -> Problem:
    """Return the problem of an error without a code or known words, as from a server in another language."""
    if "Timeout" in type(error).__name__ or type(error).__name__ == "OperationalError":
        return _UNREACHABLE
    return f"failed ({type(error).__name__})", ""


def store_error(name: str, error: BaseException) -> StoreError:
    """Return the ``StoreError`` for a failure of the database ``name``."""
    if isinstance(error, StoreError):
        return copied_error(error)
    if is_locked(error):
        return busy_error(name, "another process")
    cause: BaseException | None = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, sqlite3.Error):
        # Missing from errors that the driver itself raises, such as one for a value that it cannot bind.
        code: int | None = getattr(cause, "sqlite_errorcode", None)
        if code is not None and (description := _BY_SQLITE_CODE.get(code & 0xFF)):
            return StoreError(f"the database {name!r} {description[0]}", hint=description[1])
        reason: str | None = getattr(cause, "sqlite_errorname", None)
        return StoreError(f"the database {name!r} failed ({reason or type(cause).__name__})")
    if cause is not None and is_of_driver(cause):
        summary, todo = describe_error(cause)
        return StoreError(f"the database {name!r} {summary}", hint=todo or None)
    if isinstance(cause, OSError):
        return StoreError(f"the database {name!r} failed: {cause.strerror or type(cause).__name__}")
    return StoreError(f"the database {name!r} failed ({type(cause).__name__})")


def busy_error(name: str, holder: str) -> StoreBusy:
    """Return the error for a database that ``holder``, such as another process, has locked for writing."""
    busy = StoreBusy(
        f"the database {name!r} is locked by {holder}", hint="try again, or stop the process that holds the lock"
    )
    busy.public = f"The store is busy: {holder} is writing to it; try again."
    return busy


def copied_error(error: StoreError) -> StoreError:
    """Return a copy of an error for another task, since raising one error twice would mix the tracebacks."""
    duplicate = type(error)(error.message, hint=error.hint)
    duplicate.public, duplicate.__cause__ = error.public, error.__cause__
    return duplicate


def is_locked(error: BaseException) -> bool:
    """Return whether a database failed only because another process is writing to it."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    code: int | None = getattr(cause, "sqlite_errorcode", None)
    if code is not None:
        return code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    return code_of(cause) in CONFLICT_CODES


def is_idle_timeout(error: BaseException) -> bool:
    """Return whether a transaction was certainly rolled back, because this process was frozen during it."""
    return isinstance(error, DBAPIError) and code_of(error.orig) == IDLE_TIMEOUT


def is_too_long(error: BaseException) -> bool:
    """Return whether a database failed because a text is too long for an index. SQLite has no such limit."""
    return isinstance(error, DBAPIError) and code_of(error.orig) == TOO_LONG


@contextmanager
def store_errors(name: str) -> Generator[None]:
    """Convert errors of SQLAlchemy, the driver and the system to ``StoreError``."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:
        raise store_error(name, error) from error
