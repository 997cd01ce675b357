"""The single run of a child: reads the request, limits the process, runs the code, and sends the result."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from types import FrameType
from typing import BinaryIO, Final

from capset_tools.sandbox.child.frames import DONE, FILE, HEAD, Ending, Order, RunLimits, packed_file, read_request
from capset_tools.sandbox.child.output import LeftFiles, Printer, RunEnded, folders_of, is_scratch

_OPEN_FILES: Final = 64
_BASE: Final = 1 << 28
"""Address space of the Python interpreter before it runs anything, in bytes."""


def main() -> None:
    """Handle the request from stdin, and write the result to stdout."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keep output of libraries out of the frames
    source = os.fdopen(0, "rb")
    order, contents = read_request(source)
    if order["backend"] == "monty":  # a run in a jail watches stdin itself: it forks, so it has no threads
        Thread(target=_end_with_parent, args=(source,), daemon=True).start()

    def send(kind: bytes, payload: bytes) -> None:
        out.write(HEAD.pack(kind, len(payload)) + payload)
        out.flush()

    limits = order["limits"]
    printer = Printer(send, limits["output_bytes"])
    run = _monty if order["backend"] == "monty" else _jailed
    try:
        ending = run(order, contents, printer, send)
    except MemoryError:
        ending = _ending(RunEnded(None, stopped="memory"), printer)
    if ending["value"] is not None:
        ending["value"] = printer.cut(ending["value"].encode(errors="replace"), limits["output_bytes"]).decode()
    if ending["error"] is not None:
        ending["error"] = printer.cut(ending["error"].encode(errors="replace"), limits["output_bytes"]).decode()
    ending["truncated"] = printer.truncated
    send(DONE, json.dumps(ending).encode())
    out.close()
    os._exit(0)  # without waiting for an interpreter's threads


def _jailed(order: Order, contents: dict[str, bytes], printer: Printer, send: Callable[[bytes, bytes], None]) -> Ending:
    """Run code in the jail, send every new or changed file, and return the rest of the result."""
    from capset_tools.sandbox.child.jail_files import SCRIPTS, JailFiles, furnish_shell
    from capset_tools.sandbox.child.jail_runs import run_jailed
    from capset_tools.sandbox.child.users import become_user

    limits = order["limits"]
    become_user("/", SCRIPTS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_OPEN_FILES, _OPEN_FILES))
    if order["backend"] == "isolated-bash":
        furnish_shell()
    files = JailFiles()
    not_shown = files.place(contents)
    visible = {path: content for path, content in contents.items() if path not in not_shown}
    ended, remaining = run_jailed(order, printer, source=0), LeftFiles({}, {}, set())
    if ended.stopped is None:
        try:
            remaining = files.left(limits)
        except OverflowError:
            ended = RunEnded(ended.exit_code, error=ended.error, stopped="files")
    for path in remaining.not_kept.keys() & visible.keys():
        remaining.files[path] = visible[path]  # a path that is no longer a regular file is not deleted either
    ending = _send_changes(ended, visible, remaining.files, remaining.folders, printer, send)
    ending["not_shown"] = not_shown
    ending["not_kept"] = {path: why for path, why in remaining.not_kept.items() if not is_scratch(path)}
    return ending


def _monty(order: Order, contents: dict[str, bytes], printer: Printer, send: Callable[[bytes, bytes], None]) -> Ending:
    from capset_tools.sandbox.child.monty import run_python
    from capset_tools.sandbox.child.tree import FileTree

    limits = order["limits"]
    # SIGTERM also goes to Monty's own process, which this one has to reap.
    signal.signal(signal.SIGTERM, _stay)
    _bound(limits)
    tree = FileTree(contents, max_files=limits["max_files"], max_bytes=limits["max_bytes"])
    ended = run_python(order["code"], tree, limits, printer)
    now = {str(path): bytes(content) for path, content in tree.files.items()} if ended.stopped is None else {}
    return _send_changes(ended, contents, now, set(map(str, tree.folders)), printer, send)


def _send_changes(
    ended: RunEnded,
    before: dict[str, bytes],
    now: dict[str, bytes],
    folders: set[str],
    printer: Printer,
    send: Callable[[bytes, bytes], None],
) -> Ending:
    """Send every new or changed file, and return the rest of the result."""
    ending = _ending(ended, printer)
    if ended.stopped is None:
        for path, content in now.items():
            if before.get(path) != content and (path in before or not is_scratch(path)):
                send(FILE, packed_file(path, content))
        ending["deleted"] = sorted(before.keys() - now.keys())
        were = {folder for path in before for folder in folders_of(path)}
        ending["removed"] = sorted(were - folders, reverse=True)
    return ending


def _ending(ended: RunEnded, printer: Printer) -> Ending:
    return Ending(
        exit_code=ended.exit_code,
        value=ended.value,
        error=ended.error,
        stopped=ended.stopped,
        truncated=printer.truncated,
        deleted=[],
        removed=[],
        not_shown={},
        not_kept={},
    )


def _bound(limits: RunLimits) -> None:
    """Limit the resources of this process and its children; called once the libraries are loaded."""
    for limit in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE):
        resource.setrlimit(limit, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_OPEN_FILES, _OPEN_FILES))
    seconds = 2 * int(limits["seconds"]) + 2  # CPU time of all threads; the parent measures the real time
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    if sys.platform == "linux":  # address space cannot be limited on other systems
        with open("/proc/self/statm") as sizes:  # noqa: PTH123  # loading pathlib takes longer than all the rest
            now = int(sizes.read().split()[0]) * resource.getpagesize()
        max_space = max(now, _BASE) + 2 * limits["memory_bytes"]
        with suppress(ValueError):  # the host may have set a lower one
            resource.setrlimit(resource.RLIMIT_AS, (max_space, max_space))


def _stay(_number: int, _frame: FrameType | None) -> None:
    """Ignore a signal. Unlike ``SIG_IGN``, a handler is not inherited by child processes."""


def _end_with_parent(source: BinaryIO) -> None:
    """Kill this process group once stdin is closed, since the parent then no longer waits."""
    source.read()
    os.killpg(0, signal.SIGKILL)
