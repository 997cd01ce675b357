"""The command ``capset``: as a real process, or as a function of its arguments where the process is not the subject."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from typer import testing
from typer.main import get_command

from capset_cli.app import app
from tests.helpers.cli.forking import Warm, warm

CAPSET = Path(sys.executable).with_name("capset")
ADD = ("call", "test_math.add", "--args", '{"a": 2, "b": 3}')
_PLAIN = {"stdin", "stdout", "stderr", "env", "errors"}
FILES = ("--grant", "session_files:read", "--grant", "session_files:write")


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON object of ``--json``: alone on its line, and nothing else beside it."""
        lines = self.out.splitlines()
        assert len(lines) == 1, self.out
        parsed = json.loads(lines[0])
        assert isinstance(parsed, dict)
        return parsed

    @property
    def said(self) -> str:
        """What people read on stderr, whichever way it was wrapped."""
        return " ".join(self.err.split())


@dataclass(frozen=True, slots=True)
class Command:
    """The installed command in a folder of its own, without anybody's settings."""

    folder: Path
    environ: Mapping[str, str]

    def start(self, *args: str, **options: Any) -> subprocess.Popen[str]:  # Popen's own options
        """Start it and leave it running.

        It is a process from a warm start; with options that are neither its streams nor its environment, or with what
        Python itself reads there, it is a new interpreter.
        """
        if options.keys() <= _PLAIN and not any(name.startswith("PYTHON") for name in options.get("env", {})):
            return self._warm(args).start(args, **self._options(options))
        return self.start_anew(*args, **options)

    def start_anew(self, *args: str, **options: Any) -> subprocess.Popen[str]:
        """Start it as a new interpreter."""
        return subprocess.Popen([CAPSET, *args], **self._options(options))

    def __call__(self, *args: str, stdin: str | None = None, timeout: float = 60, **options: Any) -> Done:
        """Run it to its end; whatever goes wrong, no traceback is shown. It is started as by ``start``."""
        if stdin is None and not options:
            code, out, err = self._warm(args).run(args, self.folder, self.environ, timeout)
            assert "Traceback" not in f"{out}{err}", err
            return Done(code, out, err)
        stdin_options: dict[str, Any] = {} if stdin is None else {"stdin": subprocess.PIPE}
        with self.start(*args, **stdin_options, **options) as process:
            try:
                out, err = process.communicate(stdin, timeout)
            finally:
                process.kill()
        assert "Traceback" not in f"{out}{err}", err
        return Done(process.returncode, out or "", err or "")

    def anew(self, *args: str) -> Done:
        """Run it to its end as a new interpreter."""
        with self.start_anew(*args) as process:
            out, err = process.communicate(timeout=60)
        return Done(process.returncode, out, err)

    def _warm(self, args: tuple[str, ...]) -> Warm:
        return warm(CAPSET, ENVIRON, doors=bool({*args[:1]} & {"chat", "demo", "gateway", "mcp", "run", "serve"}))

    def _options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        popen_options = {"cwd": self.folder, "text": True, **streams, **options}
        return popen_options | {"env": {**self.environ, **options.get("env", {})}}


def intents_in(folder: Path) -> list[tuple[str, str]]:
    """Return the session and the tool of each call that has begun, as the database of a folder has them.

    Where there is no database yet, none is made.
    """
    address = f"file:{folder}/capset.db?mode=ro"
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(address, uri=True)) as database:
        return database.execute("SELECT session, tool FROM records WHERE phase = 'intent'").fetchall()
    return []


def clean_environment(home: Path, **more: str) -> dict[str, str]:
    """Return the caller's environment without capset's settings, and with a home of its own."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("CAPSET_", "OTEL_", "PYTHON", "XDG_"))
    }
    return {**inherited, "HOME": str(home), **more}


# Typer makes all commands anew for every run, which takes far longer than most of them.
testing._get_command = cache(get_command)

# Before any test has changed the environment.
ENVIRON = tuple(clean_environment(Path("/")).items())

Run = Callable[..., Done]
"""``run(*arguments, stdin=None)``: the command as a function, in this process."""


def run_here(*args: str, stdin: str | None = None) -> Done:
    """Run the command in this process, in the current folder."""
    result = testing.CliRunner().invoke(app, args, input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return Done(result.exit_code, result.stdout, result.stderr)


def install(folder: Path, module: str, code: str, **groups: Mapping[str, str]) -> None:
    """Lay a package with entry points into a folder, as an installer does; the groups are named without ``capset.``."""
    (folder / f"{module}.py").write_text(code, encoding="utf-8")
    metadata = folder / f"{module}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n", encoding="utf-8")
    sections = [
        "\n".join([f"[capset.{group}]", *(f"{name} = {target}" for name, target in points.items())])
        for group, points in groups.items()
    ]
    (metadata / "entry_points.txt").write_text("\n".join(sections), encoding="utf-8")
