"""Files under fire: whatever is killed, and whoever works beside, they are whole and within their quota (P25)."""

from __future__ import annotations

import hashlib
import multiprocessing
import random
import signal
import time
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from capset import Kernel
from capset.definitions.calls.files import FileQuota, parent_of
from lab.faults import filing
from lab.faults.filing import FULL, KINDS, PRESSED, SHARED, deeds_in
from tests.helpers.stores.sql.support import run_at
from tests.waiting import wait_until

PROCESSES = 3
ROUNDS = 3
FEW_DEEDS = 60
"""How many deeds are acknowledged at least before a round's processes are killed."""
OPERATIONS = 150
"""How many deeds each process does that is left alone."""


async def session_in(url: str) -> str:
    async with Kernel(store=url) as kernel, kernel.open(filing.AGENT, principal=filing.WHO) as session:
        return session.id


def started(target: Callable[..., None], *argument_sets: tuple[Any, ...]) -> Sequence[BaseProcess]:
    """Start a process for each of these, from a warm one."""
    warm = multiprocessing.get_context("forkserver")
    warm.set_forkserver_preload(["lab.faults.filing", "capset.stores.sql.schema.revisions", "psycopg"])
    running = [warm.Process(target=target, args=arguments) for arguments in argument_sets]
    for process in running:
        process.start()
    return running


def wait_for(running: Sequence[BaseProcess]) -> None:
    for process in running:
        process.join()
    assert [process.exitcode for process in running] == [0] * len(running)


def lines_in(folder: Path, names: str) -> int:
    return sum(len(file.read_text().splitlines()) for file in folder.glob(names))


def rows_in(url: str, session: str, quota: FileQuota) -> list[Any]:
    """Return what a session has, at one moment, once it is found to be within its quota."""
    digest = "coalesce(digest, parts)"
    query = f"SELECT path, is_directory, size_bytes, {digest} FROM files WHERE session = '{session}' AND path > '/'"
    rows: list[Any] = run_at(url, query)  # pyright: ignore[reportArgumentType]
    sizes = [size for _, is_directory, size, _ in rows if not is_directory]
    assert max(len(sizes), len(rows) - len(sizes)) <= quota.session_files
    assert sum(sizes) <= quota.session_bytes
    assert max(sizes, default=0) <= quota.file_bytes
    return rows


def files_in(url: str, session: str, quota: FileQuota) -> dict[str, str]:
    """Return the digests of a session's files by path, after a look at everything that is kept of them."""
    rows = rows_in(url, session, quota)
    blobs = {digest: bytes(content) for digest, content in run_at(url, "SELECT digest, content FROM blobs")}
    files = {path: digest for path, is_directory, _, digest in rows if not is_directory}
    directories = {path for path, is_directory, _, _ in rows if is_directory}
    assert {parent_of(path) for path, *_ in rows} <= {"/", *directories}
    parts = run_at(url, "SELECT digest, content FROM blob_parts ORDER BY digest, number")
    referred = {digest for (digest,) in run_at(url, "SELECT coalesce(digest, parts) FROM files") if digest}
    loose = {digest for (digest,) in run_at(url, "SELECT digest FROM loose_parts")} - referred
    for digest, content in parts:
        if digest not in loose:
            blobs[digest] = blobs.get(digest, b"") + bytes(content)
    assert blobs.keys() == referred, "content of no file, or a file without any"
    for digest, content in blobs.items():
        assert hashlib.sha256(content).hexdigest() == digest, "a torn file"
    for _, is_directory, size, digest in rows:
        assert is_directory or len(blobs[digest]) == size
    return files


