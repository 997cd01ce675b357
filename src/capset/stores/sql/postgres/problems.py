"""The meaning of PostgreSQL's errors, by SQLSTATE, without the server's text, which may hold names, values and hosts.

For a refused connection the driver has no SQLSTATE, only the server's words.
"""

from __future__ import annotations

from typing import Final

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
_LOCKED: Final = ("is locked by another process", "try again, or end what holds the lock")
_FULL: Final = ("has no room left: the disk is full", "free some space and try again")
_READ_ONLY: Final = ("cannot be written: it is read-only here", "name a server that can be written")
_FORBIDDEN: Final = ("forbids its user what capset needs", "give the user CONNECT, and CREATE and USAGE on the schema")
_DAMAGED: Final = ("is damaged", "restore a backup")
_TOO_SLOW: Final = ("took longer than the server allows", "raise the server's statement_timeout for this user")
_UNKNOWN: Final = ("has an option that its driver does not know", "correct the options of the URL")
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
    "40001": _LOCKED,
    "40P01": _LOCKED,
    "55P03": _LOCKED,
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
    "invalid sslmode": _UNKNOWN,
    'FATAL:  role "': _REFUSED,
    'FATAL:  database "': _MISSING,
}
"""Sentences for a refused connection, by words of an English-speaking server; the first match counts."""

TOO_LONG: Final = "54000"
WAITED: Final = frozenset({"40001", "40P01", "55P03"})
"""The codes of errors that are caused by another process's writing, and that pass by themselves."""


def sentence(error: BaseException) -> Sentence:
    """Return the meaning of a driver's error."""
    code = code_of(error)
    if code is None:
        text = str(error)
        return next((said for words, said in _WORDS.items() if words in text), _lost(error))
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
