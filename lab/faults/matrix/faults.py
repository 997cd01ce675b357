"""The faults: each befalls one component of a site, and returns when that is back."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import struct
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import psutil
import psycopg

from lab.faults.matrix.book import Book
from lab.faults.matrix.moments import TARGET
from lab.faults.matrix.site import Served
from lab.siege.attacks import ATTACKS
from lab.siege.connection import request
from tests.databases import Server, connected
from tests.redis_servers import RedisServer

Strike = Callable[[Book, bool], Awaitable[None]]
"""Has one fault befall a site; the flag says that the target of the moment is meant, where the fault is a server's."""
ATTACK_SECONDS = 1.5
HOUR = 3600
HANG_SECONDS = 3.0
"""How long PostgreSQL may take to recover by itself before it is started again."""


def _server(book: Book, is_target: bool) -> Served:
    return book.site.servers[TARGET if is_target else book.moment.randrange(2)]


def _worker(book: Book) -> Served:
    return book.moment.choice(book.site.workers)


def _redis(book: Book) -> RedisServer:
    assert book.site.redis is not None
    return book.site.redis


async def kill_server(book: Book, is_target: bool) -> None:
    """Kill a server; a supervisor starts it again."""
    _server(book, is_target).kill()
    await asyncio.sleep(book.moment.uniform(0, 0.4))


async def freeze_server(book: Book, is_target: bool) -> None:
    """Freeze a server, sometimes for longer than PostgreSQL waits for a transaction, and let it go on."""
    server = _server(book, is_target)
    server.signal(signal.SIGSTOP)
    await asyncio.sleep(book.moment.choice((book.moment.uniform(0.1, 2), 4)))
    server.signal(signal.SIGCONT)


async def end_server(book: Book, is_target: bool) -> None:
    """End a server in order; a supervisor starts it again."""
    server = _server(book, is_target)
    server.signal(signal.SIGTERM)
    if not await server.ended(20):
        book.problems.append("the server did not end within 20 s of SIGTERM")
        server.kill()


async def kill_worker(book: Book, _is_target: bool) -> None:
    """Kill a worker; a supervisor starts another."""
    _worker(book).kill()
    await asyncio.sleep(book.moment.uniform(0, 0.4))


async def freeze_worker(book: Book, _is_target: bool) -> None:
    """Freeze a worker, sometimes until others have taken its runs, and let it go on."""
    worker = _worker(book)
    worker.signal(signal.SIGSTOP)
    await asyncio.sleep(book.moment.choice((book.moment.uniform(0.1, 2), 14)))
    worker.signal(signal.SIGCONT)


async def end_worker(book: Book, _is_target: bool) -> None:
    """End a worker in order; a supervisor starts another."""
    worker = _worker(book)
    worker.signal(signal.SIGTERM)
    if not await worker.ended(30):
        book.problems.append("the worker did not end within 30 s of SIGTERM")
        worker.kill()


async def kill_redis(book: Book, _is_target: bool) -> None:
    """Kill Redis with all that it holds, and start it again."""
    redis = _redis(book)
    await asyncio.to_thread(redis.kill)
    await asyncio.sleep(book.moment.uniform(0, 2))
    await asyncio.to_thread(redis.start)


async def freeze_redis(book: Book, _is_target: bool) -> None:
    """Freeze Redis, and let it go on."""
    redis = _redis(book)
    redis.signal(signal.SIGSTOP)
    await asyncio.sleep(book.moment.uniform(0.1, 3))
    redis.signal(signal.SIGCONT)


async def kill_postgres(book: Book, _is_target: bool) -> None:
    """Kill PostgreSQL's first process, and start it again."""
    postgres = _postgres(book)
    await asyncio.to_thread(postgres.kill)
    await asyncio.sleep(book.moment.uniform(0, 0.5))
    await asyncio.to_thread(postgres.start)


async def kill_backend(book: Book, _is_target: bool) -> None:
    """Kill a process of PostgreSQL that serves a connection: PostgreSQL then cuts off all, and recovers by itself."""
    serving = [process for process in _postgres(book).processes() if " capset" in _title(process)]
    if serving:
        book.moment.choice(serving).kill()
    await _accepting(book)


async def freeze_postgres(book: Book, _is_target: bool) -> None:
    """Freeze every process of PostgreSQL, and let them go on."""
    frozen = await asyncio.to_thread(_postgres(book).freeze)
    await asyncio.sleep(book.moment.uniform(0.1, 3))
    for process in frozen:
        process.send_signal(signal.SIGCONT)


