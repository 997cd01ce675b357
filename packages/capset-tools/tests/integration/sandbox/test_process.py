"""The child process of a run: it ends with its call, its time and capset, and it is not trusted (spec 5, P18)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from capset.errors import DeadlineExceeded
from capset_tools.sandbox import process
from capset_tools.sandbox.child import frames
from capset_tools.sandbox.child.frames import Order
from capset_tools.sandbox.config import SandboxConfig
from capset_tools.sandbox.process import ChildRun
from tests.helpers.tools.sandbox.support import (
    EACH,
    PYTHONS,
    alive,
    box,
    execute_code,
    named,
    open_files,
    run,
    running,
    seconds_of,
    settings,
    texts,
)
from tests.waiting import until

PROCESSES = {"cpython": 3, "monty": 2, "bash": 4}
"""The processes of a run: of a jail there are bubblewrap, the child, and the code's; bash has its sleep beside."""
SLEEP = {"python": "import time\nopen('/f', 'w').write('x')\ntime.sleep(100)", "bash": "echo x > /f; sleep 100"}


@pytest.mark.realtime
@pytest.mark.spec("P18", "K15", "T29")
@pytest.mark.parametrize("language", EACH)
async def test_a_cancelled_call_takes_its_processes_along(language: str) -> None:
    before = open_files()
    async with box(language, seconds=100) as desk:
        work = asyncio.create_task(run(desk.session, language, SLEEP[named(language)]))
        expected = PROCESSES[language]
        await until(lambda: len(running(os.getpid())) == expected)
        pids = running(os.getpid())
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        await until(lambda: not alive(pids))
        assert await texts(desk.session) == {}
        assert desk.kernel.abandoned == 0
    assert not running(os.getpid())
    assert open_files() <= before


@pytest.mark.realtime
@pytest.mark.spec("P18", "K15")
@pytest.mark.parametrize("language", EACH)
async def test_the_time_of_the_call_is_the_end_of_the_run_too(language: str) -> None:
    async with box(language, seconds=100) as desk:
        code = ":" if language == "bash" else "1"
        await run(desk.session, language, code)  # what a process tries once, its packages, is no part of the run
        with pytest.raises(DeadlineExceeded):
            await desk.session.options(timeout=0.5).call(
                execute_code, language=named(language), code=SLEEP[named(language)]
            )
        assert not running(os.getpid())
        assert await texts(desk.session) == {}
        assert (await run(desk.session, language, code))["exit_code"] == 0


@pytest.mark.realtime
@pytest.mark.spec("P18", "T29")
async def test_an_interpreter_that_dies_is_a_crash_and_nothing_is_kept() -> None:
    async with box("monty", seconds=10) as desk:
        busy = "open('/f', 'w').write('x')\nwhile True: pass"  # what sleeps would be missed only when it wakes up
        work = asyncio.create_task(run(desk.session, "python", busy))
        await until(lambda: len(running(os.getpid())) == 2)
        (inner,) = [pid for pid in running(os.getpid()) if b"monty\0subprocess" in _command(pid)]
        await until(lambda: seconds_of(inner) > 0.3)  # then it has the code: one that has not is replaced by another
        os.kill(inner, signal.SIGKILL)
        result = await work
        assert (result["stopped"], result["exit_code"], result["files"]["kept"]) == ("crash", None, False)
        assert await texts(desk.session) == {}
        assert (await run(desk.session, "python", "1"))["value"] == "1"


def _command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


@pytest.mark.realtime
@pytest.mark.spec("P18")
@pytest.mark.parametrize("python", PYTHONS)
async def test_runs_at_once_have_nothing_to_do_with_each_other(python: str) -> None:
    async with box(python) as desk:
        codes = [f"open('/{number}', 'w').write('{number}')\n{number}" for number in range(8)]
        results = await asyncio.gather(*(run(desk.session, python, code) for code in codes))
        assert [result["value"] for result in results] == [str(number) for number in range(8)]
        assert await texts(desk.session) == {f"/{number}": str(number) for number in range(8)}


