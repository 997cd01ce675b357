"""The jail of real interpreters: what it lets code do, what its host allows, and where there is none (spec 5, P18)."""

from __future__ import annotations

import ast
import asyncio
import errno
import os
from contextlib import nullcontext, suppress
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

from capset.errors import ToolError
from capset_tools.sandbox import SandboxConfig, jail, sandbox
from scripts.packages import ROOT
from tests.helpers.tools.sandbox.support import (
    LANGUAGES,
    box,
    execute_code,
    need_jails,
    open_files,
    run,
    running,
    texts,
    without_namespaces,
)
from tests.waiting import until

EXAMPLE = ROOT / "examples/sandbox.py"
BUFFER = "ctypes.create_string_buffer(80)"
ROOT_MOUNT = "ctypes.create_string_buffer(struct.pack('<IIQQ', 24, 0, 2**64 - 1, 0))"
# Each would succeed, or fail with another error, if nothing refused it.
FORBIDDEN = {
    "a process": "os.fork()",
    "a program": "os.execv('/bin/sh', ['sh'])",
    "another program": "import subprocess; subprocess.run(['ls'])",
    "a socket": "import socket; socket.socket()",
    "a socket of packets": "import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    "memory that nothing counts": "os.memfd_create('x')",
    "another root": "os.chroot('/nowhere')",
    "a mount": "call(165, 0, 0, 0, 0, 0)",
    "a namespace": "call(272, 0x10000000)",
    "another's memory": "call(310, 1, 0, 0, 0, 0, 0)",
    "a trace": "call(101, 16, 99_999, 0, 0)",
    "a ring": "call(425, 8, 0)",
    "a key": "call(248, 0, 0, 0, 0, 0)",
    "a program of the kernel": "call(321, 999, 0, 0)",
    "a file of the runtime": "open('/.runtime/bin/x', 'w')",
    "the mode of a device": "os.chmod('/dev/null', 0o666)",
    "the mode of a program": "os.chmod('/.runtime/ld.so', 0o755)",
    "a clock": "call(227, 999, 0)",
    "a lease of a file": "fcntl.fcntl(os.open('/f', os.O_CREAT), 1024, 0)",
    "a larger pipe": "fcntl.fcntl(os.pipe()[1], 1031, 1 << 20)",
    "pages that a pipe holds": "call(278, os.pipe()[1], 0, 0, 0)",
    "a table of futexes": "call(157, 78, 1, 1 << 10, 0, 0)",
    "events of a disk": "call(206, 1, ctypes.addressof(ctypes.c_ulong()))",
    "a socket of datagrams": "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)",
    "a pair of datagrams": "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
    "a socket that listens": "one = socket.socket(socket.AF_UNIX); one.bind('/s'); one.listen()",
    "a watch of files": "call(294, 0)",
    "the mounts of the host": f"call(458, ctypes.addressof({ROOT_MOUNT}), ctypes.addressof({BUFFER}), 10, 0)",
    "all files to the disk": "call(162)",
    "the limits of the first process": "resource.prlimit(1, resource.RLIMIT_NOFILE)",
    "the processors of the first process": "os.sched_setaffinity(1, {0})",
}
OTHERWISE_REFUSED = {
    "a socket": errno.EAFNOSUPPORT,
    "a socket of packets": errno.EAFNOSUPPORT,
    "a file of the runtime": errno.EROFS,  # by its mount, not by the filter
    "the mode of a program": errno.EROFS,
}
CALL = """
import ctypes, errno, fcntl, os, resource, socket, struct
def call(*arguments):
    if os.uname().machine != 'x86_64':
        raise PermissionError(errno.EPERM, 'numbers of another machine')
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(*map(ctypes.c_long, arguments)) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
"""


@pytest.mark.realtime
@pytest.mark.spec("P18", "T28")
async def test_what_jailed_code_has_no_business_with_is_refused_by_the_system() -> None:
    tries = "\n".join(
        f"try:\n    {code}\n    told[{label!r}] = 'allowed'\n"
        f"except OSError as error:\n    told[{label!r}] = error.errno"
        for label, code in FORBIDDEN.items()
    )
    async with box("cpython") as desk:
        result = await run(desk.session, "cpython", f"{CALL}told = {{}}\n{tries}\ntold")
    assert (result["stdout"], result["error"]) == ("", None)
    assert ast.literal_eval(str(result["value"])) == dict.fromkeys(FORBIDDEN, errno.EPERM) | OTHERWISE_REFUSED