async def restart_postgres(book: Book, _is_target: bool) -> None:
    """Stop PostgreSQL in order, which cuts off all connections, and start it again."""
    postgres = _postgres(book)
    await asyncio.to_thread(postgres.stop)
    await asyncio.sleep(book.moment.uniform(0, 0.5))
    await asyncio.to_thread(postgres.start)


async def fill_disk(book: Book, _is_target: bool) -> None:
    """Have the database's disk be full for a while; if PostgreSQL has ended by then, it is started again."""
    _tell(book.site.disk, 1, 0)
    await asyncio.sleep(book.moment.uniform(0.3, 1.5))
    _tell(book.site.disk, 0, 0)
    if book.site.postgres is not None:
        await _accepting(book)


async def slow_disk(book: Book, _is_target: bool) -> None:
    """Have each write to the database's disk take long for a while."""
    _tell(book.site.disk, 0, book.moment.randint(10, 80))
    await asyncio.sleep(book.moment.uniform(1, 2))
    _tell(book.site.disk, 0, 0)


async def set_clock(seconds: int, book: Book, _is_target: bool) -> None:
    """Set the clock of one server ahead or back, and later right again."""
    _tell(book.site.clock, seconds)
    await asyncio.sleep(book.moment.uniform(0.5, 2))
    _tell(book.site.clock, 0)


async def leave(book: Book, _is_target: bool) -> None:
    """Send calls and vanish before they are answered, beside connections that stay half open."""
    ports = [server.port for server in book.site.servers]
    silent = [await asyncio.open_connection("127.0.0.1", ports[number % 2]) for number in range(40)]
    for _, writer in silent:
        writer.write(b"POST /v1/sessions/x/calls HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 50\r\n\r\n{")
    end = time.monotonic() + ATTACK_SECONDS
    number = 0
    while time.monotonic() < end:
        number += 1
        name = f"{book.prefix}-left-{number}"
        body = json.dumps({"tool": "act", "arguments": {"name": name, "folder": str(book.site.folder)}}).encode()
        path, headers = f"/v1/sessions/{book.session}/calls", {"idempotency-key": name}
        _, writer = await asyncio.open_connection("127.0.0.1", ports[number % 2])
        writer.write(request("POST", path, book.site.key, body, headers))
        await writer.drain()
        await asyncio.sleep(book.moment.uniform(0, 0.04))
        writer.transport.abort()
        book.unsure.append(("act", name))
    for _, writer in silent:
        writer.transport.abort()


async def attack(names: tuple[str, ...], book: Book, _is_target: bool) -> None:
    """Attack the first server, as `make lab-siege` does."""
    site = await book.site.besieged()
    chosen = [candidate for candidate in ATTACKS if candidate.name in names]
    assert len(chosen) == len(names), names
    for chosen_attack in chosen:
        answers = await chosen_attack.work(site, time.monotonic() + ATTACK_SECONDS / len(chosen))
        if odd := set(answers) - chosen_attack.answers - {"closed"}:
            book.problems.append(f"{chosen_attack.name}: was answered {sorted(odd)}")


def _postgres(book: Book) -> Server:
    assert book.site.postgres is not None
    return book.site.postgres


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return ""


async def _accepting(book: Book) -> None:
    """Wait until PostgreSQL takes connections again; start it again, as an operator would, if it has ended or hangs.

    PostgreSQL 18 hangs where its recovery has found the disk full.
    """
    postgres, began = _postgres(book), time.monotonic()
    while time.monotonic() < began + 30:
        try:
            await asyncio.to_thread(_connect, book.site.url)
        except psycopg.Error:
            if not postgres.processes() or time.monotonic() > began + HANG_SECONDS:
                await asyncio.to_thread(postgres.kill)
                await asyncio.to_thread(postgres.start)
            await asyncio.sleep(0.05)
        else:
            return
    book.problems.append("PostgreSQL takes no connections")


def _connect(url: str) -> None:
    with connected(url) as connection:
        connection.execute("SELECT 1")


def _tell(file: Path | None, *numbers: int) -> None:
    assert file is not None
    with file.open("r+b") as opened:  # in its place: it is mapped into memory
        opened.write(struct.pack("i" * len(numbers), *numbers))


ahead, back = partial(set_clock, HOUR), partial(set_clock, -HOUR)
slowloris = partial(attack, ("200 bodies of 16 MB that trickle", "800 unfinished requests"))
huge_bodies = partial(attack, ("call, 16 MB of numbers", "call, 1 MB of brackets", "call, 1 MB of text"))
flood = partial(attack, ("64 readers",))


def moment_of(seed: str) -> random.Random:
    """Return the random moments of a run."""
    return random.Random(seed)
