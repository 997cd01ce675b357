"""The protocols of a complete store and of its change notices, and the lookup of one by URL."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, NamedTuple, Protocol, cast

from capset.errors import DefinitionError, unknown
from capset.stores.base.admissions import AdmissionStore, ApprovalStore
from capset.stores.base.agents import AgentStore
from capset.stores.base.audit import AuditLog
from capset.stores.base.credentials import CredentialStore
from capset.stores.base.deliveries import DeliveryStore
from capset.stores.base.directory import Directory
from capset.stores.base.events import EventStore
from capset.stores.base.files import FileStore
from capset.stores.base.keys import KeyStore
from capset.stores.base.lineage import LineageStore
from capset.stores.base.people import PersonStore
from capset.stores.base.pins import PinStore
from capset.stores.base.replies import ReplyStore
from capset.stores.base.runs import RunStore, WorkerStore
from capset.stores.base.schedules import ScheduleStore
from capset.stores.base.sessions import SessionStore
from capset.stores.base.states import DocumentStore, StateStore
from capset.stores.base.usage import UsageStore

GROUP = "capset.stores"
"""The entry point group of stores. The name is the URL's scheme, the object a function of the URL."""
CHANGES_GROUP = "capset.changes"
"""The entry point group of change feeds. Names are as in ``GROUP``, objects are functions of the store and the URL."""


ChangeKind = Literal["events", "approval", "lists", "key"]
"""New events of a session; a decided request; a change that affects lists; a revoked key."""


class ChangeNotice(NamedTuple):
    """A notice of a change; ``id`` is that of the session, request or key.

    It has no content: receivers read the store, so a forged notice changes nothing.
    """

    kind: ChangeKind
    id: str = ""


NoticeCallback = Callable[[ChangeNotice | None], None]
"""Called with each notice, or with ``None`` if notices may have been missed."""


class ChangeFeed(Protocol):
    """The notices of other processes. If one is lost, its change is only noticed later, by polling the store."""

    def subscribe(self, on_notice: NoticeCallback) -> AbstractAsyncContextManager[Callable[[], bool]]:
        """Call ``on_notice`` with each notice, on the running event loop, while inside the context.

        The context's value is a function that returns whether notices of events currently arrive: false for a store
        that has none, and while its connection is lost.
        """
        ...


class Store(Protocol):
    """Everything that a kernel stores."""

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

    @property
    def states(self) -> StateStore:
        """State and resources, by scope."""
        ...

    @property
    def documents(self) -> DocumentStore:
        """The searchable texts, by scope."""
        ...

    @property
    def agents(self) -> AgentStore:
        """The stored agents."""
        ...

    @property
    def keys(self) -> KeyStore:
        """The API keys."""
        ...

    @property
    def replies(self) -> ReplyStore:
        """The stored replies to idempotent requests."""
        ...

    @property
    def events(self) -> EventStore:
        """The sessions' current turns, their events, and the messages of their conversations."""
        ...

    @property
    def changes(self) -> ChangeFeed:
        """The notices of changes by other processes."""
        ...

    @property
    def approvals(self) -> ApprovalStore:
        """The approval requests, with their outcomes."""
        ...

    @property
    def deliveries(self) -> DeliveryStore:
        """The deliveries of events to channels."""
        ...

    @property
    def people(self) -> PersonStore:
        """The chat users with their principals."""
        ...

    @property
    def admissions(self) -> AdmissionStore:
        """The admissions by limits, budgets and approvals."""
        ...

    @property
    def credentials(self) -> CredentialStore:
        """The credentials of users for servers, encrypted."""
        ...

    @property
    def pins(self) -> PinStore:
        """The pins of third-party tools."""
        ...

    @property
    def usage(self) -> UsageStore:
        """The usage of models by agents, in windows."""
        ...

    @property
    def runs(self) -> RunStore:
        """The runs."""
        ...

    @property
    def schedules(self) -> ScheduleStore:
        """The schedules of runs."""
        ...

    @property
    def workers(self) -> WorkerStore:
        """The workers that execute runs."""
        ...

    @property
    def directory(self) -> Directory:
        """The principals and organisations that the store knows of."""
        ...

    @property
    def lineage(self) -> LineageStore:
        """The record of exact versions: registrations, links, envelopes, and the payloads of hashes."""
        ...

    async def open(self) -> None:
        """Open the store: create or upgrade tables, and close the intents of dead writers as ``interrupted``.

        Raises ``StoreError`` for a database that is missing, corrupt, newer than this version, full or busy.
        """
        ...

    async def close(self) -> None:
        """Write everything pending, and close the store. Raises ``StoreError`` if something could not be written."""
        ...


def make_store(url: str) -> Store:
    """Create the store of a URL, such as ``sqlite:///capset.db`` or ``postgresql://host/db``, without opening it.

    The scheme, up to a ``+``, is looked up in the entry point group ``capset.stores``. Raises ``DefinitionError`` if
    ``url`` is not a URL, or no installed package provides its scheme.
    """
    prefix, separator, _ = url.partition("://")
    scheme = prefix.partition("+")[0]  # the rest names a driver, as in SQLAlchemy's URLs, for the store
    make, schemes = _load(GROUP, scheme)
    if not separator or make is None:
        message = unknown("store", scheme, schemes) if separator else f"a store is named by a URL; got {url!r:.200}"
        raise DefinitionError(message, hint="write it as sqlite:///FILE, postgresql://… or memory://")
    return cast("Store", make(url))


def share_changes(store: Store, url: str) -> Store:
    """Return a store whose processes notify each other of changes by a server, such as ``redis://host:6379``.

    The scheme is looked up in the entry point group ``capset.changes``. Raises ``DefinitionError`` if the URL is not
    valid, or no installed package provides its scheme. The error does not quote the URL, which may contain a password.
    """
    scheme, separator, _ = url.partition("://")
    share, schemes = _load(CHANGES_GROUP, scheme) if separator else (None, ())
    if share is None:
        message = unknown("change server", scheme[:40], schemes) if separator else "a Redis URL was expected"
        raise DefinitionError(message, hint="write it as redis://HOST:PORT/NUMBER, or with rediss:// for TLS")
    return cast("Store", share(store, url))


def _load(group: str, scheme: str) -> tuple[Callable[..., Any] | None, Collection[str]]:
    """Load the entry point for URLs of a scheme, if there is one; also return the names of the entry points read."""
    from importlib.metadata import distributions, entry_points  # slow to import

    # capset's own come first: reading those of all packages would take most of the time that a kernel needs to start.
    points = (
        point
        for distribution in distributions(name="capset")
        for point in distribution.entry_points.select(group=group)
    )
    by_name = {point.name: point for point in points}
    if scheme not in by_name:
        by_name |= {point.name: point for point in entry_points(group=group)}
    # The type of an entry point is unknown; the protocols say what it must be.
    return (cast("Callable[..., Any]", by_name[scheme].load()) if scheme in by_name else None), by_name
