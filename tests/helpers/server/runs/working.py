"""A worker on the database that it is given, whose tools write down what they do, until it is killed or told to end.

Tests start it with ``working``: it prints a line once it works.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

from capset import Agent, Capability, Kernel, Principal, tool
from capset.stores.base import RunRow, ScheduleRow
from capset.stores.base.runs import UNFINISHED
from capset_agents.playback.script_model import ScriptedModel
from capset_agents.playback.scripts import Call
from capset_agents.runner import AgentRunner
from capset_cli.worker import parse_queue
from capset_server.auth.callers import Caller
from capset_server.runs.schedules import create_schedule
from capset_server.runs.submission import content_of_call, submit
from capset_server.service import Service
from scripts.packages import ROOT
from tests.helpers.server.support import registry_of
from tests.waiting import until

ADA = Caller(Principal("ada", org="acme"), frozenset({"capset:admin"}), None)
PAST = "2026-01-01T00:00:00.000000Z"
LINGER = float(os.environ.get("LINGER", "60"))
MOVES = (Call("put", text="one"), Call("linger", text="two", seconds=LINGER), Call("put", text="three"), "Done.")
ASKING = (Call("put", text="one"), Call("burn", text="two"), "Done.")


def agent_of(notes: Path, name: str) -> Agent:
    """Return an agent whose tools write into a file: who did what."""

    def note(text: str) -> None:
        with notes.open("a") as file:
            file.write(f"{text} {os.getpid()}\n")

    @tool(effect="write")
    async def put(text: str) -> str:
        """Put something."""
        note(f"put {text}")
        return text

    @tool(effect="write")
    async def linger(text: str, seconds: float = 3) -> str:
        """Do something that takes long."""
        note(f"begin {text}")
        await asyncio.sleep(seconds)
        note(f"end {text}")
        return text

    @tool(effect="write", idempotent=True)
    async def renew(text: str) -> str:
        """Do something that takes long the first time, and may be done again."""
        is_first = f"begin {text}" not in Notes(notes).deeds
        note(f"begin {text}")
        await asyncio.sleep(60 * is_first)
        note(f"end {text}")
        return text

    @tool(effect="write", approval="ask")
    async def burn(text: str) -> str:
        """Burn something."""
        note(f"burn {text}")
        return text

    return Agent(name, system_prompt="Work.", uses=[Capability("work", tools=[put, linger, renew, burn])])


@asynccontextmanager
async def service_on(store: str, notes: Path) -> AsyncGenerator[Service]:
    """Open a service on a database; its agent follows ``MOVES``, or ``ASKING`` where that is set."""
    agents = [agent_of(notes, "scribe")]
    runner = AgentRunner(ScriptedModel(*(ASKING if os.environ.get("ASKING") else MOVES)))
    async with Kernel(store, generator=runner) as kernel:
        yield Service(kernel, registry_of(agents=agents), anyone=ADA)


@dataclass(frozen=True)
class Notes:
    """What the tools of all workers did."""

    path: Path

    @property
    def lines(self) -> list[tuple[str, int]]:
        """Each deed with the process that did it."""
        if not self.path.exists():
            return []
        return [(line.rpartition(" ")[0], int(line.rpartition(" ")[2])) for line in self.path.read_text().splitlines()]

    @property
    def deeds(self) -> list[str]:
        """What was done, in order."""
        return [deed for deed, _ in self.lines]

    async def process_of(self, deed: str) -> int:
        """Wait until something is done, and return the process that does it."""
        processes = await until(
            lambda: [process for noted_deed, process in self.lines if noted_deed == deed],
            f"a worker to have noted {deed!r}",
        )
        return processes[0]


@contextmanager
def working(store: str, notes: Path, *queues: str, **environ: str) -> Generator[Popen[str]]:
    """Start a worker in a process of its own, and kill it at the end.

    ``DEAD=3`` has others take its runs sooner than workers do, ``AGAIN=1`` hands on sooner what the engine lost, and
    ``ASKING=1`` has its agent ask for an approval. ``LINGER=1`` is how many seconds its second step takes.
    """
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environ}
    command = [sys.executable, __file__, store, str(notes), *(queues or ("default",))]
    with Popen(command, env=variables, stdout=PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def await_start(*processes: Popen[str]) -> None:
    """Return once workers work."""
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "works\n"


async def queued(
    service: Service,
    *,
    call: tuple[str, Mapping[str, object]] | None = None,
    queue: str = "default",
    by: Caller = ADA,
) -> RunRow:
    """Queue a turn of the agent, or a call in a session of it."""
    session = await service.new_session(by, "scribe")
    content = "Go on." if call is None else content_of_call(*call)
    kind = "turn" if call is None else "call"
    return await submit(service, by, session, kind, content, queue=queue, correlation="c-1")


async def scheduled(service: Service, *, by: Caller = ADA, **more: Any) -> ScheduleRow:
    """Make a schedule of turns, in a new session each, that has been due since long ago."""
    options: dict[str, Any] = {"cron": "* * * * *", "timezone": "UTC", "queue": "default", "session": None, **more}
    row = await create_schedule(service, by, "turn", "Go on.", agent="scribe", **options)
    then = replace(row, next_at=PAST)
    assert await service.kernel.store.schedules.change(row, then)
    return then


async def look_at(service: Service, run: RunRow) -> RunRow:
    """Return a run as it is now."""
    row = await service.kernel.store.runs.get(run.id)
    assert row is not None
    return row


async def ended(service: Service, run: RunRow, *, or_in: Sequence[str] = ()) -> RunRow:
    """Return a run once it has ended, or is in one of these states."""

    async def rows() -> list[RunRow]:
        row = await look_at(service, run)
        return [row] if row.state not in UNFINISHED or row.state in or_in else []

    (row,) = await until(rows, f"the {run.kind} to end")
    return row


async def main(store: str, notes: Path, *names: str) -> None:
    """Work until SIGTERM."""
    from capset_agents.dbos import RunEngine
    from capset_server.runs.worker import Worker

    queues = [parse_queue(name, 4) for name in names]
    async with service_on(store, notes) as service:
        worker = Worker(
            service,
            service.kernel.new_id(),
            [queue.name for queue in queues],
            dead_seconds=int(os.environ.get("DEAD", "10")),
            again_seconds=float(os.environ.get("AGAIN", "20")),
        )
        engine = RunEngine(store, worker.id, queues, worker.work)
        await worker.start(engine)
        task = asyncio.ensure_future(worker.run(engine))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        print("works", flush=True)
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:]))
