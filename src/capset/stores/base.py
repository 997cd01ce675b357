"""The ports: what the kernel needs kept, whoever keeps it. ``capset.testing.store_suite`` checks an implementation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, Protocol, cast

from capset.definitions.files import FileStat
from capset.definitions.names import checked_optional
from capset.definitions.records import Columns, Outcome, Record
from capset.errors import DefinitionError, unknown
from capset.fingerprint.chain import Verification

GROUP = "capset.stores"
"""The entry point group of stores: the name is the URL's scheme, the object a function of the URL."""


class Entry(Protocol):
    """Something that becomes a record, encoded by the writer off the hot path: it must not change any more."""

    def columns(self) -> Columns:
        """Return every column but ``seq``, ``writer``, ``previous`` and ``hash``. Must not raise."""
        ...


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """Which outcome records: those that equal every field that is not ``None``, newest first.

    ``limit`` is 1–1,000; ``before`` is the ``seq`` that the page ends before (keyset paging, spec 5, P15).
    """

    id: str | None = None
    tool: str | None = None
    outcome: Outcome | None = None
    principal: str | None = None
    session: str | None = None
    correlation: str | None = None
    limit: int = 50
    before: int | None = None

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for a limit beyond 1–1,000 and ``DefinitionError`` for text that has no UTF-8."""
        if not 1 <= self.limit <= 1000:
            raise ValueError(f"the limit of a query is 1–1,000, not {self.limit}")
        for name in ("id", "tool", "principal", "session", "correlation"):
            checked_optional(f"an audit query's {name}", getattr(self, name))


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Some records, and the ``before`` that asks for those that follow them, if there are any."""

    items: tuple[Record, ...]
    next: int | None


class AuditLog(Protocol):
    """The append-only, hash-chained log of attempts (spec 4, G21–G23)."""

    def append(self, entry: Entry) -> None:
        """Take an entry to be written soon; bounded. Raises ``StoreError`` if it cannot be taken."""
        ...

    async def commit(self, entry: Entry) -> None:
        """Write an entry and return once it is durable. Raises ``StoreError`` if it is not."""
        ...

    async def flush(self) -> None:
        """Return once everything taken so far is durable. Raises ``StoreError`` if it is not."""
        ...

    async def query(self, query: AuditQuery) -> AuditPage:
        """Return outcome records, newest first."""
        ...

    async def verify(self) -> Verification:
        """Check the whole chain, intents included."""
        ...

    async def digest_key(self) -> bytes:
        """Return the 32 secret bytes that argument digests are keyed with, made once for a store."""
        ...


@dataclass(frozen=True, slots=True)
class SessionRow:
    """What is kept of a session. ``definition`` is the agent as JSON text; times are ISO 8601 UTC."""

    id: str
    agent: str
    definition: str
    static_hash: str
    principal: str
    principal_kind: str
    org: str | None
    created_at: str


class SessionStore(Protocol):
    """The sessions."""

    async def create(self, row: SessionRow) -> None:
        """Keep a new session."""
        ...

    async def get(self, id: str) -> SessionRow | None:
        """Return a session, or ``None``."""
        ...


class FileStore(Protocol):
    """The files of every session. Paths are normalised already; ``now`` is ISO 8601 UTC.

    Content is kept once by hash within an org (spec 5, P25). Every method is one transaction. ``FileError`` is raised
    as ``definitions.files.Files`` says.
    """

    async def stat(self, session: str, path: str) -> FileStat | None:
        """Return what is at ``path``; the root is always there."""
        ...

    async def read(self, session: str, path: str) -> tuple[FileStat, bytes]:
        """Return a file and its content."""
        ...

    async def write(
        self, session: str, path: str, content: bytes, *, org: str | None, now: str
    ) -> tuple[FileStat, bool]:
        """Create or replace a file, with its parents; return it and whether it is new."""
        ...

    async def list(self, session: str, path: str, *, recursive: bool) -> list[FileStat]:
        """Return a directory's entries: directories first, then by name; all below it by path when recursive."""
        ...

    async def delete(self, session: str, path: str, *, recursive: bool) -> int:
        """Delete and return how many entries went."""
        ...


class Store(Protocol):
    """Everything that a kernel keeps."""

    @property
    def audit(self) -> AuditLog:
        """The log of attempts."""
        ...

    @property
    def sessions(self) -> SessionStore:
        """The sessions."""
        ...

    @property
    def files(self) -> FileStore:
        """The sessions' files."""
        ...

    async def open(self) -> None:
        """Make ready: create or upgrade what is needed, and close intents whose writer is gone as ``interrupted``.

        Raises ``StoreError`` for what is missing, corrupt, newer than this version, full or busy.
        """
        ...

    async def close(self) -> None:
        """Write what is still to be written, and let go. Raises ``StoreError`` if something could not be written."""
        ...


def make_store(url: str) -> Store:
    """Return the store that a URL names, such as ``sqlite:///capset.db`` or ``memory://``, not yet opened.

    The scheme is looked up in the entry point group ``capset.stores``. Raises ``DefinitionError`` for a scheme that
    nothing installed provides.
    """
    scheme, separator, _ = url.partition("://")
    found = {point.name: point for point in entry_points(group=GROUP)}
    if not separator or scheme not in found:
        raise DefinitionError(unknown("store", scheme or url, found), hint="write it as sqlite:///FILE or memory://")
    # An entry point is code of an unknown type; the protocol says what it must be.
    make = cast("Callable[[str], Any]", found[scheme].load())
    return cast("Store", make(url))
