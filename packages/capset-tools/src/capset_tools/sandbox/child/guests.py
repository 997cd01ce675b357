"""The process of the code itself: sets limits and the system call filter, then runs the code in CPython or bash."""

from __future__ import annotations

import ast
import errno
import inspect
import io
import json
import linecache
import mmap
import os
import resource
import signal
import site
import sys
import traceback
from contextlib import suppress
from functools import partial
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Final, NoReturn, cast

from capset_tools.sandbox.child.frames import LOCALES, MOST_TASKS, PACKAGES, Order, RunLimits
from capset_tools.sandbox.child.jail_files import SCRIPT, SCRIPT_LINK, SCRIPTS
from capset_tools.sandbox.child.system_calls import restrict
from capset_tools.sandbox.child.users import bound_tasks

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Sequence

NAME: Final = "<code>"
"""The file name of the code in tracebacks."""
_OPEN_FILES: Final = 64
_TIMERS: Final = 1_024
"""Maximum timers and queued signals. The system counts them per user, who may have others outside the jail."""
_STACK: Final = 1 << 20
"""Address space for the stack of a thread, in bytes."""
_MOST: Final = 1 << 46
_REPORTING: Final = 1 << 25
"""Extra address space, in bytes, to report an error when memory has run out."""
_PACKAGE_SPACE: Final = 1 << 30
"""Extra address space, in bytes, for packages: libraries of numpy and pandas reserve much that they never touch."""
_ENVIRONMENT: Final = {
    "HOME": "/",
    "USER": "user",
    "LANG": "C.UTF-8",
    "LOCPATH": LOCALES,
    "TZ": "UTC",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONTZPATH": "/.runtime/zoneinfo",
}
_NO_THREAD: Final = ("can't start new thread",)
"""The message of CPython's error if the system starts no thread (``Modules/_threadmodule.c``)."""
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def run_guest(order: Order, stdout: int, stderr: int, report: int) -> NoReturn:
    """Run the code in this process, and exit.

    CPython writes its value, its error and the limit that it hit to ``report``; bash closes ``report``.
    """
    status = 1
    try:
        is_bash = order["backend"] == "isolated-bash"
        _take_over_streams(stdout, stderr, None if is_bash else report)
        bound_tasks(MOST_TASKS[order["backend"]])
        if is_bash:
            _become_bash(order["code"], order["limits"])
        _prepare_interpreter()
        make_room = _bound(order["limits"])
        restrict(may_start_processes=False)
        status = _run(order["code"], report, make_room)
    except BaseException:  # preparation failed: the code was not run
        os.write(2, traceback.format_exc().encode(errors="replace"))
        os._exit(70)
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        with suppress(OSError, ValueError, AttributeError):  # the code has closed or replaced it
            cast("io.TextIOWrapper", stream).flush()
    os._exit(status)


