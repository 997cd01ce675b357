"""The runtime shared by all calls of one kernel."""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from capset.clock import Clock
from capset.definitions.credentials import CredentialSource
from capset.definitions.governance.channels import NotificationChannel
from capset.definitions.governance.settings import Governance
from capset.definitions.secrets import Secrets
from capset.errors import DefinitionError, counted
from capset.ids import Ids
from capset.kernel.call.fair_slots import FairSlots
from capset.kernel.call.worker_threads import Threads
from capset.kernel.governance.deliveries import Deliveries
from capset.kernel.governance.payloads import PayloadKeeper
from capset.kernel.governance.quotas import Quotas
from capset.kernel.governance.redaction import redactor_of
from capset.kernel.governance.refusals import Refusals
from capset.kernel.revocation import CurrentRows
from capset.stores.base import ScopeKey, Store

if TYPE_CHECKING:
    from capset.kernel.governance.approvals import ApprovalService

_log = logging.getLogger("capset.kernel")
CLEANUP_SECONDS: Final = 5.0
"""How long a cancelled call may clean up before it is abandoned and reported (spec 3, K15)."""


class KernelRuntime:
    """The store, the clock, the ids, the tasks and the threads of one kernel. The kernel owns every task it starts."""

    __slots__ = (
        "_hmac",
        "_stopping",
        "_tasks",
        "abandoned",
        "approvals",
        "audit",
        "calls",
        "clock",
        "credentials",
        "current",
        "deliveries",
        "generator",
        "governance",
        "idle",
        "ids",
        "locks",
        "mark",
        "monotonic_ns",
        "observers",
        "payloads",
        "quotas",
        "readers",
        "redactor",
        "refusals",
        "secrets",
        "slots",
        "store",
        "threads",
        "workspace",
    )

    def __init__(
        self,
        store: Store,
        clock: Clock,
        digest_key: bytes,
        secrets: Secrets,
        generator: Any,  # a ``GeneratorRunner`` or ``None``; its module is in a layer above
        governance: Governance,
        workspace: Path | None,
        approvals: Callable[[KernelRuntime], ApprovalService],
        observers: tuple[Any, ...] = (),  # of ``Observer``; its module is in a layer above
        channels: tuple[NotificationChannel, ...] = (),
        credentials: CredentialSource | None = None,
    ) -> None:
        """``approvals`` creates the approval service of this kernel."""
        self.store = store
        self.governance = governance
        self.workspace = workspace
        self.secrets = secrets
        self.credentials = credentials
        self.generator = generator
        self.locks: WeakValueDictionary[ScopeKey, asyncio.Lock] = WeakValueDictionary()
        """Locks of the values that tasks of this process read and then change, kept while any task uses them."""
        self.audit = store.audit
        self.current = CurrentRows(store)
        self.clock = clock
        self.ids = Ids(clock)
        self.mark = self.ids.mark
        self.monotonic_ns = clock.monotonic_ns
        self.deliveries = Deliveries(channels, self.ids, clock)
        self.approvals = approvals(self)
        self.payloads = PayloadKeeper(self)
        self.quotas = Quotas()
        self.refusals = Refusals(governance.refusals, clock.monotonic_ns, store.audit.append)
        self.redactor = redactor_of(governance.redact)
        self._hmac = hmac.new(digest_key, digestmod="sha256")
        self.threads = Threads()
        self.slots: dict[str, FairSlots] = {}
        """The slots of each named resource that few calls may use at a time (``capset.ext.slot``)."""
        self.observers = observers
        """The observers of every call."""
        self.calls = 0
        """Number of running calls and runs of blocks, in the kernel's tasks or in their callers' own."""
        self.idle: asyncio.Event | None = None
        """Set when the last of them ends, if a caller waits for that."""
        self._tasks: dict[asyncio.Task[None], Callable[[asyncio.Task[None]], None] | None] = {}
        """The tasks that the kernel waits for, each with the callback for its end."""
        self._stopping: set[asyncio.Task[None]] = set()
        """The tasks that the kernel has cancelled."""
        self.readers: set[asyncio.Task[None]] = set()
        """The tasks that read incoming messages, from which new calls come."""
        self.abandoned = 0
        """Number of abandoned tasks: those that did not end when they were cancelled (K15)."""

    def digest(self, canonical: bytes) -> str:
        """Return the keyed digest of arguments, from their canonical form: HMAC-SHA256 in hexadecimal."""
        keyed = self._hmac.copy()
        keyed.update(canonical)
        return keyed.hexdigest()

    def lock_of(self, key: ScopeKey) -> asyncio.Lock:
        """Return the lock of one stored value, shared by all current users of it."""
        return self.locks.setdefault(key, asyncio.Lock())

    def spawn(
        self, work: Coroutine[None, None, None], on_end: Callable[[asyncio.Task[None]], None] | None = None
    ) -> asyncio.Task[None]:
        """Start a task that the kernel waits for. ``on_end`` is called when it has ended or is abandoned."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = on_end
        task.add_done_callback(self._finish_task)
        return task

    def abandon(self, task: asyncio.Task[None]) -> None:
        """Stop waiting for a task that swallows its cancellation, and treat it as ended."""
        self.abandoned += 1
        _log.error("a call did not end within %s s of its cancellation and is abandoned: %r", CLEANUP_SECONDS, task)
        self._finish_task(task)

    def _finish_task(self, task: asyncio.Task[None]) -> None:
        on_end = self._tasks.pop(task, None)
        if on_end is not None:
            on_end(task)

    def end_call(self) -> None:
        """Report the end of a call, or of a run of a block, that was counted in ``calls``."""
        self.calls -= 1
        self.set_idle()

    def set_idle(self) -> None:
        """Set ``idle``, if a caller waits for it, unless a call is still running."""
        if self.idle is not None and not self.calls:
            self.idle.set()

    async def drain(self, seconds: float) -> None:
        """Wait for every call; cancel the kernel's own tasks that are not done in time, and wait for their cleanup.

        Tasks that read new messages are cancelled at once. A call in its caller's own task can only be cancelled by the
        caller: if it is not done in time, it is reported.
        """
        end = asyncio.get_running_loop().time() + seconds
        self.cancel(self.readers)
        while running := {*self._tasks}:  # running tasks may start others
            remaining = end - asyncio.get_running_loop().time()
            _, late = await asyncio.wait(running, timeout=max(remaining, 0))
            await self.stop(late)
        if self.calls:
            self.idle = asyncio.Event()
            try:
                async with asyncio.timeout_at(end):
                    await self.idle.wait()
            except TimeoutError:
                _log.error("the kernel was closed with %s still running", counted(self.calls, "call"))

    def is_stopping(self) -> bool:
        """Whether the current task is one of the kernel's own, and the kernel has cancelled it.

        ``cancelling()`` is no substitute: after a child fails, a task group leaves it above 0 (Python 3.11 and 3.12).
        """
        return asyncio.current_task() in self._stopping

    def cancel(self, tasks: Iterable[asyncio.Task[None]]) -> None:
        """Cancel tasks of the kernel's own, each once."""
        for task in tasks:
            if task not in self._stopping and not task.done():
                self._stopping.add(task)
                task.add_done_callback(self._stopping.discard)
                task.cancel()

    async def stop(self, tasks: set[asyncio.Task[None]]) -> None:
        """Cancel tasks and wait for their cleanup, bounded; those still running are abandoned, counted and reported."""
        tasks = tasks & self._tasks.keys()  # abandoned tasks are no longer waited for
        if not tasks:
            return
        self.cancel(tasks)
        _, late = await asyncio.wait(tasks, timeout=CLEANUP_SECONDS)
        for task in late:
            self.abandon(task)


class EnvironmentSecrets:
    """The default ``Secrets``: reads the environment variable of the same name."""

    async def get(self, name: str) -> str | None:
        return os.environ.get(name)


def workspace_folder(workspace: str | Path) -> Path:
    """Return the workspace, resolved once, so that a later chdir changes nothing.

    Raises ``DefinitionError`` if there is no such folder.
    """
    folder = Path(workspace).resolve()
    if not folder.is_dir():
        raise DefinitionError(f"the workspace {str(workspace)!r} is not a folder", hint="create it, or name another")
    return folder