@pytest.mark.realtime
@pytest.mark.spec("P18")
async def test_ordinary_python_has_all_that_it_has_elsewhere() -> None:
    code = """
import asyncio, atexit, concurrent.futures, sqlite3, statistics, sys, tempfile, threading, zoneinfo
atexit.register(print, 'at exit')
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    print(sum(pool.map(abs, range(-10, 0))))
print(sqlite3.connect(':memory:').execute('SELECT 1 + 1').fetchone(), zoneinfo.ZoneInfo('Europe/Paris'))
print(await asyncio.sleep(0, 'awaited'), __name__, sys.stdin.read() == '', tempfile.gettempdir())
left = open('/left.txt', 'w')
left.write('not closed')
threading.Thread(target=lambda: print('in a thread')).start()
class Late:
    def __del__(self): print('let go')
late = Late()
statistics.mean([1, 2])
"""
    async with box("cpython") as desk:
        result = await run(desk.session, "cpython", code)
        assert await texts(desk.session) == {"/left.txt": "not closed"}
    assert (result["error"], result["value"], result["backend"]) == (None, "1.5", "isolated-cpython")
    lines = result["stdout"].splitlines()
    assert lines[:3] == ["55", "(2,) Europe/Paris", "awaited __main__ True /tmp"]
    assert sorted(lines[3:]) == ["at exit", "in a thread", "let go"]


@pytest.mark.realtime
@pytest.mark.spec("P18")
@pytest.mark.parametrize(
    ("code", "status", "stderr"),
    [
        ("import sys; sys.exit(3)", 3, ""),
        ("raise SystemExit('bye')", 1, "bye\n"),
        ("import os; os._exit(4)", 4, ""),
        ("import os; os.close(1); os.close(2); os.closerange(3, 64)", 0, ""),
        ("exit(5)", 5, ""),
        ("quit('bye')", 1, "bye\n"),
    ],
)
async def test_code_ends_as_it_says(code: str, status: int, stderr: str) -> None:
    async with box("cpython") as desk:
        result = await run(desk.session, "cpython", f"open('/f', 'w').close()\n{code}")
    assert (result["exit_code"], result["stderr"], result["error"]) == (status, stderr, None)
    assert result["files"]["created"] == ["/f"]


@pytest.mark.realtime
@pytest.mark.spec("P18")
async def test_python_has_its_help_and_its_locale() -> None:
    code = """
import locale
help(len)
print(locale.setlocale(locale.LC_ALL, ''), locale.strxfrm('é') > locale.strxfrm('z'))
print(all(map(callable, (exit, quit, copyright, credits, license))))
"""
    async with box("cpython") as desk:
        result = await run(desk.session, "cpython", code)
    assert result["error"] is None
    assert "len(obj, /)" in result["stdout"]
    assert result["stdout"].splitlines()[-2:] == ["C.UTF-8 True", "True"]


@pytest.mark.realtime
@pytest.mark.spec("P18")
async def test_bash_and_its_commands_count_letters_and_not_bytes() -> None:
    code = """
x="éa"; echo "${#x} ${x:0:1} ${x^^}"
echo "$x" | sed 's/./*/g'; printf '%s' "$x" | wc -m; echo "$x" | rev; touch é; echo ?
env -i LANG=C bash -c 'x="éa"; echo ${#x}'
"""
    async with box("bash") as desk:
        result = await run(desk.session, "bash", code)
    assert (result["stdout"].split(), result["stderr"]) == (["2", "é", "ÉA", "**", "2", "aé", "é", "3"], "")


@pytest.mark.realtime
@pytest.mark.spec("P18")
async def test_bash_is_refused_where_it_would_count_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    need_jails()
    tried = (jail._tried, jail._tried_shell)
    monkeypatch.setattr(jail, "_LOCALES", ())
    for probe in tried:
        probe.cache_clear()
    try:
        async with box("monty", backend="auto") as desk:
            result = await desk.session.try_call(execute_code, language="bash", code="echo 1")
    finally:
        for probe in tried:
            probe.cache_clear()
    assert isinstance(result.error, ToolError)
    assert result.error.code == "sandbox_unavailable"
    assert "bash counts bytes, not letters: the locale C.UTF-8 is missing" in result.error.message