def _become_bash(code: str, limits: RunLimits) -> NoReturn:
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
        signal.signal(number, signal.SIG_DFL)
    _bound(limits)
    restrict(may_start_processes=True)
    with open(SCRIPT, "w", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        file.write(code)
    os.chmod(SCRIPTS, 0o500)  # noqa: PTH101  # a file that the script left there would be lost
    environment = _ENVIRONMENT | {"PATH": "/.runtime/bin:/bin:/usr/bin", "PWD": "/"}
    os.execve("/bin/bash", ["bash", SCRIPT_LINK], environment)  # noqa: S606  # what this process is for


def _take_over_streams(stdout: int, stderr: int, report: int | None) -> None:
    """Make the pipes the standard streams, and close all other descriptors except ``report``."""
    nothing = os.open("/dev/null", os.O_RDONLY)
    for descriptor, place in ((nothing, 0), (stdout, 1), (stderr, 2)):
        os.dup2(descriptor, place)
    for descriptor in range(3, _OPEN_FILES):
        if descriptor != report:
            with suppress(OSError):
                os.close(descriptor)


def _prepare_interpreter() -> None:
    """Make this process look like an interpreter that has just started."""
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0)), encoding="utf-8")
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(1, "w")), encoding="utf-8", errors="backslashreplace", line_buffering=True
    )
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(2, "w")), encoding="utf-8", errors="backslashreplace", line_buffering=True
    )
    os.environ.clear()
    os.environ.update(_ENVIRONMENT)
    sys.argv[:] = [""]
    sys.path.append(PACKAGES)
    for add in (site.setquit, site.setcopyright, site.sethelper):  # started without ``site``, and so without exit()
        add()
    for name in [module for module in sys.modules if module.partition(".")[0] == "capset_tools"]:
        del sys.modules[name]
    sys.dont_write_bytecode = True
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _bound(limits: RunLimits) -> Callable[[], None]:
    """Limit this process and its children. Return a function that makes room to report an error."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_OPEN_FILES, _OPEN_FILES))
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
    with suppress(ValueError):  # the host may have set a lower one
        resource.setrlimit(resource.RLIMIT_SIGPENDING, (_TIMERS, _TIMERS))
    seconds = 2 * int(limits["seconds"]) + 2  # CPU time of all threads; the parent measures the real time
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    return _bound_memory(limits["memory_bytes"])


def _bound_memory(size: int) -> Callable[[], None]:
    """Limit this process to ``size`` bytes of address space more than it has, and make thread stacks small.

    The returned function raises the limit, without needing memory itself.
    """
    import threading

    threading.stack_size(_STACK)
    low, high = 0, _MOST
    while high - low > mmap.PAGESIZE:  # there is no /proc to read the current size from
        middle = (low + high) // 2
        resource.setrlimit(resource.RLIMIT_AS, (middle, resource.RLIM_INFINITY))
        try:
            mmap.mmap(-1, mmap.PAGESIZE).close()
        except (OSError, MemoryError):
            low = middle
        else:
            high = middle
    space = _PACKAGE_SPACE if os.path.isdir(PACKAGES) else 0  # noqa: PTH112
    total = high + size + space + _REPORTING
    resource.setrlimit(resource.RLIMIT_AS, (high + size, total))
    if space:
        give_space = partial(resource.setrlimit, resource.RLIMIT_AS, (high + size + space, total))
        sys.meta_path.insert(0, _PackageSpace(give_space))
    return partial(resource.setrlimit, resource.RLIMIT_AS, (total, total))


class _PackageSpace:
    """A module finder that finds nothing, but gives the process more address space once a package is imported.

    From then on, its memory is limited from outside the jail (``process.ChildRun``).
    """

    def __init__(self, give_space: Callable[[], None]) -> None:
        self._names = {name.partition(".")[0] for name in os.listdir(PACKAGES)}  # noqa: PTH208
        self._give_space = give_space

    def find_spec(self, name: str, path: Sequence[str] | None = None, _target: ModuleType | None = None) -> None:
        if path is None and name in self._names:
            self._give_space()


def _run(code: str, report: int, make_room: Callable[[], None]) -> int:
    """Run the code as the module ``__main__``, report its outcome, and return its exit code."""
    main = ModuleType("__main__")
    main.__dict__.update(__builtins__=sys.modules["builtins"], __file__=NAME)
    sys.modules["__main__"] = main
    linecache.cache[NAME] = (len(code), None, code.splitlines(keepends=True), NAME)
    outcome: list[str | None] = [None, None, None]
    status = 0
    try:
        outcome[0] = _value(code, main)
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            status = (ended.code or 0) & 0xFF
        else:
            sys.stderr.write(f"{ended.code}\n")
            status = 1
    except BaseException as error:  # any exception of the code
        make_room()
        outcome[1:], status = [_traceback(error), _limit_of(error)], 1
    try:
        _finish(main)
    except BaseException:  # like CPython, print errors at exit and continue
        traceback.print_exc()
    _report(report, outcome)
    return status


def _value(code: str, main: ModuleType) -> str | None:
    """Run the code, and return the ``repr`` of its last line's value, if that is not ``None``."""
    value: object = None
    loops: list[asyncio.Runner] = []
    try:
        for part, mode in _compiled(code):
            value = eval(part, main.__dict__)  # noqa: S307  # what this process is for
            if part.co_flags & inspect.CO_COROUTINE:
                import asyncio

                loops = loops or [asyncio.Runner()]
                value = loops[0].run(cast("Coroutine[object, object, object]", value))
            value = value if mode == "eval" else None
        return None if value is None else _repr(value)
    finally:
        for loop in loops:
            loop.close()


def _compiled(code: str) -> list[tuple[CodeType, str]]:
    """Compile the code; if its last statement is an expression, compile that separately."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    tree = ast.parse(code, NAME)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        return [(compile(code, NAME, "exec", flags, dont_inherit=True), "exec")]
    tree.body.pop()
    return [
        (compile(tree, NAME, "exec", flags, dont_inherit=True), "exec"),
        (compile(ast.Expression(last.value), NAME, "eval", flags, dont_inherit=True), "eval"),
    ]


def _finish(main: ModuleType) -> None:
    """Wait for threads, run the ``atexit`` callbacks and release all objects, like an interpreter at exit.

    This flushes files that the code left open.
    """
    import atexit
    import gc
    import threading

    for module, name in ((threading, "_shutdown"), (atexit, "_run_exitfuncs")):
        getattr(module, name)()  # what Py_FinalizeEx calls
    sys.last_value = None
    main.__dict__.clear()
    gc.collect()


def _repr(value: object) -> str:
    try:
        return repr(value)
    except (RecursionError, ValueError):  # nested too deeply; more digits than Python writes
        return f"<{type(value).__name__}, too large to be shown>"


def _limit_of(error: BaseException) -> str | None:
    """Return the limit that an uncaught exception stands for, if any.

    The interpreter raises ``MemoryError`` without a message; packages have their own subclasses.
    """
    if isinstance(error, MemoryError) and (type(error) is not MemoryError or not error.args):
        return "memory"
    if isinstance(error, RuntimeError) and error.args == _NO_THREAD:
        return "processes"  # or there was no memory for its stack: the error does not say which
    return "files" if isinstance(error, OSError) and error.errno in _FULL else None


def _traceback(error: BaseException) -> str:
    """Return a traceback of the code's own frames, as CPython prints it."""
    try:
        first = error.__traceback__
        while first is not None and first.tb_frame.f_code.co_filename != NAME:
            first = first.tb_next
        return "".join(traceback.format_exception(type(error), error, first)).rstrip("\n")
    except (MemoryError, RecursionError):
        return type(error).__name__


def _report(report: int, outcome: list[str | None]) -> None:
    """Send the value, the error and the limit of the code."""
    data = json.dumps(outcome).encode()
    with suppress(OSError):  # the code has closed it
        while data:
            data = data[os.write(report, data) :]
