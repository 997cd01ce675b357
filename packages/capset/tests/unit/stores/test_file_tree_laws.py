"""Whatever is done to a session's files, they are what a plain model says, and within their quota (spec 5, P22–P25)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset.definitions.calls.files import FileQuota
from capset.errors import FileError, QuotaExceeded
from capset.stores import file_tree as filetree
from capset.stores.file_tree import Usage
from capset.stores.memory.files import MemoryTree

QUOTA = FileQuota(file_bytes=5, session_bytes=14, session_files=5)

PATHS = st.lists(st.sampled_from(["a", "b", "a0"]), min_size=1, max_size=4).map(lambda names: "/" + "/".join(names))
WRITES = st.tuples(st.just("write"), PATHS, st.integers(0, 6))
DELETIONS = st.tuples(st.just("delete"), PATHS, st.booleans())
MOVES = st.tuples(st.just("move"), PATHS, PATHS, st.booleans())
Step = tuple[str, str, int] | tuple[str, str, bool] | tuple[str, str, str, bool]
STEPS: st.SearchStrategy[list[Step]] = st.lists(st.one_of(WRITES, WRITES, MOVES, DELETIONS), max_size=40)


def above(path: str) -> list[str]:
    """Return the directories that hold a path, without the root."""
    return [str(parent) for parent in PurePosixPath(path).parents][:-1]


@dataclass
class Model:
    """A session's files as sets and dicts: content by path."""

    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    directories: set[str] = field(default_factory=set[str])

    def tree(self, path: str) -> list[str]:
        return [entry for entry in (*self.files, *self.directories) if entry == path or entry.startswith(f"{path}/")]

    def write(self, path: str, content: bytes) -> None:
        self._allow(path not in self.directories and not self.files.keys() & above(path))
        files, directories = {**self.files, path: content}, {*self.directories, *above(path)}
        if len(content) > len(self.files.get(path, b"")) or path not in self.files:
            self._allow(len(content) <= QUOTA.file_bytes, QuotaExceeded)
        self._allow(sum(map(len, files.values())) <= QUOTA.session_bytes, QuotaExceeded)
        self._allow(max(len(files), len(directories)) <= QUOTA.session_files, QuotaExceeded)
        self.files, self.directories = files, directories

    def delete(self, path: str, *, recursive: bool) -> int:
        gone = self.tree(path)
        self._allow(recursive or len(gone) < 2)
        for entry in gone:
            self.files.pop(entry, None)
            self.directories.discard(entry)
        return len(gone)

    def move(self, source: str, target: str, *, overwrite: bool) -> None:
        tree = self.tree(source)
        self._allow(bool(tree) and target not in tree and not target.startswith(f"{source}/"))
        self._allow(not self.files.keys() & above(target))
        self._allow(not self.tree(target) or (overwrite and {source, target} <= self.files.keys()))
        self._allow(len({*self.directories, *above(target)}) <= QUOTA.session_files, QuotaExceeded)
        self.directories |= {*above(target)}
        for entry in tree:
            new = target + entry.removeprefix(source)
            if entry in self.directories:
                self.directories.remove(entry)
                self.directories.add(new)
            else:
                self.files[new] = self.files.pop(entry)

    @staticmethod
    def _allow(is_allowed: bool, error: type[FileError] = FileError) -> None:
        if not is_allowed:
            raise error("not this")


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def do(rows: MemoryTree, model: Model, number: int, step: Step) -> None:
    """Do one step to both, which must agree whether it can be done."""
    now = f"{number:02}"
    match step:
        case ("write", str(path), int(size)):
            content = bytes([number]) * size
            expected = refusal_of(lambda: model.write(path, content))
            write = partial(filetree.write, digest=digest_of(content), size=size, now=now, quota=QUOTA)
            refused = refusal_of(lambda: write(rows, path))
        case ("delete", str(path), bool(recursive)):
            expected = refusal_of(lambda: model.delete(path, recursive=recursive))
            refused = refusal_of(lambda: filetree.delete(rows, path, recursive=recursive))
        case (_, str(source), str(target), bool(overwrite)):
            expected = refusal_of(lambda: model.move(source, target, overwrite=overwrite))
            move = partial(filetree.move, overwrite=overwrite, now=now, quota=QUOTA)
            refused = refusal_of(lambda: move(rows, source, target))
        case _:
            raise AssertionError(step)
    assert refused == expected, step