@pytest.mark.gate
@pytest.mark.realtime
@pytest.mark.spec("P18", "T29")
@pytest.mark.parametrize("language", EACH)
async def test_a_run_does_not_outlive_capset(language: str) -> None:
    settings(language)  # which skips it where nothing can be jailed
    code = f"""
        from capset_tools.sandbox.backends import backend_for
        from capset_tools.sandbox.process import ChildRun
        from tests.helpers.tools.sandbox.support import settings
        config = settings({language!r}, seconds=100)
        backend, command = backend_for({named(language)!r}, config)
        order = dict(backend=backend, code={SLEEP[named(language)]!r}, limits=config.limits, files=[])
        ChildRun(order, {{}}, command).outcome()
    """
    host = await asyncio.create_subprocess_exec(sys.executable, "-c", textwrap.dedent(code))
    try:
        expected = PROCESSES[language]
        await until(lambda: len(running(host.pid)) == expected)
        pids = running(host.pid)
    finally:
        host.send_signal(signal.SIGKILL)
        await host.wait()
    await until(lambda: not alive(pids))


@pytest.mark.realtime
@pytest.mark.spec("P18", "T29")
async def test_no_more_of_them_run_at_once_than_there_are_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    peak = 0
    code = "import time\ntime.sleep(0.2)\nprint('done')"
    async with box("monty") as desk:
        work = asyncio.gather(*(run(desk.session, "monty", code) for _ in range(4)))
        while not work.done():
            peak = max(peak, len(running(os.getpid())))
            await asyncio.sleep(0.01)
        assert [result["stdout"] for result in await work] == ["done\n"] * 4
    assert 1 <= peak <= 2 * PROCESSES["monty"]


LIAR = """
import struct, sys, time
def say(kind, data): sys.stdout.buffer.write(struct.pack(">cI", kind, len(data)) + data); sys.stdout.flush()
ENDING = b'''{"exit_code": 0, "value": null, "error": null, "stopped": null, "truncated": false,
"deleted": [], "removed": [], "not_shown": {}, "not_kept": {}}'''
"""
LIES = {
    "nonsense": "sys.stdout.write('hello, this is no frame at all' * 1000)",
    "an unknown kind": "say(b'Q', b'x')",
    "no JSON": "say(b'D', b'{')",
    "another ending": "say(b'D', b'{}')",
    "no ending": "say(b'D', b'[1]')",
    "other types": "say(b'D', ENDING.replace(b'[]', b'[1]', 1))",
    "an unknown limit": "say(b'D', ENDING.replace(b'\"stopped\": null', b'\"stopped\": \"luck\"'))",
    "a beginning without end": "\nwhile True: say(b'S', b''); time.sleep(0.01)",
    "many ends": "\nwhile True: say(b'X', b''); time.sleep(0.01)",
    "half a character": r"say(b'D', ENDING.replace(b'null', b'\"\\ud800\"', 1))",
    "half a character in a path": r"say(b'D', ENDING.replace(b'{}', b'{\"/\\udcff\": \"why\"}', 1))",
    "a status that there is not": "say(b'D', ENDING.replace(b'0', b'9' * 4000, 1))",
    "a deep ending": "say(b'D', b'[' * 100_000)",
    "more output than is kept": "say(b'O', b'x' * 1001); say(b'D', ENDING)",
    "a longer value than is kept": "say(b'D', ENDING.replace(b'null', b'\"' + b'x' * 1001 + b'\"', 1))",
    "more files": "[say(b'F', struct.pack('>I', 3) + b'/%02d' % one) for one in range(11)]; say(b'D', ENDING)",
    "larger files": (
        "[say(b'F', struct.pack('>I', 2) + b'/%d' % one + bytes(70_000)) for one in range(3)]; say(b'D', ENDING)"
    ),
    "half a frame": "sys.stdout.buffer.write(struct.pack('>cI', b'O', 1000) + b'x')",
    "half a file": "say(b'F', b'12')",
    "a path that is no text": "say(b'F', struct.pack('>I', 2) + b'\\xff\\xfe' + b'content')",
    "no end of it": "\nwhile True: say(b'O', b'x' * 60000)",
    "nothing": "",
    "an exit": "sys.exit(3)",
    "a crash": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
}