@pytest.mark.realtime
@pytest.mark.spec("P18")
async def test_bash_has_substitutions_of_processes_python_and_a_script_of_any_length() -> None:
    code = (
        "diff <(echo a) <(echo b) | head -1; python3 -c 'import json; print(json.dumps([1]))'; whoami; "
        "awk 'BEGIN {print 19.99 * 3}'"
    )
    async with box("bash") as desk:
        result = await run(desk.session, "bash", code + "\n" + "# a long comment\n" * 12_000 + "echo end; exit 5")
    assert result["stdout"].splitlines() == ["1c1", "[1]", "user", "59.97", "end"]
    assert (result["exit_code"], result["backend"]) == (5, "isolated-bash")


@pytest.mark.realtime
@pytest.mark.spec("P18")
async def test_a_script_lies_where_the_files_are_and_is_none_of_them() -> None:
    code = (
        'cd "$(dirname "$0")"; [[ "${BASH_SOURCE[0]}" == "$0" ]] && cat notes > copy; find . -maxdepth 1 -type f\n'
        'cd "$(dirname "$(realpath "$0")")"; echo lost > here; nowhere'
    )
    async with box("bash", max_files=3) as desk:
        await desk.session.files.write("/notes", b"noted")
        result = await run(desk.session, "bash", code)
        assert await texts(desk.session) == {"/notes": "noted", "/copy": "noted"}
        await desk.session.files.write("/.script", b"theirs")
        second_run = await run(desk.session, "bash", 'echo over > "$0"; rm "$0"')
        assert (await texts(desk.session))["/.script"] == "theirs"
    assert sorted(result["stdout"].split()) == ["./copy", "./notes"]
    assert result["stderr"].splitlines() == [
        "/.script: line 2: here: Permission denied",
        "/.script: line 2: nowhere: command not found",
    ]
    assert [entry["path"] for entry in second_run["files"]["not_shown"]] == ["/.script"]
    assert (second_run["files"]["deleted"], second_run["files"]["not_kept"]) == ([], [])


@pytest.mark.realtime
@pytest.mark.spec("P18", "T28")
async def test_nothing_of_the_system_can_be_written_through_proc_or_a_device() -> None:
    code = (
        "find /proc -not -path '/proc/[0-9]*' -writable -not -type l 2>/dev/null; "
        "(: >> /proc/sys/kernel/core_pattern) 2>/dev/null && echo a setting; "
        "chmod 666 /dev/null 2>/dev/null && echo a device; echo gone > /dev/null; echo end > >(cat); sleep 0.1"
    )
    async with box("bash") as desk:
        result = await run(desk.session, "bash", code)
    assert (result["stdout"], result["exit_code"]) == ("end\n", 0)


@pytest.mark.realtime
@pytest.mark.spec("P18", "T28")
async def test_code_in_bash_learns_no_path_of_the_host_from_the_mounts() -> None:
    names = "{mountinfo,mounts,mountstats}"
    code = (
        f"cat /proc/mounts /proc/swaps /proc/{{self,thread-self,1}}/{names} /proc/self/task/*/{names} 2> /dev/null; "
        "grep -h '^Cap[EPA]' /proc/1/status /proc/self/status | tr -d '\\t0' | sort -u; diff <(echo a) <(echo a); pwd; "
        "echo kept > /f; echo out > /dev/stdout"
    )
    async with box("bash") as desk:
        result = await run(desk.session, "bash", code)
        assert await texts(desk.session) == {"/f": "kept\n"}
    assert result["stdout"].splitlines() == ["CapAmb:", "CapEff:", "CapPrm:", "/", "out"]
    assert str(Path(os.__file__).parent) not in result["stdout"] + result["stderr"]


@pytest.mark.realtime
@pytest.mark.spec("P18", "T28")
async def test_code_in_bash_has_nothing_of_the_first_process_nor_of_what_only_root_may_read() -> None:
    code = (
        "for name in environ maps mem fd/0 fd/1 fd/2 fd/3 fd/4; do (exec 9<> /proc/1/$name) 2>/dev/null && echo $name; "
        "(exec 9< /proc/1/$name) 2>/dev/null && echo $name; done; "
        "cd /proc; head -qc 1 cmdline keys kpagecgroup kpagecount kpageflags pagetypeinfo slabinfo timer_list "
        "vmallocinfo 2>/dev/null; echo end"
    )
    async with box("bash") as desk:
        result = await run(desk.session, "bash", code)
    assert result["stdout"] == "end\n"


