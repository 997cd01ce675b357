"""A store in this process's memory. It uses no threads and never waits."""

from __future__ import annotations

from capset.definitions.governance.approvals import ApprovalRow
from capset.errors import DefinitionError, StoreError
from capset.ids import Ids
from capset.stores.base import EventFeed
from capset.stores.memory.admissions import MemoryAdmissions, MemoryApprovals
from capset.stores.memory.agents import MemoryAgents
from capset.stores.memory.audit import MemoryAudit
from capset.stores.memory.deliveries import MemoryDeliveries, MemoryPeople
from capset.stores.memory.directory import MemoryDirectory
from capset.stores.memory.events import MemoryEvents
from capset.stores.memory.files import MemoryFiles
from capset.stores.memory.keys import MemoryKeys
from capset.stores.memory.lifecycle import Lifecycle
from capset.stores.memory.lineage import MemoryLineage
from capset.stores.memory.pins import MemoryPins
from capset.stores.memory.runs import MemoryRuns, MemoryWorkers
from capset.stores.memory.schedules import MemorySchedules
from capset.stores.memory.sessions import MemoryReplies, MemorySessions
from capset.stores.memory.states import MemoryDocuments, MemoryStates
from capset.stores.memory.usage import MemoryUsage


class MemoryStore:
    """A store in memory. Its data survives ``close()``, for as long as this object exists.

    Raises ``DefinitionError`` for a URL other than ``memory://``.
    """

    def __init__(self, url: str = "memory://") -> None:
        if url != "memory://":
            raise DefinitionError(f"the store {url!r} has a name or options", hint="write it as memory://")
        self._ids = Ids()
        self._door = Lifecycle()
        self._audit = MemoryAudit(self._door)
        self._files = MemoryFiles(self._door)
        self._states = MemoryStates(self._door, self._files.sessions)
        self._documents = MemoryDocuments(self._door, self._files.sessions)
        self._replies = MemoryReplies(self._door)
        requests: dict[str, ApprovalRow] = {}
        self._runs = MemoryRuns(self._door, self._files.sessions, requests)
        self._schedules = MemorySchedules(self._door, self._files.sessions, self._runs, self._audit)
        self._workers = MemoryWorkers(self._door)
        self._events = MemoryEvents(self._door, self._files.sessions, self._runs)
        self._deliveries = MemoryDeliveries(self._door)
        self._people = MemoryPeople(self._door)
        self._approvals = MemoryApprovals(self._door, self._events.let_go_on, self._deliveries.queue, requests)
        self._admissions = MemoryAdmissions(self._door, self._audit, self._approvals, self._events.is_held)
        self._usage = MemoryUsage(self._door)
        parts = (self._states, self._documents, self._replies, self._events, self._runs, self._schedules)
        owning = (*parts, self._admissions, self._approvals, self._usage)
        self._sessions = MemorySessions(self._door, self._files, owning)
        self._agents = MemoryAgents(self._door)
        self._keys = MemoryKeys(self._door)
        self._directory = MemoryDirectory(self._sessions, self._agents, self._keys)
        self._lineage = MemoryLineage(self._door)
        self._pins = MemoryPins(self._door)

    @property
    def audit(self) -> MemoryAudit:
        """The log of attempts."""
        return self._audit

    @property
    def sessions(self) -> MemorySessions:
        """The sessions."""
        return self._sessions

    @property
    def files(self) -> MemoryFiles:
        """The sessions' files."""
        return self._files

    @property
    def states(self) -> MemoryStates:
        """State and resources, by scope."""
        return self._states

    @property
    def documents(self) -> MemoryDocuments:
        """The searchable texts, by scope."""
        return self._documents

    @property
    def agents(self) -> MemoryAgents:
        """The stored agents."""
        return self._agents

    @property
    def keys(self) -> MemoryKeys:
        """The API keys."""
        return self._keys

    @property
    def replies(self) -> MemoryReplies:
        """The stored replies to idempotent requests."""
        return self._replies

    @property
    def events(self) -> MemoryEvents:
        """The sessions' current turns, their events, and the messages of their conversations."""
        return self._events

    @property
    def changes(self) -> EventFeed:
        """The notices of changes by other processes: there are none."""
        return EventFeed(self._events)

    @property
    def approvals(self) -> MemoryApprovals:
        """The requests for approvals, and their outcomes."""
        return self._approvals

    @property
    def deliveries(self) -> MemoryDeliveries:
        """The deliveries of events to channels."""
        return self._deliveries

    @property
    def people(self) -> MemoryPeople:
        """The chat users that act as principals."""
        return self._people

    @property
    def admissions(self) -> MemoryAdmissions:
        """The admissions by limits, budgets and approvals."""
        return self._admissions

    @property
    def pins(self) -> MemoryPins:
        """The pins of external tools."""
        return self._pins

    @property
    def usage(self) -> MemoryUsage:
        """Model usage by agents, in windows."""
        return self._usage

    @property
    def runs(self) -> MemoryRuns:
        """The runs."""
        return self._runs

    @property
    def schedules(self) -> MemorySchedules:
        """The schedules of runs."""
        return self._schedules

    @property
    def workers(self) -> MemoryWorkers:
        """The workers that execute runs."""
        return self._workers

    @property
    def directory(self) -> MemoryDirectory:
        """The principals and organisations known to the store."""
        return self._directory

    @property
    def lineage(self) -> MemoryLineage:
        """The record of exact versions: registrations, links, envelopes, and the payloads of hashes."""
        return self._lineage

    async def open(self) -> None:
        """Open the store. Intents left open by the last ``close()`` are closed as ``interrupted``."""
        if self._door.writer:
            raise StoreError("the memory store is already open")
        self._door.writer = self._ids.new()
        self._audit.close_interrupted()
        self._usage.forget_steps()

    async def close(self) -> None:
        """Close the store: it accepts nothing until it is opened again."""
        if self._door.writer:
            self._audit.settle()
        self._door.writer = ""
