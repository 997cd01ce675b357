"""The bounds of a jail: processes and threads, memory, files."""

from __future__ import annotations

import itertools
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from capset_tools.sandbox import SandboxConfig, jail, jail_users, process, process_trees
from capset_tools.sandbox.child.frames import Order
from capset_tools.sandbox.jail import JailUnavailable
from scripts.packages import source_folders
from tests.helpers.tools.sandbox.support import box, need_jails, run, running


@pytest.mark.realtime
@pytest.mark.spec("P18", "T29")
async def test_too_many_processes_or_too_much_memory_of_all_of_them_end_the_run() -> None:
    async with box("bash", memory_bytes=64 << 20) as desk:
        many = await run(desk.session, "bash", "for i in $(seq 200); do sleep 20 & done; wait")
        hungry = "for i in 1 2 3 4; do python3 -c 'x = bytearray(30 << 20); import time; time.sleep(20)' & done; wait"
        large = await run(desk.session, "bash", hungry)
    assert (many["stopped"], large["stopped"]) == ("processes", "memory")
    assert not running(os.getpid())


@pytest.mark.realtime
@pytest.mark.gate
@pytest.mark.spec("P18", "T29")
async def test_bash_has_as_many_processes_as_the_kernel_lets_its_user_have() -> None:
    async with box("bash", seconds=60) as desk:
        result = await run(desk.session, "bash", "for i in $(seq 55); do sleep 0.3 & done; wait; echo $(seq 3 | wc -l)")
        many = await run(desk.session, "bash", "for i in $(seq 200); do sleep 20 & done; wait")
    assert (result["stdout"], many["stopped"]) == ("3\n", "processes")
    assert not running(os.getpid())


BOMBS = {
    "bash": (":(){ :|:& };:", "exec >&- 2>&-; more() { more & more & wait; }; more"),
    "cpython": (
        "import threading, time\nthreading.stack_size(1 << 15)\nwhile True:\n"
        "  try: threading.Thread(target=time.sleep, args=(60,)).start()\n  except RuntimeError: pass",
    ),
}
COUNTED = """
import sys, threading, time
from pathlib import Path
from capset_tools.sandbox.config import SandboxConfig
from capset_tools.sandbox.jail import jail_for, shell_jail
from capset_tools.sandbox.process import ChildRun
from capset_tools.sandbox.process_trees import processes_below
language, code = sys.argv[1:]
limits = SandboxConfig(seconds=4).limits
jail = shell_jail() if language == "bash" else jail_for()
order = dict(backend=f"isolated-{language}", code=code, limits=limits, files=[])
tasks, ended = [], threading.Event()
def count():
    while not ended.is_set():
        number = 0
        for pid in processes_below(__import__("os").getpid()):
            try: number += len(list(Path(f"/proc/{pid}/task").iterdir()))
            except OSError: pass
        tasks.append(number)
        time.sleep(0.005)
thread = threading.Thread(target=count)
thread.start()
stopped = ChildRun(order, {}, jail.child(limits)).outcome()
ended.set()
thread.join()
print(stopped.stopped or stopped.ending["stopped"], max(tasks))
"""


@pytest.mark.weekly
@pytest.mark.spec("P18", "T29")
@pytest.mark.parametrize("user", ["this", "another"])
@pytest.mark.parametrize(
    ("language", "code"), [(language, code) for language, codes in BOMBS.items() for code in codes]
)
def test_a_bomb_never_has_more_tasks_than_the_kernel_allows_beside_busy_loops(
    user: str, language: str, code: str
) -> None:
    need_jails()
    python = sys.executable
    options: dict[str, Any] = {}
    if user == "another":
        python, options = "/usr/bin/python3", {"user": 65_534, "group": 65_534, "extra_groups": []}
        if os.geteuid() or _python_of(python) != sys.version_info[:2]:
            pytest.skip("this test needs root, and another Python of the same version, which everybody may run")
    installed = [*map(str, source_folders()), *(path for path in sys.path if path.endswith("-packages"))]
    environment = {"PYTHONPATH": os.pathsep.join(installed), "PATH": os.environ["PATH"]}
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        done = subprocess.run(
            [python, "-P", "-c", COUNTED, language, code],
            env=environment,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            **options,
        )
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert done.returncode == 0, done.stderr
    stopped, peak = done.stdout.split()
    assert stopped in ("processes", "time")
    assert 2 < int(peak) <= (70 if language == "bash" else 262)  # with bubblewrap's own


def _python_of(program: str) -> tuple[int, ...]:
    code = "import sys; print(*sys.version_info[:2])"
    done = (
        subprocess.run([program, "-c", code], capture_output=True, text=True, check=False)
        if Path(program).exists()
        else None
    )
    return tuple(map(int, done.stdout.split())) if done else ()


