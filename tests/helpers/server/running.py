"""A server that runs: ``capset serve`` as a real process, on a database of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.cli.support import Command, clean_environment
from tests.waiting import wait_until

EVERYTHING = ("capset:admin",)
_ADDRESS = re.compile(r"capset serves (http://\S+)")
_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Running:
    """Where a server is, and the command in its folder and with its database."""

    url: str
    capset: Command
    process: subprocess.Popen[str]
    log: Path

    def key(
        self,
        principal: str = "ada",
        *,
        org: str | None = None,
        grant: Iterable[str] = (),
        scopes: Iterable[str] = ("capset:read", "capset:call"),
    ) -> str:
        """Make an API key with ``capset key create``, and return it."""
        grants = [word for permission in grant for word in ("--grant", permission)]
        scope_options = [word for scope in scopes for word in ("--scope", scope)]
        belongs = ["--org", org] if org is not None else []
        done = self.capset(
            "key", "create", "test", "--principal", principal, *belongs, *grants, *scope_options, "--json"
        )
        assert done.code == 0, done.err
        return done.json["key"]


@contextmanager
def running(folder: Path, *options: str, verb: str = "serve", **environ: str) -> Generator[Running]:
    """Start ``capset serve`` with more options in a folder, and end it: by SIGTERM, with 0 and without a traceback.

    ``verb`` is another command that serves. ``environ`` is added to a clean environment, such as ``PYTHONPATH=…`` for
    packages of one's own; another version of capset may be one of them.
    """
    command = Command(folder, clean_environment(folder, **environ))
    log = folder / "server.log"
    with log.open("wb") as errors:
        # What is warm has imported this version.
        is_another = any(
            (Path(path) / "capset").is_dir() for path in environ.get("PYTHONPATH", "").split(os.pathsep) if path
        )
        start = command.start_anew if is_another else command.start
        process = start(verb, "--port", "0", *options, stdout=subprocess.DEVNULL, stderr=errors)
    try:
        yield Running(address_of(process, log), command, process, log)
        process.send_signal(signal.SIGTERM)
        process.wait(_SECONDS)
    finally:
        process.kill()
        process.wait()
    log_text = log.read_text()
    assert process.returncode == 0, log_text[-5_000:]
    # What a tool's handler raises belongs in the log, on one line; any other traceback is the server's own.
    surprises = [
        line for line in log_text.splitlines() if "Traceback" in line and '"logger":"capset.kernel"' not in line
    ]
    assert surprises == []


def address_of(process: subprocess.Popen[str], log: Path) -> str:
    """Wait until a server has written to its log where it is, and return that; fail at once if it has ended."""

    def addresses() -> list[str]:
        has_ended = process.poll() is not None  # before the log is read, which is whole then
        log_text = log.read_text()
        named = _ADDRESS.findall(log_text)
        assert named or not has_ended, log_text
        return named

    return wait_until(addresses, f"the server to write to {log} where it is")[0]
