"""Which tests reach which line: measured once and kept, and again for each file of tests that was changed."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Final

from coverage.numbits import numbits_to_nums

from capset.errors import counted
from lab.mutants.tree import Tree

SUITES: Final = "packages/capset-testing/src/capset_testing"
"""Where suites of tests are that files of tests run; a check that is new there is a test that is not measured."""
_LINES: Final = """
SELECT context, numbits FROM line_bits
JOIN context ON context.id = context_id JOIN file ON file.id = file_id WHERE path = ?
"""


class Reach:
    """The tests by the lines that they reach, kept in a folder, of the modules below ``source``.

    A module may have changed since: its lines are found again by their text.
    """

    def __init__(self, folder: Path, source: str) -> None:
        self._folder = folder
        self._source = source
        self._index = folder / "index.json"
        self._known: dict[str, dict[str, Any]] = json.loads(self._index.read_text()) if self._index.exists() else {}
        """By file of tests: the hash of its text, the number of its measurement, and the seconds of each test."""

    def update(self, tree: Tree, files: Iterable[str], say: Callable[[str], None]) -> None:
        """Measure the files of tests that are not known as they are, and forget those that are gone."""
        suites = b"".join(file.read_bytes() for file in sorted((tree.root / SUITES).rglob("*.py")))
        hashes = {name: _hash_of((tree.root / name).read_bytes(), suites) for name in files}
        self._known = {name: entry for name, entry in self._known.items() if name in hashes}
        stale = [name for name, digest in hashes.items() if self._known.get(name, {}).get("hash") != digest]
        if stale:
            files = counted(len(stale), "file")
            say(f"measuring which lines {files} of tests reach; what is known is kept in {self._folder}")
            self._folder.mkdir(parents=True, exist_ok=True)
            number = 1 + max((int(path.stem) for path in self._folder.glob("*.sqlite")), default=0)
            self._measure(tree, stale, number, hashes)
        self._index.write_text(json.dumps(self._known))
        for path in self._folder.glob("[0-9]*"):
            if int(path.stem) not in self._numbers:
                path.unlink()

    def tests_of(self, path: str, lines: range, text: str) -> set[str]:
        """Return the tests that reach some lines of a module whose text this is.

        Of lines that run when the module is imported, and of new ones, those are the tests that reach any of it.
        """
        reached, anywhere, is_open = set[str](), set[str](), False
        for number in self._numbers:
            then = self._lines_then(number, path, lines, text)
            is_open = is_open or not then
            for test, reached_lines in self._rows(number, path):
                if not test:
                    is_open = is_open or not then.isdisjoint(reached_lines)
                elif self._known.get(file_of(test), {}).get("number") == number:
                    anywhere.add(test)
                    if not then.isdisjoint(reached_lines):
                        reached.add(test)
        return anywhere if is_open else reached

    def tests_in(self, file: str) -> Mapping[str, float]:
        """Return the tests of a file, and the seconds that each took."""
        return self._known[file]["seconds"]

    def seconds(self, tests: Iterable[str]) -> float:
        """Return how long some tests took together."""
        return sum(self._known[file_of(test)]["seconds"].get(test, 0.0) for test in tests)

    @property
    def files(self) -> list[str]:
        """The files of tests."""
        return list(self._known)

    @property
    def _numbers(self) -> set[int]:
        return {entry["number"] for entry in self._known.values()}

    def _measure(self, tree: Tree, files: list[str], number: int, hashes: Mapping[str, str]) -> None:
        report_path = self._folder / f"{number}.json"
        tree.measure(self._source, files, report_path)
        seconds: dict[str, float] = json.loads(report_path.read_text())
        modules = sorted((tree.root / self._source).rglob("*.py"))
        report_path.write_text(
            json.dumps({module.relative_to(tree.root).as_posix(): module.read_text("utf-8") for module in modules})
        )
        for name in files:
            file_seconds = {test: took for test, took in seconds.items() if file_of(test) == name}
            self._known[name] = {"hash": hashes[name], "number": number, "seconds": file_seconds}

    def _rows(self, number: int, path: str) -> Iterator[tuple[str, list[int]]]:
        with closing(sqlite3.connect(self._folder / f"{number}.sqlite")) as data:
            for test, numbits in data.execute(_LINES, (path,)):
                yield test, numbits_to_nums(numbits)

    def _lines_then(self, number: int, path: str, lines: range, text: str) -> set[int]:
        texts: dict[str, str] = json.loads((self._folder / f"{number}.json").read_text())
        then, now = texts.get(path, "").splitlines(), text.splitlines()
        if then == now:
            return set(lines)
        blocks = SequenceMatcher(None, then, now, autojunk=False).get_matching_blocks()
        return {start + line - begin for start, begin, size in blocks for line in lines if begin < line <= begin + size}


def _hash_of(text: bytes, suites: bytes) -> str:
    """Return the hash of a file of tests, and of the suites that it runs where it names them."""
    return hashlib.sha256(text + suites if b"capset_testing" in text else text).hexdigest()


def file_of(test: str) -> str:
    """Return the file that a test is in."""
    return test.partition("::")[0]