@pytest.mark.realtime
@pytest.mark.gate
@pytest.mark.spec("P18", "T29")
def test_code_is_not_run_where_the_kernel_bounds_no_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    need_jails()
    if os.geteuid():
        pytest.skip("this test needs root, whose tasks the kernel does not bound")
    monkeypatch.setattr(jail_users, "_unused_ids", lambda: None)
    with pytest.raises(JailUnavailable, match="does not bound the number of processes"):
        jail._try_out(jail._made(()), [])


@pytest.mark.realtime
@pytest.mark.spec("P18", "T29")
async def test_what_has_ended_does_not_count_for_long_once_the_script_itself_has_ended() -> None:
    code = "{ for i in $(seq 40); do (sleep 0.3 &); done; sleep 1; set -- /proc/[0-9]*; echo $#; } &"
    async with box("bash") as desk:
        result = await run(desk.session, "bash", code)
    assert int(result["stdout"]) < 10


@pytest.mark.realtime
@pytest.mark.spec("P18", "T29")
async def test_memory_that_processes_share_counts_too() -> None:
    code = "import mmap, time\nm = mmap.mmap(-1, 30 << 20)\nfor _ in range(30): m.write(bytes(1 << 20))\ntime.sleep(20)"
    async with box("bash", memory_bytes=64 << 20) as desk:
        result = await run(desk.session, "bash", f"for i in 1 2 3 4; do python3 -c {shlex.quote(code)} & done; wait")
    assert result["stopped"] == "memory"


@pytest.mark.realtime
@pytest.mark.spec("P18", "T29")
async def test_too_many_threads_end_the_run() -> None:
    code = "import _thread, time\n_thread.stack_size(1 << 15)"
    many = "for _ in range(1_500): _thread.start_new_thread(time.sleep, (20,))"
    async with box("cpython") as desk:
        result = await run(desk.session, "cpython", f"{code}\n{many}\ntime.sleep(20)")
    assert result["stopped"] == "processes"
    assert not running(os.getpid())


@pytest.mark.realtime
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


@pytest.mark.realtime
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


@pytest.mark.realtime
@pytest.mark.spec("P18", "T29")
async def test_processes_are_looked_at_no_more_than_a_tenth_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = list[tuple[float, float]]()

    def look(_pid: int) -> list[int]:
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
def test_a_run_whose_memory_grows_quickly_is_ended_without_looking_at_each_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = SandboxConfig(memory_bytes=64 << 20).limits
    order = Order(backend="isolated-bash", code="", limits=limits, files=[])
    sizes = iter([90 << 20, 300 << 20, 500 << 20])
    exact_looks = list[list[int]]()

    def look(pids: list[int]) -> int:
        exact_looks.append(pids)
        return 0

    monkeypatch.setattr(process, "processes_below", lambda _pid: [1])
    monkeypatch.setattr(process, "memory_at_most", lambda _pids: next(sizes))
    monkeypatch.setattr(process, "memory_of", look)
    child = process.ChildRun(order, {})
    verdicts: list[bool] = []
    for _ in range(3):
        child._next_look = 0.0
        verdicts.append(child._exceeds_memory(1))
    assert verdicts == [False, False, True]
    assert len(exact_looks) == 1, "only where the processes may share what they seem to take"


@pytest.mark.realtime
@pytest.mark.spec("P18", "T29")
async def test_code_is_what_the_kernel_ends_first_where_memory_runs_out() -> None:
    async with box("bash") as desk:
        result = await run(desk.session, "bash", "cat /proc/self/oom_score_adj")
    assert result["stdout"] == "1000\n"


@pytest.mark.realtime
@pytest.mark.spec("P18", "T29")
def test_memory_counts_where_its_shares_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Path.read_text

    def without_shares(path: Path) -> str:
        if path.name == "smaps_rollup":
            raise PermissionError
        return read(path)

    size = 20 << 20
    memory = bytearray(b"x" * size)
    monkeypatch.setattr(Path, "read_text", without_shares)
    assert process_trees.memory_of([os.getpid()]) >= size
    del memory
    ended = subprocess.Popen(["true"])
    assert os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT) is not None
    assert process_trees.memory_of([ended.pid]) == 0  # not reaped yet
    ended.wait()
    assert process_trees.memory_of([ended.pid]) == 0


@pytest.mark.realtime
@pytest.mark.spec("P18")
def test_bash_is_not_jailed_where_the_children_of_processes_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    need_jails()
    monkeypatch.setattr(jail, "are_children_listed", lambda: False)
    with pytest.raises(JailUnavailable, match="does not list the children of processes"):
        jail._with_commands(jail._made(()))