@pytest.mark.realtime
@pytest.mark.spec("P18")
@pytest.mark.parametrize("language", ["cpython", "bash"])
async def test_paths_that_are_no_text_are_named_and_not_kept(language: str) -> None:
    code = {
        "cpython": "import os\nos.symlink('/x', b'/l\\xff')\nos.mkdir(b'/\\xfe')\n"
        "for name in (b'/\\xfe/f', b'/f\\xfd', '/f'): open(name, 'w').write('1')",
        "bash": "ln -s /x $'/l\\xff'; mkdir $'/\\xfe'; echo 1 > $'/\\xfe/f'; echo 1 > $'/f\\xfd'; printf 1 > /f",
    }[language]
    async with box(language) as desk:
        result = await run(desk.session, language, code)
        assert await texts(desk.session) == {"/f": "1"}
    assert [entry["path"] for entry in result["files"]["not_kept"]] == ["/f\ufffd", "/l\ufffd", "/\ufffd/f"]


@pytest.mark.realtime
@pytest.mark.spec("P18")
async def test_python_imports_the_packages_that_its_host_names_and_no_others() -> None:
    async with box("cpython", packages=["PyYAML"]) as desk:
        outcome = await run(
            desk.session, "cpython", "import yaml\nprint(yaml.safe_load('a: [1]'), yaml.__with_libyaml__)"
        )
        other = await run(desk.session, "cpython", "import pydantic")
    assert (outcome["stdout"], outcome["error"]) == ("{'a': [1]} True\n", None)
    assert "ModuleNotFoundError: No module named 'pydantic'" in str(other["error"])


@pytest.mark.nightly
@pytest.mark.realtime
@pytest.mark.spec("P18")
async def test_numpy_and_pandas_compute_in_the_jail_without_configuration() -> None:
    pytest.importorskip("pandas")
    code = (
        "import numpy, pandas\nones = numpy.ones((500, 500))\n"
        "print(numpy.arange(4).sum(), (ones @ ones)[0, 0], pandas.DataFrame({'a': [1, 2]}).a.mean())"
    )
    async with box("cpython") as desk:
        outcome = await run(desk.session, "cpython", code)
        large = await run(desk.session, "cpython", "import numpy\nones = numpy.ones(1 << 26)\nwhile True: pass")
        system_text = await desk.session.system_text()
    assert (outcome["stdout"], outcome["error"]) == ("6 500.0 1.5\n", None)
    assert large["stopped"] == "memory"
    assert "Of others there are: numpy, pandas." in system_text


@pytest.mark.realtime
@pytest.mark.spec("P18")
async def test_code_without_packages_has_no_more_memory_where_there_are_some() -> None:
    pytest.importorskip("pandas")
    code = "try:\n    large = bytearray(256 << 20)\nexcept MemoryError:\n    print('none')"
    async with box("cpython") as desk:
        outcome = await run(desk.session, "cpython", code)
        none = await desk.session.call(
            execute_code, language="python", code="import importlib.util\nimportlib.util.find_spec('numpy') is None"
        )
    async with box("cpython", packages=[]) as desk:
        other = await run(desk.session, "cpython", "import numpy")
    assert (outcome["stdout"], outcome["stopped"], none["value"]) == ("none\n", None, "False")
    assert "No module named 'numpy'" in str(other["error"])


@pytest.mark.spec("P18")
@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"packages": ["nowhere-to-be-found"]}, "the package 'nowhere-to-be-found' is not installed here"),
        ({"packages": ["pytest-timeout"], "backend": "monty"}, "imports no packages"),
    ],
)
async def test_a_package_that_cannot_be_had_is_named_and_nothing_is_run(config: dict[str, Any], expected: str) -> None:
    async with box("monty", **{"backend": "auto", **config}) as desk:
        result = await desk.session.try_call(execute_code, language="python", code="open('/f', 'w')")
        assert await texts(desk.session) == {}
    assert isinstance(result.error, ToolError)
    assert (result.error.code, result.error.status) == ("sandbox_unavailable", 422)
    assert expected in result.error.message


