"""The protocol of a whole store, and the lookup of one by its URL."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Protocol, cast

from capset.errors import DefinitionError, unknown
from capset.stores.base.admissions import AdmissionStore, ApprovalStore
from capset.stores.base.agents import AgentStore
from capset.stores.base.audit import AuditLog
from capset.stores.base.changes import ChangeFeed
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
"""The entry point group of stores: the name is the URL's scheme, the object a function of the URL."""
CHANGES_GROUP = "capset.changes"
"""The entry point group of what tells of changes: named as in ``GROUP``, a function of the store and the URL."""


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
        """The notices of what other processes have changed."""
        ...

    @property
    def approvals(self) -> ApprovalStore:
        """The requests for approvals, and their outcomes."""
        ...

    @property
    def deliveries(self) -> DeliveryStore:
        """The deliveries of events to channels."""
        ...

    @property
    def people(self) -> PersonStore:
        """The users of chats as principals."""
        ...

    @property
    def admissions(self) -> AdmissionStore:
        """The admissions by limits, budgets and approvals."""
        ...

    @property
    def pins(self) -> PinStore:
        """The pins of others' tools."""
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
        """The workers that do runs."""
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
        """Open: create or upgrade tables, and close the intents of dead writers as ``interrupted``.

        Raises ``StoreError`` for a database that is missing, corrupt, newer than this version, full or busy.
        """
        ...

    async def close(self) -> None:
        """Write everything pending and close. Raises ``StoreError`` if something could not be written."""
        ...


def make_store(url: str) -> Store:
    """Return the store that a URL names, such as ``sqlite:///capset.db`` or ``postgresql://host/db``, not yet opened.

    The scheme, up to a ``+``, is looked up in the entry point group ``capset.stores``. Raises ``DefinitionError`` for
    text that is no URL, and for a scheme that no installed package provides.
    """
    named, separator, _ = url.partition("://")
    scheme = named.partition("+")[0]  # the rest names a driver, as in SQLAlchemy's URLs: the store's business
    make, schemes = _load(GROUP, scheme)
    if not separator or make is None:
        message = unknown("store", scheme, schemes) if separator else f"a store is named by a URL; got {url!r:.200}"
        raise DefinitionError(message, hint="write it as sqlite:///FILE, postgresql://… or memory://")
    return cast("Store", make(url))


def share_changes(store: Store, url: str) -> Store:
    """Return a store whose processes tell each other of changes by the server at a URL, such as ``redis://host:6379``.

    The scheme is looked up in the entry point group ``capset.changes``. Raises ``DefinitionError`` for a URL that
    cannot be read, and for a scheme that no installed package provides; it does not repeat the URL, which may hold a
    password.
    """
    scheme, separator, _ = url.partition("://")
    share, schemes = _load(CHANGES_GROUP, scheme) if separator else (None, ())
    if share is None:
        message = unknown("server of changes", scheme[:40], schemes) if separator else "Redis is named by a URL"
        raise DefinitionError(message, hint="write it as redis://HOST:PORT/NUMBER, or with rediss:// for TLS")
    return cast("Store", share(store, url))


def _load(group: str, scheme: str) -> tuple[Callable[..., Any] | None, Collection[str]]:
    """Return what an entry point provides for the URLs of a scheme, and all schemes if there is none."""
    from importlib.metadata import distributions, entry_points  # slow to import

    # Capset's own come first: to read what every installed package provides takes most of the time of a kernel's start.
    points = (
        point
        for distribution in distributions(name="capset")
        for point in distribution.entry_points.select(group=group)
    )
    by_name = {point.name: point for point in points}
    if scheme not in by_name:
        by_name |= {point.name: point for point in entry_points(group=group)}
    # An entry point is code of an unknown type; the protocols say what it must be.
    return (cast("Callable[..., Any]", by_name[scheme].load()) if scheme in by_name else None), by_name