@pytest.mark.realtime
@pytest.mark.spec("P18", "T29")
@pytest.mark.parametrize("lie", LIES)
async def test_a_child_that_lies_is_ended_and_nothing_is_kept(
    lie: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "liar.py").write_text(LIAR + LIES[lie])
    monkeypatch.setattr(process, "_CHILD", str(tmp_path / "liar.py"))
    async with box(
        "monty", output_bytes=1_000, max_files=10, max_bytes=200_000
    ) as desk:  # so that too much is soon said
        await desk.session.files.write("/kept", b"x" * 100_000)
        result = await run(desk.session, "monty", "import os\nos.remove('/kept')")
        assert (result["stopped"], result["exit_code"], result["files"]["kept"]) == ("crash", None, False)
        assert list(await texts(desk.session)) == ["/kept"]
    assert not running(os.getpid())


@pytest.mark.realtime
@pytest.mark.spec("P18")
async def test_what_a_child_was_not_shown_is_not_deleted_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending_code = """ENDING.replace(b'"deleted": []', b'"deleted": ["/a", "/b"]')"""
    ending_code += """.replace(b'"not_shown": {}', b'"not_shown": {"/a": "no"}')"""
    (tmp_path / "other.py").write_text(f"{LIAR}say(b'S', b''); say(b'X', b''); say(b'D', {ending_code})")
    monkeypatch.setattr(process, "_CHILD", str(tmp_path / "other.py"))
    async with box("monty") as desk:
        for path in ("/a", "/b"):
            await desk.session.files.write(path, b"1")
        result = await run(desk.session, "monty", "1")
        assert list(await texts(desk.session)) == ["/a"]
    assert result["files"]["deleted"] == ["/b"]
    assert [entry["path"] for entry in result["files"]["not_kept"]] == ["/a"]


@pytest.mark.realtime
async def test_another_child_that_says_what_a_child_says_is_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other.py").write_text(LIAR + "say(b'S', b''); say(b'O', b'hi'); say(b'X', b''); say(b'D', ENDING)")
    monkeypatch.setattr(process, "_CHILD", str(tmp_path / "other.py"))
    async with box("monty") as desk:
        result = await run(desk.session, "monty", "1")
    assert (result["stopped"], result["exit_code"], result["stdout"]) == (None, 0, "hi")


@pytest.mark.realtime
@pytest.mark.spec("P18", "T29")
def test_a_child_that_says_nothing_has_only_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_START_SECONDS", 0.2)
    (tmp_path / "mute.py").write_text(
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(99)"
    )
    monkeypatch.setattr(process, "_CHILD", str(tmp_path / "mute.py"))
    assert ChildRun(order(), {}).outcome().stopped == "time"
    assert not running(os.getpid())


@pytest.mark.spec("P18")
def test_a_run_that_is_stopped_before_it_begins_starts_nothing() -> None:
    work = ChildRun(order(), {})
    work.stop()
    assert work.outcome().ending is None


@pytest.mark.realtime
@pytest.mark.spec("P18", "T28")
def test_the_child_has_nothing_of_the_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPSET_TEST_SECRET", "hush")
    monkeypatch.setattr(process, "_CHILD", str(tmp_path / "look.py"))
    (tmp_path / "look.py").write_text(
        "import os\nfds = sorted(os.listdir('/proc/self/fd'), key=int)[:-1]\n"
        "seen = dict(os.environ), fds, os.getcwd(), os.getpgid(0) == os.getpid()\n"
        f"open({str(tmp_path / 'seen')!r}, 'w').write(repr(seen))"
    )
    read, write = os.pipe()
    os.set_inheritable(write, True)
    try:
        ChildRun(order(), {}).outcome()
    finally:
        os.close(read)
        os.close(write)
    environment, descriptors, folder, leads = eval((tmp_path / "seen").read_text())
    assert "hush" not in repr(environment)
    assert set(environment) <= {"MALLOC_ARENA_MAX", "LC_CTYPE"}
    assert (descriptors, folder, leads) == (["0", "1", "2"], "/", True)


