"""The bounds of a jail that are held from outside: processes, threads, memory, files; and how they are looked at."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import subprocess
import sys
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
@pytest.mark.parametrize(
    "code",
    [
        "for i in $(seq 200); do sleep 20 & done; wait",
        ":(){ :|:& };:",
        "exec >&- 2>&-; more() { more & more & wait; }; more",
    ],
)
async def test_bash_starts_no_more_processes_even_while_nothing_looks_from_outside(
    code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "processes_below", lambda _pid, **_: [])
    async with box("bash", seconds=60) as desk:
        assert (await run(desk.session, "bash", code))["stopped"] == "processes"
        usual = await run(desk.session, "bash", "for i in $(seq 55); do sleep 0.3 & done; wait; echo $(seq 3 | wc -l)")
    assert usual["stdout"] == "3\n"
    assert not running(os.getpid())


@pytest.mark.spec("P18", "T29")
def test_a_signal_does_not_have_a_process_fail_that_is_about_to_be_answered() -> None:
    need_jails()
    code = """
import os, select, signal, sys, time
from capset.builtin.sandbox.child import new_processes
from capset.builtin.sandbox.child.jail_runs import _received_listener, _socket_pair
ours, theirs = _socket_pair()
pid = os.fork()
if pid == 0:
    os.close(ours)
    signal.signal(signal.SIGUSR1, lambda *_: None)
    new_processes.restrict_and_hand_over(theirs)
    try:
        child = os.fork()
    except InterruptedError:
        os._exit(4)
    os._exit(0 if not child else os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
os.close(theirs)
asking = _received_listener(ours)
if asking is None:
    sys.exit('there are no listeners')
def signal_before_answer(*_):
    os.kill(pid, signal.SIGUSR1)
    time.sleep(0.1)
    return 1
new_processes.NewProcesses._processes = signal_before_answer
poll = select.poll()
poll.register(asking, select.POLLIN)
while not (ended := os.waitpid(pid, os.WNOHANG))[0]:
    if any(event & select.POLLIN for _, event in poll.poll(20)):
        asking.answer()  # the call begins again after the signal, and asks again
sys.exit(os.waitstatus_to_exitcode(ended[1]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    if "no listeners" in done.stderr or _version() < (5, 19):
        pytest.skip("this system does not let a call wait on")
    assert (done.returncode, done.stderr) == (0, "")


def _version() -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2])


@pytest.mark.spec("P18", "T29")
async def test_what_threads_are_about_to_start_counts_as_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[int]()

    def look(pid: int, **_: object) -> list[int]:
        seen.append(len(process_trees.processes_below(pid, most_threads=10_000)))
        return []

    monkeypatch.setattr(process, "processes_below", look)
    # Threads of one process, whose memory takes long to copy: its lock lets one of them start a process at a time.
    code = """
import _thread, ctypes, mmap, threading, time
libc = ctypes.CDLL(None)
libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 4]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
start = libc.mmap(None, 40_000 * mmap.PAGESIZE, 3, 0x22, -1, 0)
for page in range(0, 40_000, 2): libc.mprotect(start + page * mmap.PAGESIZE, mmap.PAGESIZE, 1)
go = threading.Event()
def begin():
    go.wait()
    if libc.syscall(CLONE, 17, 0, 0, 0, 0) == 0: libc.pause()
_thread.stack_size(1 << 16)
for _ in range(200): _thread.start_new_thread(begin, ())
time.sleep(0.5)
go.set()
time.sleep(4)
libc.kill(-1, 9)
""".replace("CLONE", "56" if os.uname().machine == "x86_64" else "220")
    async with box("bash", memory_bytes=512 << 20) as desk:
        result = await run(desk.session, "bash", f"MALLOC_ARENA_MAX=1 python3 -c {shlex.quote(code)}")
    assert (result["stopped"], result["stderr"]) == ("processes", "")
    assert max(seen) <= 128
    assert not running(os.getpid())


@pytest.mark.spec("P18", "T29")
async def test_what_has_ended_does_not_count_for_long_once_the_script_itself_has_ended() -> None:
    code = "{ for i in $(seq 40); do (sleep 0.3 &); done; sleep 1; set -- /proc/[0-9]*; echo $#; } &"
    async with box("bash") as desk:
        result = await run(desk.session, "bash", code)
    assert int(result["stdout"]) < 10


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
