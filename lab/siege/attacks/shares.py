"""Taking what is shared: room for bodies and downloads, connections, and memory for files."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import time
from collections import Counter
from collections.abc import Awaitable, Callable

from lab.siege.attack import Attack, Bounds, call
from lab.siege.connection import Connection, in_time, request
from lab.siege.site import Member, Site

_MB = 1_000_000
_IDLE = 5_100
_WAITING = 1_010
"""Requests of each of the five keys that wait for a tool."""
_REFUSED = frozenset({"401", "403", "404", "408", "413", "429", "503", "closed"})
_BOUNDS = Bounds(p99=0.5)


def _upload(site: Site) -> bytes:
    """Return an upload of the bystander's."""
    path = f"/v1/sessions/{site.bystander.session}/files/own.bin"
    return request("PUT", path, site.bystander.key, bytes(200_000))


def _download(site: Site) -> bytes:
    """Return a download of the bystander's."""
    return request("GET", f"/v1/sessions/{site.bystander.session}/files/large.bin", site.bystander.key)


async def _slow_uploads(site: Site, until: float) -> Counter[str]:
    """Declare files of 100 MB with two keys, one of which may read metrics alone, and send a byte in ten seconds."""
    answers: Counter[str] = Counter()
    sessions = ("00000000-0000-7000-8000-000000000000", site.crowd[0].session)

    async def upload(key: str, session: str) -> None:
        head = request("PUT", f"/v1/sessions/{session}/files/a", key, headers={"content-length": str(100 * _MB)})
        while time.monotonic() < until:
            answers[await _begin(site.port, head, until)] += 1

    keys = (site.crowd[0].key, site.watcher)
    await asyncio.gather(*(upload(key, session) for key in keys for session in sessions for _ in range(4)))
    return answers


async def _begin(port: int, head: bytes, until: float) -> str:
    """Send a head and then a byte in ten seconds, until there is an answer; return its status."""
    with contextlib.suppress(OSError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(head)
            while time.monotonic() < until:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(10.0, max(0.01, until - time.monotonic()))):
                        line = await reader.readline()
                        return line[9:12].decode() or "closed"
                writer.write(b"x")
            return "closed"
        finally:
            writer.transport.abort()
    return "closed"


async def _slow_downloads(site: Site, until: float) -> Counter[str]:
    """Ask for files of 95 MB on eight connections of each of five keys, and read none of them."""
    path = f"/v1/sessions/{site.attacker.session}/files/huge.bin"
    answers = await _write(site.port, [site.attacker])

    async def ask() -> None:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", site.port, limit=2**12)
            writer.write(request("GET", path, site.attacker.key))
            await asyncio.sleep(max(0.0, until - time.monotonic()))
            writer.transport.abort()
            answers["unread"] += 1

    await asyncio.gather(*(ask() for _ in range(40)))
    return answers


async def _write(port: int, members: list[Member]) -> Counter[str]:
    """Write a file of 95 MB into a session of each of these members."""
    content, answers = os.urandom(95 * _MB), Counter[str]()
    async with Connection(port) as connection:
        for member in members:
            http_request = request("PUT", f"/v1/sessions/{member.session}/files/huge.bin", member.key, content)
            answers[await in_time(connection, http_request, 60.0)] += 1
    return answers


async def _idle_sockets(site: Site, until: float) -> Counter[str]:
    """Open more connections than a server has, and send nothing."""
    return await _crowd(_IDLE, until, lambda _: _hold(site.port, b"", until))


async def _waiting_requests(site: Site, until: float) -> Counter[str]:
    """Have requests of five keys of an organisation wait, more than a server has connections."""
    http_requests = [call(member, "sleep", '{"seconds":20}') for member in site.crowd]
    return await _crowd(5 * _WAITING, until, lambda number: _hold(site.port, http_requests[number % 5], until))


async def _crowd(count: int, until: float, come: Callable[[int], Awaitable[str]]) -> Counter[str]:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return Counter(await asyncio.gather(*(come(number) for number in range(count))))


async def _hold(port: int, http_request: bytes, until: float) -> str:
    """Open a connection, send a request, if there is one, and wait; return its status, ``held`` if none came."""
    with contextlib.suppress(OSError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(http_request)
            async with asyncio.timeout(max(0.01, until - time.monotonic())):
                return (await reader.readline())[9:12].decode() or "closed"
        except TimeoutError:
            return "held"
        finally:
            writer.transport.abort()
    return "closed"


async def _large_reads(site: Site, until: float) -> Counter[str]:
    """Call ``read_file`` for files of 95 MB with four keys, eight times at once each."""
    members = list(site.crowd[:4])
    answers = await _write(site.port, members)

    async def read(member: Member) -> None:
        http_request = call(member, "read_file", '{"path":"/huge.bin","limit":10}')
        async with Connection(site.port) as connection:
            answers[await in_time(connection, http_request, 60.0)] += 1
            while time.monotonic() < until:
                answers[await in_time(connection, http_request, 60.0)] += 1

    await asyncio.gather(*(read(member) for member in members for _ in range(8)))
    return answers


ATTACKS = (
    Attack("slow uploads of two keys", _slow_uploads, _REFUSED, _BOUNDS, _upload),
    Attack("unread downloads of 95 MB", _slow_downloads, frozenset({"200", "201", "unread"}), _BOUNDS, _download),
    Attack("5,100 idle sockets", _idle_sockets, _REFUSED | {"held"}, _BOUNDS),
    Attack("5,050 waiting requests", _waiting_requests, _REFUSED | {"200", "held"}, Bounds(health=0.5, p99=0.5)),
    Attack("files of 95 MB, read by a tool", _large_reads, frozenset({"200", "201", "429", "503"}), _BOUNDS),
)