def limits_of(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()[1:]
    return {line[:25].strip(): line[25:].split()[0] for line in lines}


@pytest.mark.realtime
@pytest.mark.spec("P18", "T28", "T29")
async def test_every_process_of_monty_is_bounded_and_knows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPSET_TEST_SECRET", "hush")
    async with box("monty", seconds=100) as desk:
        work = asyncio.create_task(run(desk.session, "monty", SLEEP["python"]))
        await until(lambda: len(running(os.getpid())) == PROCESSES["monty"])
        await until(lambda: all(limits_of(pid)["Max open files"] == "64" for pid in running(os.getpid())))
        for pid in running(os.getpid()):
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            assert b"hush" not in environment
            assert b"HOME" not in environment
            assert Path(f"/proc/{pid}/cwd").readlink() == Path("/")
            await until(lambda pid=pid: limits_of(pid)["Max address space"] != "unlimited")
            limits = limits_of(pid)
            assert (limits["Max file size"], limits["Max core file size"]) == ("0", "0")
            assert int(limits["Max cpu time"]) == 202
            assert int(limits["Max address space"]) < 1 << 30
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work


@pytest.mark.gate
@pytest.mark.realtime
@pytest.mark.spec("P18", "T28", "T29")
async def test_the_process_of_jailed_code_is_bounded_and_alone_in_its_namespaces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CAPSET_TEST_SECRET", "hush")
    async with box("cpython", seconds=100) as desk:
        work = asyncio.create_task(run(desk.session, "cpython", SLEEP["python"]))
        await until(lambda: len(running(os.getpid())) == PROCESSES["cpython"])
        await until(lambda: any(limits_of(pid)["Max address space"] != "unlimited" for pid in running(os.getpid())))
        (code,) = [pid for pid in running(os.getpid()) if limits_of(pid)["Max address space"] != "unlimited"]
        await until(lambda: limits_of(code)["Max cpu time"] == "202" and status_of(code)["Seccomp"] == "2")
        assert b"hush" not in b"".join(map(environment_of, running(os.getpid())))
        assert status_of(code)["NoNewPrivs"] == "1"
        assert set(status_of(code)["CapEff"]) == set(status_of(code)["CapPrm"]) == {"0"}
        limits = limits_of(code)
        assert (limits["Max open files"], limits["Max core file size"]) == ("64", "0")
        assert limits["Max processes"] == "256"
        assert status_of(code)["Uid"].split()[0] != "0"
        assert int(limits["Max address space"]) < 1 << 30
        for name in ("user", "mnt", "pid", "net", "ipc", "uts"):
            assert Path(f"/proc/{code}/ns/{name}").readlink() != Path(f"/proc/self/ns/{name}").readlink()
        assert not Path(f"/proc/{code}/root/proc").exists()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work


def environment_of(pid: int) -> bytes:
    """Return the environment of a process; nothing of one that only root may look into."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except PermissionError:
        return b""


def status_of(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


@pytest.mark.realtime
@pytest.mark.spec("P18", "T29")
def test_the_childs_limits_are_the_systems_too() -> None:
    code = textwrap.dedent("""
        import os, resource, sys
        from capset_tools.sandbox.child.main import _bound
        _bound(dict(seconds=0.1, memory_bytes=32 << 20, output_bytes=1, max_files=1, max_bytes=1))
        try:
            x = bytearray(1 << 30)
        except MemoryError:
            print("bounded")
        sys.stdout.flush()
        while True: pass
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "bounded\n"
    assert done.returncode in (-signal.SIGXCPU, -signal.SIGKILL)


def test_a_request_that_breaks_off_is_no_request(tmp_path: Path) -> None:
    request = b"".join(frames.request(order([("/a", 3)]), {"/a": b"abc"}))
    (tmp_path / "request").write_bytes(request)
    with (tmp_path / "request").open("rb") as stream:
        assert frames.read_request(stream) == (dict(order(), files=[["/a", 3]]), {"/a": b"abc"})
    for size in (0, 2, 20, len(request) - 1):
        (tmp_path / "request").write_bytes(request[:size])
        with (tmp_path / "request").open("rb") as stream, pytest.raises(EOFError):
            frames.read_request(stream)


def order(files: list[tuple[str, int]] | None = None) -> Order:
    return Order(backend="monty", code="print(1)", limits=SandboxConfig(seconds=1).limits, files=files or [])
