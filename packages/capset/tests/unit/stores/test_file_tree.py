"""The rules of files that no port can reach yet: what is read-only, and that a refusal changes nothing (P22–P25)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from capset.definitions.calls.files import FileQuota, FileStat
from capset.errors import FileError, QuotaExceeded
from capset.stores import file_tree as filetree
from capset.stores.file_tree import TreeNode, Usage
from capset.stores.memory.files import MemoryTree

ALL = ["/a", "/a/b", "/a/b/c", "/a/d"]


def tree(readonly: str = "") -> MemoryTree:
    """Return ``/a/b/c`` and ``/a/d``, perhaps with one read-only entry."""
    rows = MemoryTree()
    for path in ("/a/b/c", "/a/d"):
        filetree.write(rows, path, digest="0" * 64, size=1, now="now")
    if (node := rows.get(readonly)) is not None:
        rows.put(TreeNode(replace(node.stat, is_readonly=True), node.digest))
    return rows


write = partial(filetree.write, digest="1" * 64, size=2, now="later")


def paths(rows: MemoryTree) -> list[str]:
    return [stat.path for stat in filetree.list_directory(rows, "/", recursive=True)]


@pytest.mark.spec("P23")
@pytest.mark.parametrize(
    ("readonly", "path"),
    [("/a/b/c", "/a/b/c"), ("/a/b", "/a/b/c"), ("/a", "/a/b/c"), ("/a", "/a/new"), ("/a/b", "/a/b/new/deep")],
)
def test_a_write_to_what_is_readonly_is_refused(readonly: str, path: str) -> None:
    rows = tree(readonly)
    with pytest.raises(FileError, match=f"cannot write '{path}': '{readonly}' is read-only"):
        write(rows, path)
    assert paths(rows) == ALL
    assert filetree.read(rows.get("/a/b/c"), "/a/b/c")[0].version == 1


@pytest.mark.spec("P23")
@pytest.mark.parametrize(
    ("readonly", "path"), [("/a/b/c", "/a/b/c"), ("/a/b/c", "/a"), ("/a/b/c", "/"), ("/a", "/a/d"), ("/a/b", "/a/b")]
)
def test_deleting_what_is_readonly_or_holds_it_is_refused_whole(readonly: str, path: str) -> None:
    rows = tree(readonly)
    with pytest.raises(FileError, match=f"cannot delete '{path}': '{readonly}' is read-only"):
        filetree.delete(rows, path, recursive=True)
    assert paths(rows) == ALL


def test_what_is_beside_something_readonly_can_be_written_and_deleted() -> None:
    rows = tree(readonly="/a/b")
    stat, old = write(rows, "/a/d")
    assert old == TreeNode(FileStat("/a/d", False, 1, 1, "now", "now"), "0" * 64)
    assert stat == FileStat("/a/d", False, 2, 2, "now", "later")
    assert len(filetree.delete(rows, "/a/d", recursive=False)) == 1


@pytest.mark.spec("P22", "P23")
@pytest.mark.parametrize(
    ("readonly", "source", "target", "verb"),
    [
        *(("/a/b/c", source, "/new", f"move '{source}'") for source in ("/a/b/c", "/a/b", "/a")),
        ("/a", "/a/d", "/new", "move '/a/d'"),
        *(("/a/b", "/a/d", target, f"move to '{target}'") for target in ("/a/b/new", "/a/b/new/deep")),
        ("/a/b/c", "/a/d", "/a/b/c", "overwrite '/a/b/c'"),
    ],
)
def test_nothing_readonly_is_moved_or_moved_to(readonly: str, source: str, target: str, verb: str) -> None:
    rows = tree(readonly)
    with pytest.raises(FileError, match=f"cannot {verb}: '{readonly}' is read-only"):
        filetree.move(rows, source, target, overwrite=True, now="later")
    assert (paths(rows), rows.highest_removed_version()) == (ALL, 0)


@pytest.mark.spec("P25")
@pytest.mark.parametrize(
    ("source", "target", "message", "status"),
    [
        *(
            ("/a", "/a", "'/a' cannot be moved to itself", 400),
            ("/a/d", "/a/d", "'/a/d' cannot be moved to itself", 400),
        ),
        ("/a", "/a/x", r"cannot move '/a' to '/a/x', which is within it$", 400),
        *(("/no", target, r"there is no file or directory '/no'$", 404) for target in ("/no", "/no/x")),
    ],
)
def test_a_move_to_itself_or_within_says_what_is_wrong(source: str, target: str, message: str, status: int) -> None:
    with pytest.raises(FileError, match=f"^{message}") as refused:
        filetree.move(tree(), source, target, overwrite=True, now="later")
    assert refused.value.status == status


@pytest.mark.spec("P25")
def test_a_refused_write_or_move_changes_nothing() -> None:
    rows, full = tree(), FileQuota(session_files=2)
    with pytest.raises(FileError, match="'/a/d' is a file"):
        write(rows, "/a/d/x/y")
    with pytest.raises(QuotaExceeded):
        write(rows, "/x/y/z", quota=full)
    with pytest.raises(QuotaExceeded):
        filetree.move(rows, "/a/d", "/x/y/z", overwrite=False, now="later", quota=full)
    assert (paths(rows), rows.highest_removed_version(), rows.usage()) == (ALL, 0, Usage(2, 2, 2))


@pytest.mark.spec("P22")
@pytest.mark.parametrize(
    ("source", "target", "overwrite", "hint"),
    [
        ("/a/b/c", "/a/d", False, "overwrite=true replaces it"),
        ("/a/b", "/a/d", False, "delete it first, or name another path"),
        ("/a/d", "/a/b", True, "delete it first, or name another path"),
    ],
)
def test_a_target_that_is_taken_says_what_to_do(source: str, target: str, overwrite: bool, hint: str) -> None:
    with pytest.raises(FileError, match=f"there is already .*{target}.*; {hint}"):
        filetree.move(tree(), source, target, overwrite=overwrite, now="later")