def check(folder: Path, files: dict[str, str]) -> None:
    """Compare what is there with what the tasks meant, and with what they were told."""
    versions: dict[tuple[str, int], str] = {}
    for file in folder.glob("meant-*"):
        task = file.name.removeprefix("meant-")
        meant, acknowledged = deeds_in(file), deeds_in(folder / f"told-{task}")
        assert [deed.number for deed in acknowledged] == [deed.number for deed in meant[: len(acknowledged)]]
        for deed in acknowledged:
            if deed.version:
                assert versions.setdefault((deed.path, deed.version), deed.digest) == deed.digest, deed
        if "shared" in task:
            continue
        expected: dict[str, str] = {}
        for deed in acknowledged:
            expected = deed.done_to(expected)
        possible = [expected, *(deed.done_to(expected) for deed in meant[len(acknowledged) :])]
        assert len(possible) <= 2
        task_files = {path: digest for path, digest in files.items() if path.startswith(f"/{task}/")}
        assert task_files in possible, task


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.spec("P25")
async def test_whoever_is_killed_while_files_are_written_they_are_whole(url: str, tmp_path: Path) -> None:
    session = await session_in(url)
    async with (
        Kernel(store=url) as kernel,
        kernel.open(filing.AGENT, principal=filing.WHO, session_id=session) as filled,
    ):
        for number in range(4):  # so that there is room for little
            await filled.files.write(f"/filled/{number}", b"%d" % number * PRESSED.file_bytes)
    moments = random.Random(url)
    for number in range(ROUNDS):
        seeds = range(PROCESSES * number, PROCESSES * (number + 1))
        enough = lines_in(tmp_path, "told-*") + FEW_DEEDS
        running = started(filing.work, *[(url, tmp_path, session, seed) for seed in seeds])

        def is_enough(running: Sequence[BaseProcess] = running, enough: int = enough) -> bool:
            assert all(process.is_alive() for process in running), "one ended by itself"
            return lines_in(tmp_path, "told-*") >= enough

        wait_until(is_enough, "the deeds to be noted")
        for process in running:
            time.sleep(moments.uniform(0, 0.1))
            process.kill()
        for process in running:
            process.join()
            assert process.exitcode == -signal.SIGKILL
        async with Kernel(store=url):
            pass  # as the next process opens it
        check(tmp_path, files_in(url, session, PRESSED.file_quota))
    refused = {deed.refused for file in tmp_path.glob("told-*") for deed in deeds_in(file)}
    assert {"", "quota_exceeded"} <= refused


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.spec("P22", "P25")
async def test_writers_and_movers_of_the_same_paths_meet_in_no_half_done_thing(url: str, tmp_path: Path) -> None:
    session = await session_in(url)
    wait_for(started(filing.work, *[(url, tmp_path, session, seed, OPERATIONS) for seed in range(PROCESSES)]))
    files = files_in(url, session, PRESSED.file_quota)
    check(tmp_path, files)
    acknowledged = [deed for file in tmp_path.glob("told-*") for deed in deeds_in(file)]
    assert len(acknowledged) == PROCESSES * OPERATIONS
    digests = {deed.digest for deed in acknowledged if not deed.refused}
    assert set(files.values()) <= digests
    assert any(path.startswith(f"{SHARED}/") for path in files)


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.spec("P25", "T26")
async def test_processes_that_fill_a_session_together_stop_at_each_limit(url: str, tmp_path: Path) -> None:
    sessions = {kind: await session_in(url) for kind in KINDS}
    quota = FULL.file_quota
    running = started(filing.fill, *[(url, tmp_path, sessions, f"p{number}") for number in range(PROCESSES)])
    while any(process.is_alive() for process in running):
        for session in sessions.values():
            rows_in(url, session, quota)
        time.sleep(0.02)
    wait_for(running)
    files = {kind: files_in(url, session, quota) for kind, session in sessions.items()}
    assert (len(files["bytes"]), len(files["files"])) == (quota.session_bytes // 20_000, quota.session_files)
    assert len(files["directories"]) == (quota.session_files - 1) // 2, "each needs two, below one that all share"
    for kind in KINDS:
        assert set((tmp_path / f"told-{kind}").read_text().split()) == files[kind].keys()
