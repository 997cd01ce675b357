"""The bounds of a jail that are held from outside: processes, threads, memory, files; and how they are looked at."""

from __future__ import annotations

import itertools
import os
import shlex
import subprocess
import time
from pathlib import Path

import pytest

from capset.builtin.sandbox import jail, process, process_trees
from capset.builtin.sandbox.jail import JailUnavailable
from tests.builtin.sandbox.support import (
    box,
    need_jails,
    run,
    running,
)


@pytest.mark.spec("P18", "T29")
async def test_too_many_processes_or_too_much_memory_of_all_of_them_end_the_run() -> None:
    async with box("bash", memory_bytes=64 << 20) as desk:
        many = await run(desk.session, "bash", "for i in $(seq 200); do sleep 20 & done; wait")
        hungry = "for i in 1 2 3 4; do python3 -c 'x = bytearray(30 << 20); import time; time.sleep(20)' & done; wait"
        large = await run(desk.session, "bash", hungry)
    assert (many["stopped"], large["stopped"]) == ("processes", "memory")
    assert not running(os.getpid())


@pytest.mark.spec("P18", "T29")
async def test_memory_that_processes_share_counts_too() -> None:
    code = "import mmap, time\nm = mmap.mmap(-1, 30 << 20)\nfor _ in range(30): m.write(bytes(1 << 20))\ntime.sleep(20)"
    async with box("bash", memory_bytes=64 << 20) as desk:
        result = await run(desk.session, "bash", f"for i in 1 2 3 4; do python3 -c {shlex.quote(code)} & done; wait")
    assert result["stopped"] == "memory"


@pytest.mark.spec("P18", "T29")
async def test_too_many_threads_end_the_run() -> None:
    code = "import _thread, time\n_thread.stack_size(1 << 15)"
    many = "for _ in range(1_500): _thread.start_new_thread(time.sleep, (20,))"
    async with box("cpython") as desk:
        result = await run(desk.session, "cpython", f"{code}\n{many}\ntime.sleep(20)")
    assert result["stopped"] == "processes"
    assert not running(os.getpid())


@pytest.mark.spec("P18", "T29")
@pytest.mark.parametrize(
    ("language", "begin", "folder"),
    [("cpython", "os.closerange(1, 64)", "/tmp"), ("bash", "os.chmod('/.runtime/script', 0o700)", "/.runtime/script")],
)
async def test_empty_files_are_bounded_wherever_they_are_and_when_all_streams_are_closed(
    language: str, begin: str, folder: str
) -> None:
    code = f"import os, time\n{begin}\nfor i in range(30_000): os.mknod(f'{folder}/{{i}}')\ntime.sleep(20)"
    async with box(language) as desk:
        result = await run(desk.session, language, code if language == "cpython" else f"python3 -c {shlex.quote(code)}")
    assert result["stopped"] == "files"


@pytest.mark.spec("P18", "T29")
@pytest.mark.parametrize(
    "code",
    [
        "for i in range(9_000): os.mknod(b'/\\xff%d' % i)",
        "for _ in range(16): os.mkdir('d' * 250), os.chdir('d' * 250)\nfor i in range(20): os.mkdir(f'{i:0100}')",
    ],
    ids=["names that are no text", "folders that are too deep to be read"],
)
async def test_what_is_not_kept_counts_as_files_too(code: str) -> None:
    async with box("cpython", max_files=10) as desk:
        result = await run(desk.session, "cpython", f"import os\n{code}")
    assert (result["stopped"], result["files"]["not_kept"]) == ("files", [])


@pytest.mark.spec("P18", "T29")
async def test_threads_of_python_are_counted_without_a_read_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    counted, read = list[int](), list[int]()
    tasks_of, children_of = process_trees._tasks, process_trees._children

    def tasks(pid: int) -> list[str]:
        found = tasks_of(pid)
        counted.append(len(found))
        return found

    def children(pid: int, tasks: list[str]) -> list[int]:
        read.append(len(tasks))
        return children_of(pid, tasks)

    monkeypatch.setattr(process_trees, "_tasks", tasks)
    monkeypatch.setattr(process_trees, "_children", children)
    code = "import threading, time\nfor _ in range(50): threading.Thread(target=time.sleep, args=(0.5,)).start()"
    async with box("cpython") as desk:
        result = await run(desk.session, "cpython", code)
    assert result["stopped"] is None
    assert max(counted) > 40
    assert max(read) < 5


@pytest.mark.spec("P18", "T29")
async def test_processes_are_looked_at_no_more_than_a_tenth_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = list[tuple[float, float]]()

    def look(pid: int, *, most_threads: int, levels: int | None = None) -> list[int]:
        began, end = time.monotonic(), time.thread_time() + 0.03
        while time.thread_time() < end:
            pass
        looks.append((began, time.monotonic()))
        return []

    monkeypatch.setattr(process, "processes_below", look)
    async with box("bash") as desk:
        await run(desk.session, "bash", "sleep 1")
    assert len(looks) > 1
    assert all(begins - ended > 0.29 for (_, ended), (begins, _) in itertools.pairwise(looks))


@pytest.mark.spec("P18", "T29")
def test_memory_counts_where_its_shares_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Path.read_text

    def without_shares(path: Path) -> str:
        if path.name == "smaps_rollup":
            raise PermissionError
        return read(path)

    size = 20 << 20
    held = bytearray(b"x" * size)
    monkeypatch.setattr(Path, "read_text", without_shares)
    assert process_trees.memory_of([os.getpid()]) >= size
    del held
    ended = subprocess.Popen(["true"])
    assert os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT) is not None
    assert process_trees.memory_of([ended.pid]) == 0  # not reaped yet
    ended.wait()
    assert process_trees.memory_of([ended.pid]) == 0


@pytest.mark.spec("P18")
def test_nothing_is_jailed_where_the_children_of_processes_are_not_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    need_jails()
    monkeypatch.setattr(jail, "are_children_listed", lambda: False)
    with pytest.raises(JailUnavailable, match="does not list the children of processes"):
        jail._made(())
