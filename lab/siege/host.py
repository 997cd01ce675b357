"""A folder with a database, and the commands that run there: keys, checks, and servers as processes of their own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from lab.siege.tools import ENTRY_POINTS, METADATA

_SERVES = re.compile(r"serves http://127.0.0.1:(\d+)")
_WORKS = re.compile(r"works on (\S+)")
_SECONDS = 120.0
SLACK_SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
"""The secret of the attacker's app in Slack."""
FILES = ("session_files:read", "session_files:write")
SCOPES = ("capset:read", "capset:call", "capset:write", "capset:audit", "capset:approve")


@dataclass(frozen=True, slots=True)
class Server:
    """The port and the process of a server."""

    port: int
    pid: int


@dataclass(frozen=True, slots=True)
class Host:
    """A folder, and the environment of what runs there."""

    folder: Path
    environ: dict[str, str]

    @classmethod
    def of(cls, folder: Path, url: str) -> Self:
        """Return a host whose commands use a database and find the capabilities of ``lab.siege.tools``."""
        info = folder / "site/capset_siege-1.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(METADATA)
        (info / "entry_points.txt").write_text(ENTRY_POINTS)
        environ = {
            "PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8", "CAPSET_DB": url,
            "PYTHONPATH": os.pathsep.join((str(folder / "site"), str(Path(__file__).parents[2]))),
            "SIEGE_SLACK": SLACK_SECRET,
        }  # fmt: skip
        return cls(folder, environ)

    def run(self, *words: str) -> str:
        """Run a command of ``capset`` and return what it prints. Raises ``RuntimeError`` if it fails."""
        done = subprocess.run(
            _capset(*words), cwd=self.folder, env=self.environ, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"capset {' '.join(words)} ended with {done.returncode}: {done.stderr[-2000:]}")
        return done.stdout

    def make_key(
        self,
        principal: str,
        *,
        org: str | None,
        scopes: Iterable[str] = SCOPES,
        grants: Iterable[str] = FILES,
        usage: Iterable[str] = (),
    ) -> str:
        """Create an API key and return it."""
        words = ["--principal", principal, *([] if org is None else ["--org", org])]
        words += [word for scope in scopes for word in ("--scope", scope)]
        words += [word for grant in grants for word in ("--grant", grant)]
        words += [word for limit in usage for word in ("--usage-limit", limit)]
        return json.loads(self.run("key", "create", principal, *words, "--json"))["key"]

    @contextmanager
    def serving(self, name: str, *options: str) -> Generator[Server]:
        """Start a server, and end it."""
        with self._started(name, "serve", "--port", "0", *options) as process:
            yield Server(int(_line(process, self._log(name), _SERVES)), process.pid)

    @contextmanager
    def working(self, name: str, *options: str) -> Generator[int]:
        """Start a worker, yield its process once it works, and end it."""
        with self._started(name, "worker", *options) as process:
            _line(process, self._log(name), _WORKS)
            yield process.pid

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    @contextmanager
    def _started(self, name: str, *words: str) -> Generator[subprocess.Popen[bytes]]:
        with self._log(name).open("wb") as errors:
            process = subprocess.Popen(_capset(*words), cwd=self.folder, env=self.environ, stdout=errors, stderr=errors)
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
            process.terminate()
            try:
                process.wait(_SECONDS)
            finally:
                process.kill()
                process.wait()


def _capset(*words: str) -> list[str]:
    return [sys.executable, "-c", "from capset_cli import main; main()", *words]


def _line(process: subprocess.Popen[bytes], log: Path, pattern: re.Pattern[str]) -> str:
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        if match := pattern.search(log.read_text()):
            return match[1]
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise RuntimeError(f"{log.stem} did not start: {log.read_text()[-2000:]}")
