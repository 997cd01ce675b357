"""A store in this process's memory. It uses no threads and never waits.

The protocols of ``stores.base`` document the methods of its parts.
"""

from __future__ import annotations

from capset.definitions.governance.approvals import ApprovalRow
from capset.errors import DefinitionError, StoreError
from capset.ids import Ids
from capset.stores.memory.admissions import MemoryAdmissions, MemoryApprovals
from capset.stores.memory.agents import MemoryAgents
from capset.stores.memory.audit import MemoryAudit
from capset.stores.memory.credentials import MemoryCredentials
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
        self._lifecycle = lifecycle = Lifecycle()
        requests: dict[str, ApprovalRow] = {}
        self.lineage = MemoryLineage(lifecycle, requests)
        self.audit = MemoryAudit(lifecycle, self.lineage)
        self.files = MemoryFiles(lifecycle)
        self.states = MemoryStates(lifecycle, self.files.sessions)
        self.documents = MemoryDocuments(lifecycle, self.files.sessions)
        self.replies = MemoryReplies(lifecycle)
        self.runs = MemoryRuns(lifecycle, self.files.sessions, requests)
        self.schedules = MemorySchedules(lifecycle, self.files.sessions, self.runs)
        self.workers = MemoryWorkers(lifecycle)
        self.events = MemoryEvents(lifecycle, self.files.sessions, self.runs)
        self.changes = self.events
        self.deliveries = MemoryDeliveries(lifecycle)
        self.people = MemoryPeople(lifecycle)
        self.approvals = MemoryApprovals(lifecycle, self.events.resume_suspended, self.deliveries.queue, requests)
        self.admissions = MemoryAdmissions(lifecycle, self.audit, self.approvals, self.events.is_held)
        self.usage = MemoryUsage(lifecycle)
        parts = (self.states, self.documents, self.replies, self.events, self.runs, self.schedules)
        owning = (self.files, *parts, self.admissions, self.approvals, self.usage)
        self.sessions = MemorySessions(lifecycle, self.files.sessions, [part.drop for part in owning])
        self.agents = MemoryAgents(lifecycle)
        self.keys = MemoryKeys(lifecycle)
        self.directory = MemoryDirectory(self.sessions, self.agents, self.keys)
        self.credentials = MemoryCredentials(lifecycle)
        self.pins = MemoryPins(lifecycle)

    async def open(self) -> None:
        """Open the store. Intents left open by the last ``close()`` are closed as ``interrupted``."""
        if self._lifecycle.writer:
            raise StoreError("the memory store is already open")
        self._lifecycle.writer = self._ids.new()
        self.audit.close_interrupted()
        self.usage.forget_steps()

    async def close(self) -> None:
        """Close the store: it accepts nothing until it is opened again."""
        if self._lifecycle.writer:
            self.audit.settle()
        self._lifecycle.writer = ""
