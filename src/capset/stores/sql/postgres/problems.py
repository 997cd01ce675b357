"""What PostgreSQL's errors mean, by SQLSTATE: never the server's own text, which may hold names, values and hosts.

For a connection that was refused the driver has no SQLSTATE, only the server's words.
"""

from __future__ import annotations

from typing import Final

Sentence = tuple[str, str]
"""What is said of a database, and what to do about it."""

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
"""What is said of a connection that was refused, by a server that speaks English; the first that fits counts."""

TOO_LONG: Final = "54000"
WAITED: Final = frozenset({"40001", "40P01", "55P03"})
"""The codes of what another process's writing caused, and what goes by itself."""


def sentence(error: BaseException) -> Sentence:
    """Return what an error of the driver means."""
    code = code_of(error)
    if code is None:
        text = str(error)
        return next((said for words, said in _WORDS.items() if words in text), _lost(error))
    return _CODES.get(code) or _CLASSES.get(code[:2]) or (f"failed ({code})", "")


def code_of(error: BaseException | None) -> str | None:
    """Return an error's SQLSTATE, ``None`` for one without, or of another driver."""
    return getattr(error, "sqlstate", None)


def is_of_driver(error: BaseException) -> bool:
    """Say whether an error is psycopg's, without importing it."""
    return type(error).__module__.partition(".")[0] == "psycopg"


def _lost(error: BaseException) -> Sentence:
    """Return what to say where there are neither a code nor known words, in whatever language the server speaks."""
    if "Timeout" in type(error).__name__ or type(error).__name__ == "OperationalError":
        return _UNREACHABLE
    return f"failed ({type(error).__name__})", ""
