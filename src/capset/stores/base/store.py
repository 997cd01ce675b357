"""The port of a whole store, and the way to one by its URL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

from capset.errors import DefinitionError, unknown
from capset.stores.base.admissions import AdmissionStore
from capset.stores.base.agents import AgentStore
from capset.stores.base.approvals import ApprovalStore
from capset.stores.base.audit import AuditLog
from capset.stores.base.documents import DocumentStore
from capset.stores.base.events import EventStore
from capset.stores.base.files import FileStore
from capset.stores.base.keys import KeyStore
from capset.stores.base.lineage import LineageStore
from capset.stores.base.replies import ReplyStore
from capset.stores.base.sessions import SessionStore
from capset.stores.base.states import StateStore

GROUP = "capset.stores"
"""The entry point group of stores: the name is the URL's scheme, the object a function of the URL."""


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

    @property
    def states(self) -> StateStore:
        """State and resources, by scope."""
        ...

    @property
    def documents(self) -> DocumentStore:
        """The texts that can be searched, by scope."""
        ...

    @property
    def agents(self) -> AgentStore:
        """The agents that were made here."""
        ...

    @property
    def keys(self) -> KeyStore:
        """The API keys."""
        ...

    @property
    def replies(self) -> ReplyStore:
        """The answers that are kept for requests that may be sent again."""
        ...

    @property
    def events(self) -> EventStore:
        """The turns that sessions are in, and what was told of them."""
        ...

    @property
    def approvals(self) -> ApprovalStore:
        """The requests for approvals, and what became of them."""
        ...

    @property
    def admissions(self) -> AdmissionStore:
        """What limits, budgets and approvals let through."""
        ...

    @property
    def lineage(self) -> LineageStore:
        """Which exact version ran: registrations, links, envelopes, and what hashes cover."""
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
    """Return the store that a URL names, such as ``sqlite:///capset.db`` or ``postgresql://host/db``, not yet opened.

    The scheme, up to a ``+``, is looked up in the entry point group ``capset.stores``. Raises ``DefinitionError`` for
    one that nothing installed provides.
    """
    from importlib.metadata import entry_points  # whose import takes long

    named, separator, _ = url.partition("://")
    scheme = named.partition("+")[0]  # what follows names a driver, as in SQLAlchemy's URLs: the store's business
    found = {point.name: point for point in entry_points(group=GROUP)}
    if not separator or scheme not in found:
        raise DefinitionError(
            unknown("store", scheme or url, found), hint="write it as sqlite:///FILE, postgresql://… or memory://"
        )
    # An entry point is code of an unknown type; the protocol says what it must be.
    make = cast("Callable[[str], Any]", found[scheme].load())
    return cast("Store", make(url))
