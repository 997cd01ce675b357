"""What happens to the other server: it freezes while it writes, and large files are written to it."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter

from lab.siege.attack import Attack, Bounds, call, write
from lab.siege.connection import Connection, in_time, request
from lab.siege.site import Site

_MIB = 2**20


async def _writing(site: Site, until: float, answers: Counter[str]) -> None:
    http_request = call(site.attacker, "write_file", '{"path":"/theirs.txt","content":"noted"}')
    async with Connection(site.ports[1]) as connection:
        while time.monotonic() < until:
            answers[await in_time(connection, http_request, 20.0)] += 1


async def _frozen(site: Site, until: float) -> Counter[str]:
    """Freeze the second server again and again while it writes, for up to 2 seconds each time."""
    answers, pid = Counter[str](), site.pids[1]
    writing = [asyncio.ensure_future(_writing(site, until, answers)) for _ in range(4)]
    try:
        while time.monotonic() < until:
            await asyncio.sleep(random.uniform(0.05, 0.25))  # no secret
            os.kill(pid, signal.SIGSTOP)
            try:
                await asyncio.sleep(min(2.0, max(0.0, until - time.monotonic())))
            finally:
                os.kill(pid, signal.SIGCONT)
    finally:
        await asyncio.gather(*writing)
    return answers


async def _large_files(site: Site, until: float) -> Counter[str]:
    """Write files of 60 MB, one after the other."""
    content, answers = os.urandom(60 * _MIB), Counter[str]()
    http_request = request("PUT", f"/v1/sessions/{site.attacker.session}/files/huge.bin", site.attacker.key, content)
    async with Connection(site.port) as connection:
        while not answers or time.monotonic() < until:  # to make up so many bytes may take all of the time
            answers[await in_time(connection, http_request, 20.0)] += 1
    return answers


_DONE = frozenset({"200", "201", "503", "429"})
ATTACKS = (
    # On SQLite the lock of a frozen server cannot be taken from it: writes are refused within 5 seconds.
    Attack(
        "a server that freezes", _frozen, _DONE | {"409"}, Bounds(rate=0.0, wait=6.0), write, frozenset({"200", "503"})
    ),
    Attack("files of 60 MB", _large_files, _DONE, Bounds(rate=0.0, wait=0.3), write),
)
