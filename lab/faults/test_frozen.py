"""A process that is frozen while it writes (spec 5, P38): others go on, and it writes nothing when it wakes."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from capset.errors import StoreBusy
from capset.stores.base import AuditQuery
from capset_testing.store_suite.support import create_sessions, entry, intent
from tests.helpers.stores.sql.support import opened_at
from tests.waiting import until

ROOT = Path(__file__).parents[2]
SECONDS = 5.0
"""How long others may wait at most."""


class Frozen:
    """A process that has stopped in the middle of a write transaction."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def words(self) -> list[str]:
        """Wait for its next line that is not a handler's."""
        assert self.process.stdout is not None
        while (line := (await self.process.stdout.readline()).decode().split())[:1] == ["started"]:
            pass
        return line

    async def wake(self) -> list[list[str]]:
        """Have it go on, and return what it says until its end."""
        self.process.send_signal(signal.SIGCONT)
        lines: list[list[str]] = []
        while words := await self.words():
            lines.append(words)
        assert await self.process.wait() == 0
        return lines


@asynccontextmanager
async def frozen(url: str) -> AsyncGenerator[Frozen]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "lab.faults.frozen", url, cwd=ROOT, stdout=subprocess.PIPE
    )
    handle = Frozen(process)
    try:
        assert await handle.words() == ["stops", str(process.pid)]
        await until(lambda: Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
        yield handle
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.spec("P38")
async def test_others_write_within_five_seconds_and_the_frozen_one_writes_nothing_twice(postgres_url: str) -> None:
    async with opened_at(postgres_url) as store:
        await create_sessions(store, "s")
        async with frozen(postgres_url) as other:
            began = time.monotonic()
            await store.audit.commit(intent("mine"))
            waited = time.monotonic() - began
            await store.audit.commit(entry("mine"))
            assert 0.2 < waited < SECONDS, "it waited for the lock, and not for long"
            lines = await other.wake()
        records = await store.audit.read()
        verified = await store.audit.verify()
    assert verified.ok, verified.problem
    assert [words[0] for words in lines] == ["told", "told"]
    assert [words[2] for words in lines] == ["True", "True"], "it begins its transaction again"
    for record_id in ("mine", *(words[1] for words in lines)):
        assert [record.phase for record in records if record.id == record_id] == ["intent", "outcome"]
    assert len(records) == 6


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.spec("P38")
async def test_a_frozen_holder_of_the_file_is_named_and_readers_go_on(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/capset.db"
    async with opened_at(url) as store:
        await create_sessions(store, "s")
        await store.audit.commit(entry("before"))
        async with frozen(url) as other:

            async def refused() -> float:
                began = time.monotonic()
                with pytest.raises(StoreBusy) as failure:
                    await store.audit.commit(entry("refused"))
                error = failure.value
                assert (error.code, error.status, error.retryable) == ("store_busy", 503, True)
                assert f"process {other.process.pid} on {socket.gethostname()}" in error.message
                return time.monotonic() - began

            async def refused_function() -> float:
                began = time.monotonic()
                with pytest.raises(StoreBusy, match=str(other.process.pid)):
                    await create_sessions(store, "t")
                return time.monotonic() - began

            async def reads() -> None:
                for _ in range(20):
                    began = time.monotonic()
                    page = await store.audit.query(AuditQuery())
                    assert [record.id for record in page.items] == ["before"]
                    assert time.monotonic() - began < SECONDS / 2
                    await asyncio.sleep(0.05)

            waited = await asyncio.gather(refused(), refused(), refused_function(), refused_function(), reads())
            assert max(seconds for seconds in waited if seconds) < SECONDS
            store.audit.append(entry("buffered"))
            lines = await other.wake()
            began = time.monotonic()
            await store.audit.commit(entry("after"))
            assert time.monotonic() - began < 1, "it recovers at once"
        records = await store.audit.read()
        verified = await store.audit.verify()
    assert verified.ok, verified.problem
    assert [words[2] for words in lines] == ["True", "True"]
    ids = [record.id for record in records]
    assert [ids.count(record_id) for record_id in ("before", "buffered", "after", "refused", lines[0][1])] == [
        1,
        1,
        1,
        0,
        2,
    ]
