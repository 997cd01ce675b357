"""Bash code, run by bashkit: an interpreter in this process, with its own files in memory."""

from __future__ import annotations

from functools import partial
from typing import Final

from bashkit import Bash, BuiltinContext, BuiltinResult, ExecutionProfile, FileSystem

from capset.builtin.sandbox.child.frames import RunLimits, Stopped
from capset.builtin.sandbox.child.output import LeftFiles, Printer, RunEnded

_COUNT: Final = 1_000_000_000
"""Maximum commands and loop iterations of a run; the real limit is its time."""
_MEMORY: Final = ("memory limit", "budget exhausted", "value size limit", "string size limit")
_FILES: Final = ("file too large", "filesystem full", "too many files", "file count")


_WRONG: Final = {"bc": "awk 'BEGIN {print 19.99 * 3}'"}
"""Commands that compute wrongly without a word, and what to write instead."""


def _refused(name: str, instead: str, _context: BuiltinContext) -> BuiltinResult:
    return BuiltinResult(stderr=f"{name}: it is not in this sandbox; write, such as, {instead}\n", exit_code=127)


class _TooMuchOutput(Exception):
    pass


class Shell:
    """One interpreter with the files of a run."""

    def __init__(self, contents: dict[str, bytes], limits: RunLimits, printer: Printer) -> None:
        self._limits = limits
        self._printer = printer
        self._bash = Bash(
            cwd="/",
            env={"HOME": "/"},
            timeout_seconds=limits["seconds"],
            max_memory=limits["memory_bytes"],
            max_commands=_COUNT,
            max_loop_iterations=_COUNT,
            profile=ExecutionProfile.Interactive,
            custom_builtins={name: partial(_refused, name, instead) for name, instead in _WRONG.items()},
        )
        self._fs: FileSystem = self._bash.fs()
        self._own = dict(self._walk())
        self.not_shown: dict[str, str] = {}
        for path, content in contents.items():
            try:
                self._fs.mkdir(path.rpartition("/")[0] or "/", recursive=True)
                self._fs.write_file(path, content)
                if self._fs.read_file(path) != content:
                    raise RuntimeError("this name has a meaning of its own in bash")
            except RuntimeError as error:
                self.not_shown[path] = str(error)

    def run(self, code: str) -> RunEnded:
        """Run code and return how it ended."""
        self._printer.start()
        try:
            result = self._bash.execute_sync(code, on_output=self._on_output)
        except _TooMuchOutput:
            return RunEnded(None, stopped="output")
        finally:
            self._printer.end()
        return RunEnded(result.exit_code, error=result.error, stopped=_limit(result.error or ""))

    def left(self) -> LeftFiles:
        """Return the current files. Links and pipes are listed by name: a session's files have none.

        Raises ``OverflowError`` if they are more, or larger, than a run may have.
        """
        left, size = LeftFiles({}, {}, set()), 0
        for path, kind in self._walk():
            if kind == "directory":
                left.folders.add(path)
            if kind == "directory" or self._own.get(path) == kind:
                continue
            if kind != "file":
                left.not_kept[path] = f"it is no regular file, but a {kind}"
            else:
                left.files[path] = self._fs.read_file(path)
                size += len(left.files[path])
            if len(left.files) + len(left.not_kept) > self._limits["max_files"] or size > self._limits["max_bytes"]:
                raise OverflowError("too many files, or too large")
        return left

    def _on_output(self, stdout: str, stderr: str) -> None:
        may_go_on = self._printer.write("stdout", stdout)
        if not (self._printer.write("stderr", stderr) and may_go_on):
            raise _TooMuchOutput

    def _walk(self) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        folders = [""]
        while folders:
            folder = folders.pop()
            for entry in self._fs.read_dir(folder or "/"):
                path, kind = f"{folder}/{entry['name']}", str(entry["metadata"]["file_type"])
                found.append((path, kind))
                if kind == "directory":
                    folders.append(path)
        return found


def _limit(error: str) -> Stopped | None:
    """Return the limit that an error of the interpreter indicates."""
    if "execution timeout" in error:
        return "time"
    if any(words in error for words in _MEMORY):
        return "memory"
    return "files" if any(words in error for words in _FILES) else None
