"""A copy of the tree, with an environment of its own that imports from it, and tests that run in it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import pytest

_PLUGIN: Final = Path(__file__).with_name("plugin.py")
_SLOWER: Final = 5.0
"""How many times as long as it was measured a test may take."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of some tests; ``test`` is the one that failed, or that hung."""

    kind: Literal["passed", "failed", "hung", "broken"]
    test: str | None = None
    failed: tuple[str, ...] = ()


class Tree:
    """A copy of what git knows of a folder, in another, whose Python imports the copy's packages.

    A test hangs after ``test_seconds``, and a run of tests ``start_seconds`` after it should have ended.
    """

    def __init__(self, root: Path, folder: Path, *, test_seconds: int = 60, start_seconds: float = 60.0) -> None:
        self.root = folder / "tree"
        self._folder = folder
        self._test_seconds = test_seconds
        self._start_seconds = start_seconds
        for path in _files_of(root):
            if (root / path).is_file():
                (self.root / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / path, self.root / path)
        self._python = self._environment()
        self._stamp = time.time()
        (folder / "tmp").mkdir()

    def write(self, path: str, text: str) -> None:
        """Write a file of the copy, at a time of its own: by the time and the size Python knows what it compiled."""
        self._stamp += 10
        (self.root / path).write_text(text, "utf-8")
        os.utime(self.root / path, (self._stamp, self._stamp))

    def measure(self, folder: str, files: Sequence[str], report_path: Path) -> None:
        """Run the tests of some files, and write which of them reached which line to ``report_path``, and beside it.

        Raises ``RuntimeError`` if pytest does not run the tests, such as for a file that cannot be imported.
        """
        marks = "not nightly and not weekly and not clients and not browser"
        code = self._run({"measure": folder, "arguments": ["-m", marks, "--tb=no", *files]}, report_path, None)
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            raise RuntimeError(
                f"expected pytest to run the tests that are measured; it ended with {code}: "
                f"run pytest --collect-only for these files to see why"
            )

    def run(self, tests: Sequence[str], seconds: float, *, at_once: bool = True) -> Outcome:
        """Run some tests, up to the first that fails; ``seconds`` is what they took when they were measured."""
        files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
        options = [*(["-x"] if at_once else []), "--tb=no", "-o", f"timeout={self._test_seconds}"]
        report_path = self._folder / "told.json"
        report_path.unlink(missing_ok=True)
        code = self._run(
            {"tests": list(tests), "arguments": [*options, *files]},
            report_path,
            self._start_seconds + _SLOWER * seconds,
        )
        report: dict[str, Any] = json.loads(report_path.read_text()) if report_path.exists() else {}
        failed, running = tuple[str, ...](report.get("failed", ())), str(report.get("running") or tests[0])
        if code is None:
            return Outcome("hung", running, failed)
        if code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            return Outcome("passed")
        if failed:
            return Outcome("failed", failed[0], failed)
        return Outcome("broken", running)

    def _run(self, payload: dict[str, Any], report_path: Path, seconds: float | None) -> int | None:
        """Return what pytest ended with; ``None`` if it had to be killed, with all that it had started."""
        request = self._folder / "asked.json"
        request.write_text(json.dumps(payload))
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "CI"))}
        environment |= {"TMPDIR": str(self._folder / "tmp"), "VIRTUAL_ENV": str(self._python.parents[1])}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        command = [str(self._python), "-P", str(_PLUGIN), str(request), str(report_path)]
        with subprocess.Popen(
            command,
            cwd=self.root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            try:
                return self._wait(process, report_path, seconds)
            except BaseException as error:
                os.killpg(process.pid, signal.SIGKILL)  # it is its group's first: what the tests started goes too
                if isinstance(error, subprocess.TimeoutExpired):
                    return None
                raise

    def _wait(self, process: subprocess.Popen[bytes], report_path: Path, seconds: float | None) -> int:
        """Wait for pytest, which writes down every test that it starts.

        Raises ``TimeoutExpired`` once its time is up, or one test takes longer than it is given and some more: a change
        may leave tasks that hang where pytest's own timeout cannot end them.
        """
        if seconds is None:
            return process.wait()
        end, stalled = time.monotonic() + seconds, self._test_seconds + self._start_seconds
        while True:
            try:
                return process.wait(1.0)
            except subprocess.TimeoutExpired:
                begun = report_path.stat().st_mtime if report_path.exists() else time.time()
                if time.monotonic() > end or time.time() - begun > stalled:
                    raise

    def _sources(self) -> list[Path]:
        return sorted([*self.root.glob("packages/*/src"), *self.root.glob("src")])

    def _environment(self) -> Path:
        """Make an environment that has what this one has, but the copy's own package; return its Python."""
        prefix, environment = Path(sys.prefix), self.root / ".venv"
        venv.create(environment, with_pip=False, symlinks=True)
        paths = sysconfig.get_paths("venv", vars={"base": str(environment), "platbase": str(environment)})
        installed = dict.fromkeys(sysconfig.get_paths()[name] for name in ("purelib", "platlib"))
        Path(paths["purelib"], "copy.pth").write_text("\n".join([*map(str, self._sources()), *installed]))
        for program in (prefix / "bin").iterdir():
            if not (target := environment / "bin" / program.name).exists():
                if program.read_bytes()[:2] == b"#!":
                    target.write_text(program.read_text().replace(str(prefix), str(environment)))
                    target.chmod(0o755)
                else:
                    target.symlink_to(program)
        return environment / "bin" / "python"


def _files_of(root: Path) -> list[str]:
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    return [name for name in listing.stdout.split("\0") if name]