def refusal_of(act: Callable[[], object]) -> type[FileError] | None:
    try:
        act()
    except FileError as error:
        return type(error)
    return None


def built(steps: Sequence[Step]) -> tuple[MemoryTree, Model]:
    rows, model = MemoryTree(), Model()
    for number, step in enumerate(steps):
        do(rows, model, number, step)
    return rows, model


def contents(rows: MemoryTree) -> dict[str, str | None]:
    entries = filetree.list_directory(rows, "/", recursive=True)
    return {entry.path: node.digest for entry in entries if (node := rows.get(entry.path))}


def times_of(rows: MemoryTree, paths: Iterable[str]) -> dict[str, str]:
    """Return when each of these was made."""
    return {path: stat.created_at for path in paths if (stat := filetree.stat(rows, path))}


@pytest.mark.spec("P22", "P23", "P25")
@given(STEPS)
def test_files_are_what_a_model_says_after_every_step(steps: list[Step]) -> None:
    rows, model = MemoryTree(), Model()
    digest_by_version: dict[tuple[str, int], str | None] = {}
    for number, step in enumerate(steps):
        do(rows, model, number, step)
        digests = {path: digest_of(content) for path, content in model.files.items()}
        entries = contents(rows)
        assert entries == digests | dict.fromkeys(model.directories)
        used = rows.usage()
        assert used == Usage(len(model.files), len(model.directories), sum(map(len, model.files.values())))
        assert max(used.files, used.directories) <= QUOTA.session_files
        assert used.size_bytes <= QUOTA.session_bytes
        for path in entries:
            stat = filetree.stat(rows, path)
            assert stat is not None
            assert digest_by_version.setdefault((path, stat.version), entries[path]) == entries[path]
        for directory in ("/", *model.directories):
            children = [entry.path for entry in filetree.list_directory(rows, directory, recursive=False)]
            within = [entry for entry in entries if str(PurePosixPath(entry).parent) == directory]
            assert children == sorted(within, key=lambda path: (path in model.files, path))


@pytest.mark.spec("P22")
@given(STEPS, PATHS, PATHS)
def test_a_move_is_a_deletion_and_a_write_of_everything(steps: list[Step], source: str, target: str) -> None:
    (rows, model), (other, _) = built(steps), built(steps)
    files = {path: model.files[path] for path in model.tree(source) if path in model.files}
    empty = [path for path in model.tree(source) if path in model.directories and len(model.tree(path)) == 1]
    try:
        filetree.move(rows, source, target, overwrite=True, now="99")
    except FileError:
        return
    filetree.delete(other, source, recursive=True)
    for path, content in files.items():
        new = target + path.removeprefix(source)
        filetree.write(other, new, digest=digest_of(content), size=len(content), now="99")
    if not empty:  # which a write cannot make
        assert contents(rows) == contents(other)
    for path in files:
        new = target + path.removeprefix(source)
        moved, rewritten = filetree.stat(rows, new), filetree.stat(other, new)
        assert moved is not None
        assert moved.modified_at == "99"
        assert rewritten is not None
        assert moved.version == rewritten.version


@pytest.mark.spec("P22")
@given(STEPS, PATHS, PATHS)
def test_a_move_there_and_back_changes_nothing_but_versions(steps: list[Step], source: str, target: str) -> None:
    rows, _ = built(steps)
    before = contents(rows)
    times = times_of(rows, before)
    try:
        filetree.move(rows, source, target, overwrite=False, now="98")
    except FileError:
        assert contents(rows) == before
        return
    filetree.move(rows, target, source, overwrite=False, now="99")
    assert contents(rows) == before | dict.fromkeys(above(target))
    assert times_of(rows, before) == times