@pytest.mark.realtime
@pytest.mark.spec("P18")
async def test_where_there_are_no_namespaces_python_is_a_subset_and_bash_is_refused_in_a_sentence(
    tmp_path: Path,
) -> None:
    with without_namespaces(tmp_path):
        async with box("monty", backend="auto") as desk:
            python = await run(desk.session, "python", "1 + 1")
            bash = await desk.session.try_call(execute_code, language="bash", code="echo 1")
            system_text = await desk.session.system_text()
        assert (python["value"], python["backend"]) == ("2", "monty")
        assert isinstance(bash.error, ToolError)
        assert (bash.error.code, bash.error.status) == ("sandbox_unavailable", 422)
        assert bash.error.message == (
            "The sandbox runs bash only in a jail, and has none here (CPython does not run in namespaces of its own "
            "here: bwrap: No permissions to create new namespace): a jail takes Linux with bash, bubblewrap, and user "
            "namespaces for the user of the capset process. Nothing was run."
        )
        assert "A subset of Python" in system_text
        assert bash.error.message in system_text
        assert sandbox.readiness is not None
        assert sandbox.readiness() == {"python": "monty", "bash": bash.error.message}
        async with box("monty", backend="isolated-cpython") as desk:
            refused = await desk.session.try_call(execute_code, language="python", code="1")
    assert isinstance(refused.error, ToolError)
    assert "The sandbox cannot run CPython here: CPython does not run in namespaces" in refused.error.message


@pytest.mark.realtime
@pytest.mark.spec("P18")
@pytest.mark.parametrize("has_namespaces", [True, False])
async def test_bash_is_refused_where_the_sandbox_is_set_to_monty(*, has_namespaces: bool, tmp_path: Path) -> None:
    with nullcontext() if has_namespaces else without_namespaces(tmp_path):
        async with box("monty") as desk:
            await desk.session.files.write("/f", b"1")
            python = await run(desk.session, "python", "open('/f').read()")
            bash = await desk.session.try_call(execute_code, language="bash", code="rm /f")
            system_text = await desk.session.system_text()
            assert await texts(desk.session) == {"/f": "1"}
    assert (python["value"], python["backend"]) == ("'1'", "monty")
    assert isinstance(bash.error, ToolError)
    assert (bash.error.code, bash.error.status) == ("sandbox_unavailable", 422)
    assert bash.error.message == (
        "The sandbox runs bash only in a jail, and is set to monty, which has none: set its backend to auto, on Linux "
        "with bash, bubblewrap, and user namespaces for the user of the capset process. Nothing was run."
    )
    assert bash.error.message in system_text


@pytest.mark.realtime
def test_the_example_says_that_there_are_no_namespaces_and_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with without_namespaces(tmp_path):
        run_path(str(EXAMPLE), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "This machine has no namespaces to run bash in, so only Python is shown, by monty."
    assert lines[1] == "python: 42 ['/total.txt']"
    assert [line.partition(":")[0] for line in lines[2:]] == ["refused", "memory", "still there", "on record"]
    assert lines[-1] == "on record: 3 True"


@pytest.mark.realtime
@pytest.mark.spec("P18")
def test_what_there_is_on_a_machine_is_said_to_operators() -> None:
    need_jails()
    assert sandbox.readiness is not None
    assert sandbox.readiness() == {"python": "isolated-cpython", "bash": "isolated-bash"}
    assert SandboxConfig().backend == "auto"


WRITES = "open('/tmp/x', 'w').write('1')"


@pytest.mark.nightly
@pytest.mark.realtime
@pytest.mark.timeout(400)
@pytest.mark.spec("P18", "T29")
@pytest.mark.parametrize("language", LANGUAGES)
async def test_nothing_survives_two_hundred_runs(language: str) -> None:
    code = "echo 1 > /tmp/x; sleep 9 >&- 2>&- &" if language == "bash" else WRITES
    async with box(language) as desk:
        await run(desk.session, language, code)
        before = (open_files(), namespaces(), mounts(), temporary())
        for _ in range(20):
            outcomes = await asyncio.gather(*(run(desk.session, language, code) for _ in range(10)))
            assert {outcome["exit_code"] for outcome in outcomes} == {0}
        assert await texts(desk.session) == {}
    assert not running(os.getpid())
    assert open_files() <= before[0]
    assert mounts() == before[2]
    # What other tests of this machine have at this moment is gone soon; what these runs had left would stay.
    leftovers = (namespaces() - before[1], temporary() - before[3])
    await until(lambda: not leftovers[0] & namespaces() and not leftovers[1] & temporary())


def namespaces() -> set[str]:
    """Return the namespaces in which there is any process."""
    links: set[str] = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it may end at any moment
            links.update(str(entry.readlink()) for entry in (process / "ns").iterdir())
    return links


def mounts() -> str:
    return Path("/proc/self/mountinfo").read_text()


def temporary() -> set[str]:
    return {entry.name for entry in Path("/tmp").iterdir() if "bwrap" in entry.name or "capset" in entry.name}
