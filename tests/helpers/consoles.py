"""Pages whose shell snippets are run as a reader would: files are written, commands typed, their output compared.

A block with a title (``yaml title="capset.yaml"``) is a file. In a ``text`` or ``console`` block a line after ``$`` is
a command, ``>`` continues it, and the lines up to the next one are what it prints on both streams. A command that
serves stays, and what it prints is compared without its log. An ``sh`` block prints nothing that matters; one that
installs capset is left out, since the tests have it. The reader's own package is installed beside the folder.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from tests.ports import unused_port
from tests.waiting import wait_until

BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
TITLE = re.compile(r'title="([^"]+)"')
SERVES = re.compile(r"capset (?:serve|gateway (?!import))")
CTRL_C = "^C"
"""A block of this alone ends the servers."""
PORT = "8000"
"""The port of servers on the pages; a test takes another."""
_ID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]*…?"
_VOLATILE = {
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?Z?": "TIME",
    r"(?<!fingerprint )(?<!_hash )(?<!_hash\":\")(?<!, )(?<!, as )(?<![\w-])[0-9a-f]{8,}…?(?![\w-])": "HASH",
}
"""What differs from run to run: it has to be there, and may be any such thing. Fingerprints are the same for all."""


@dataclass(frozen=True, slots=True)
class File:
    """A file that the page has its reader write."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Typed:
    """A command that the page has its reader type, and what it prints; ``None`` if the page does not say."""

    command: str
    printed: str | None


def steps(page: Path) -> Iterator[File | Typed]:
    """Yield what a reader of a page does, in order."""
    for language, rest, body in BLOCK.findall(page.read_text(encoding="utf-8")):
        if title := TITLE.search(rest):
            yield File(title[1], body)
        elif language == "sh" and "/capset[" not in body:
            yield Typed(body, None)
        elif body == f"{CTRL_C}\n":
            yield Typed(CTRL_C, None)
        elif language in ("text", "console"):
            yield from _typed(body)


def _typed(body: str) -> Iterator[Typed]:
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, *printed = part.splitlines()
        while printed and printed[0].startswith("> "):
            command += "\n" + printed.pop(0)[2:]
        yield Typed(command, "\n".join(printed) or None)


class Terminal:
    """A shell in an empty folder, with the ids on the page and those that came instead."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ids: dict[str, str] = {}
        self._servers: list[subprocess.Popen[bytes]] = []
        self._port = str(unused_port())
        self._shell = subprocess.Popen(
            ["bash", "--norc"],
            cwd=folder,
            env=self._environ(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )

    def type(self, step: Typed) -> None:
        """Run a command, and compare what it prints. Raises ``AssertionError``."""
        command = self._with_ids(step.command).replace(f":{PORT}", f":{self._port}")
        command = command.replace("pip install -e .", 'uv pip install --quiet --no-deps --target "$PYTHONPATH" .')
        if SERVES.match(command):
            printed = self._serve(command)
            if step.printed is not None:
                self._compare(step, printed)
            return
        if command == CTRL_C:
            self._end_servers()
            return
        printed = self.run(command)
        if step.printed is not None:
            self._compare(step, printed)

    def run(self, command: str) -> str:
        """Run a command, and return what it prints on both streams."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        end = f"end of {uuid4()}"
        self._shell.stdin.write(f"{{ {command}\n}} </dev/null; printf '\\n%s\\n' '{end}'\n")
        self._shell.stdin.flush()
        lines = list(iter(self._shell.stdout.readline, f"{end}\n"))
        return "".join(lines).replace(f":{self._port}", f":{PORT}")

    def _serve(self, command: str) -> str:
        log = self._folder / f"server{len(self._servers)}.log"
        words, environ = [*shlex.split(command), "--port", self._port], self._environ() | self._exported()
        with log.open("wb") as errors:
            server = subprocess.Popen(words, cwd=self._folder, env=environ, stdout=errors, stderr=errors)
        self._servers.append(server)
        wait_until(
            lambda: "serves http://" in log.read_text(encoding="utf-8") or server.poll() is not None,
            f"{command} to serve",
        )
        printed = log.read_text(encoding="utf-8")
        assert server.poll() is None, printed
        lines = [line for line in printed.splitlines() if not line.startswith("{")]
        return "\n".join(lines).replace(f":{self._port}", f":{PORT}")

    def _environ(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("CAPSET_")}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        site = str(self._folder.with_name(f"{self._folder.name}-site"))
        home = {"HOME": str(self._folder), "UV_CACHE_DIR": str(Path.home() / ".cache" / "uv"), "PYTHONPATH": site}
        return inherited | home | {"PATH": path, "NO_PROXY": "*", "COLUMNS": "200", "LANG": "C.UTF-8"}

    def _exported(self) -> dict[str, str]:
        """Return the settings of capset that the reader has exported."""
        lines = self.run("env").splitlines()
        return dict(line.split("=", 1) for line in lines if line.startswith("CAPSET_"))

    def _with_ids(self, command: str) -> str:
        return re.sub(_ID, lambda match: self._ids.get(match[0], match[0]), command)

    def _compare(self, step: Typed, output: str) -> None:
        expected, came = _lines(step.printed or ""), _lines(output)
        same = len(expected) == len(came) and all(map(self._fits, expected, came))
        assert same, f"{step.command}\n--- the page shows\n{step.printed}\n--- it prints\n{output}"

    def _fits(self, expected: str, came: str) -> bool:
        parts = re.split(f"({_ID})|…", expected)
        names = [label for label in parts[1::2] if label]
        pattern = "".join(
            re.escape(_steady(part)) if place % 2 == 0 else (r"([0-9a-f-]{36})" if part else ".*")
            for place, part in enumerate(parts)
        )
        match = re.fullmatch(pattern, _steady(came))
        if match is None:
            return False
        for name, actual in zip(names, match.groups(), strict=True):
            if self._ids.setdefault(name, actual) != actual:
                return False
        return True

    def close(self) -> None:
        """End the shell, and the servers."""
        self._shell.communicate()
        self._end_servers()

    def _end_servers(self) -> None:
        for server in self._servers:
            server.send_signal(signal.SIGINT)
            server.wait(60)
        self._servers.clear()


def follow(page: Path, folder: Path) -> int:
    """Do all that a page says, in an empty folder, and return how many commands it shows with what they print."""
    terminal = Terminal(folder)
    compared = 0
    try:
        for step in steps(page):
            if isinstance(step, File):
                (folder / step.name).parent.mkdir(parents=True, exist_ok=True)
                (folder / step.name).write_text(step.text, encoding="utf-8")
            else:
                terminal.type(step)
                compared += bool(step.printed)
    finally:
        terminal.close()
    return compared


def _lines(text: str) -> Sequence[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def _steady(line: str) -> str:
    for pattern, name in _VOLATILE.items():
        line = re.sub(pattern, name, line)
    return line
