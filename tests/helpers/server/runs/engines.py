"""An engine of runs in this process, which does what is queued at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from capset_server.runs.worker import Worker
from capset_server.service import Service


@dataclass
class PromptEngine:
    """It has no limits. ``queued`` are its workflows, in the order in which they came."""

    work: Callable[[str], Awaitable[None]]
    queued: list[str] = field(default_factory=list[str])
    _tasks: dict[str, asyncio.Future[None]] = field(default_factory=dict[str, "asyncio.Future[None]"])

    async def enqueue(self, queue: str, workflow: str, run: str) -> bool:
        """Do a run, unless its workflow is under way or over."""
        if workflow not in self._tasks:
            self.queued.append(workflow)
            self._tasks[workflow] = asyncio.ensure_future(self.work(run))
        return not self._tasks[workflow].done()

    async def start(self) -> None:
        """Begin: there is nothing to do yet."""

    async def holders(self) -> Collection[str]:
        """Return no other worker, since it is this one's alone."""
        return ()

    async def recover(self, workers: Collection[str]) -> int:
        """Queue nothing again, since no other worker held anything."""
        return 0

    async def delete_ended(self) -> int:
        """Keep everything, for as long as a test takes."""
        return 0

    async def stop(self) -> None:
        """Return once all has ended."""
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)


@asynccontextmanager
async def worker_of(service: Service, *queues: str) -> AsyncGenerator[PromptEngine]:
    """Have a worker work on queues of a service in this process, and give its engine; it must not end by itself."""
    worker = Worker(service, service.kernel.new_id(), queues or ("default",))
    engine = PromptEngine(worker.work)
    await worker.start(engine)
    task = asyncio.create_task(worker.run(engine))
    try:
        yield engine
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.wait([task])
