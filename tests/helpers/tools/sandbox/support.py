"""Sessions that run code, and a look at the processes that this takes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from capset import Session
from capset.definitions.references import AnyRef
from capset.stores.base import Store
from capset_testing import Desk, session_for
from capset_tools.sandbox import ExecutionResult, SandboxConfig, backends, jail, sandbox
from capset_tools.sandbox.jail import JailUnavailable, shell_jail

(execute_code,) = sandbox.every_tool
PYTHONS = ("cpython", "monty")
LANGUAGES = (*PYTHONS, "bash")
"""The names of languages here."""
EACH = ("cpython", "bash", pytest.param("monty", marks=pytest.mark.nightly))
"""The same as parameters: Monty is tried by ``make nightly``."""
ALL = ("sandbox:execute", "session_files:read", "session_files:write")


@asynccontextmanager
async def box(
    language: str = "cpython",
    *,
    permissions: Iterable[str] = ALL,
    store: str | Store = "memory://",
    **config: Any,
) -> AsyncGenerator[Desk]:
    """Open a session of an agent with a sandbox for a language, of these limits.

    They are 20 s, which no test of anything else needs.
    """
    limits = settings(language, **{"seconds": 20, **config})
    async with session_for(sandbox, permissions=permissions, config=limits, store=store) as desk:
        yield desk


def need_jails() -> None:
    """Skip a test where the system allows no namespaces."""
    try:
        shell_jail()
    except JailUnavailable as error:
        pytest.skip(f"nothing can be jailed here: {error}")


@contextmanager
def without_namespaces(folder: Path) -> Generator[None]:
    """Make this a system that allows no namespaces: its bubblewrap, a program in ``folder``, says so."""
    program = folder / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    program.chmod(0o755)
    caches = (jail._tried, jail._tried_shell, backends._default_packages)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jail, "_bubblewrap", lambda: str(program))
        for cache in caches:
            cache.cache_clear()
        try:
            yield
        finally:
            for cache in caches:
                cache.cache_clear()


def settings(language: str, **config: Any) -> SandboxConfig:
    """Return the settings of a sandbox for a language of a test, which is skipped where nothing can be jailed."""
    backend = "monty" if language == "monty" else "isolated-cpython"
    if backend != "monty":
        need_jails()
    return SandboxConfig.model_validate({"backend": backend, **config})


def configured(language: str) -> AnyRef:
    """Return the sandbox for a language of a test."""
    return sandbox.with_config(settings(language))


def named(language: str) -> str:
    """Return the name that a model has for a language of a test."""
    return "bash" if language == "bash" else "python"


async def run(session: Session, language: str, code: str) -> ExecutionResult:
    return await session.call(execute_code, language=named(language), code=code)


async def texts(session: Session) -> dict[str, str]:
    """Return all of a session's files."""
    paths = [entry.path for entry in await session.files.list(recursive=True) if not entry.is_directory]
    return {path: (await session.files.read(path))[1].decode() for path in paths}


def running(parent: int) -> set[int]:
    """Return the ids of the processes of the sandboxes that a process has started.

    These are its children and what descends from them, and whatever else is in the sessions that they have begun.
    """
    processes = _processes()
    ours = {pid for pid, (above, _) in processes.items() if above == parent and _is_child(pid)}
    sessions, size = frozenset(ours), -1
    while size < len(ours):
        size = len(ours)
        ours |= {pid for pid, (above, session) in processes.items() if above in ours or session in sessions}
    return ours


def alive(pids: Iterable[int]) -> set[int]:
    """Return those that are there still, and no zombies that somebody else has to bury."""
    living: set[int] = set()
    for pid in pids:
        with contextlib.suppress(FileNotFoundError):  # it may end at every moment, also between two looks
            if _status(pid)[0] != "Z":
                living.add(pid)
    return living


def seconds_of(pid: int) -> float:
    """Return the processor time that a process has taken."""
    return sum(map(int, _status(pid)[11:13])) / os.sysconf("SC_CLK_TCK")


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def _processes() -> dict[int, tuple[int, int]]:
    processes: dict[int, tuple[int, int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                status = _status(int(entry.name))
            except OSError:
                continue  # it has ended meanwhile
            processes[int(entry.name)] = int(status[1]), int(status[3])
    return processes


def _status(pid: int) -> list[str]:
    """Return state, parent, group and session of a process, and what follows, or raise `FileNotFoundError`."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except ProcessLookupError as error:
        raise FileNotFoundError(str(error)) from None


def _is_child(pid: int) -> bool:
    try:
        return b"sandbox/child" in Path(f"/proc/{pid}/cmdline").read_bytes()  # that of a jail names it, too
    except OSError:
        return False
