"""What goes on at a site when a fault befalls it: each moment begins it, and keeps it up until it is told to stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from itertools import count

from lab.faults.matrix.book import Book

Moment = Callable[[Book, asyncio.Event], Awaitable[None]]
"""Keeps servers at work until the event is set."""
TARGET = 1
"""The server that starts, or drains, when the fault comes."""
_TASKS = 6


async def idle(_book: Book, stop: asyncio.Event) -> None:
    """Ask for nothing."""
    await stop.wait()


async def load(book: Book, stop: asyncio.Event) -> None:
    """Make calls with effects."""
    await _calls(book, stop, ("act", "act_in_a_thread"))


async def approval(book: Book, stop: asyncio.Event) -> None:
    """Make calls that have to be approved, approve them, and make them again."""
    await _calls(book, stop, ("sign",))


async def turn(book: Book, stop: asyncio.Event) -> None:
    """Run turns of agents."""

    async def run_turns(task: int) -> None:
        for number in count(task):
            if stop.is_set():
                return
            try:
                session = await book.site.session(number % 2)
            except (AssertionError, OSError):
                await asyncio.sleep(0.1)
                continue
            if not await book.begin_turn(number % 2, session):
                book.unsure_turns.append(session)
            await asyncio.sleep(book.moment.uniform(0.2, 0.5))

    await asyncio.gather(*(run_turns(task) for task in range(3)))


async def runs(book: Book, stop: asyncio.Event) -> None:
    """Queue runs for workers: calls with effects, and turns."""

    async def queue_runs(task: int) -> None:
        for number in count():
            if stop.is_set():
                return
            name = f"{book.prefix}-run-{task}-{number}" if task else None
            if await book.queue((task + number) % 2, name) is None:
                await asyncio.sleep(0.1)
            await asyncio.sleep(book.moment.uniform(0.1, 0.4))

    await asyncio.gather(*(queue_runs(task) for task in range(3)))


async def files(book: Book, stop: asyncio.Event) -> None:
    """Write files."""

    async def write_files(task: int) -> None:
        for number in count():
            if stop.is_set():
                return
            await book.write((task + number) % 2, f"/{task}-{number}.bin")

    await asyncio.gather(*(write_files(task) for task in range(3)))


async def starting(book: Book, stop: asyncio.Event) -> None:
    """Have one server start beside the other's load."""
    server = book.site.servers[TARGET]
    server.kill()
    server.start()
    await load(book, stop)


async def draining(book: Book, stop: asyncio.Event) -> None:
    """Have one server end in order, under load."""
    loading = asyncio.ensure_future(load(book, stop))
    await asyncio.sleep(0.2)
    book.site.servers[TARGET].signal(signal.SIGTERM)
    await loading


async def _calls(book: Book, stop: asyncio.Event, tools: tuple[str, ...]) -> None:
    async def make_calls(task: int) -> None:
        for number in count():
            if stop.is_set():
                return
            tool, name = book.moment.choice(tools), f"{book.prefix}-{task}-{number}"
            if await book.call((task + number) % 2, tool, name) != 200:
                book.unsure.append((tool, name))
                await asyncio.sleep(0.1)

    await asyncio.gather(*(make_calls(task) for task in range(_TASKS)))


MOMENTS: dict[str, Moment] = {
    moment.__name__: moment for moment in (idle, load, approval, turn, runs, files, starting, draining)
}  # fmt: skip
