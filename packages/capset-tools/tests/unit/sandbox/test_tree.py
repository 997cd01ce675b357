"""The tree that Python code sees behaves as a real file system does, and has an end (spec 5, P18)."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset_tools.sandbox.child.tree import FileTree, TreeFull

PLACES = st.lists(st.sampled_from("ab"), min_size=1, max_size=3).map("/".join)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), PLACES, st.binary(max_size=3)),
        st.tuples(st.just("append"), PLACES, st.binary(max_size=3)),
        st.tuples(st.sampled_from(["mkdir", "parents", "unlink", "rmdir", "read", "names"]), PLACES, st.just(b"")),
        st.tuples(st.just("rename"), PLACES, PLACES),
    ),
    max_size=25,
)


@pytest.mark.spec("P18")
@given(STEPS)
def test_it_does_what_a_file_system_does(steps: list[tuple[str, str, str | bytes]]) -> None:
    tree = FileTree({"/w/a/b": b"1"}, max_files=1_000, max_bytes=1_000_000)
    with TemporaryDirectory() as folder:
        root = Path(folder) / "w"
        (root / "a").mkdir(parents=True)
        (root / "a" / "b").write_bytes(b"1")
        for operation, path, other in steps:
            assert in_tree(tree, operation, PurePosixPath("/w", path), other) == on_disk(
                root, operation, path, other
            ), (
                operation,
                path,
            )
        real = {f"/w/{entry.relative_to(root)}": entry.read_bytes() for entry in root.rglob("*") if entry.is_file()}
        folders = {f"/w/{entry.relative_to(root)}" for entry in root.rglob("*") if entry.is_dir()}
    assert {str(path): bytes(content) for path, content in tree.files.items()} == real
    assert {str(path) for path in tree.folders} == folders | {"/", "/w", "/tmp"}


def in_tree(tree: FileTree, operation: str, path: PurePosixPath, other: str | bytes) -> object:
    try:
        match operation, other:
            case "write", bytes():
                return tree.write(path, other)
            case "append", bytes():
                return tree.write(path, other, append=True)
            case "mkdir" | "parents", _:
                return tree.mkdir(path, parents=operation == "parents", exist_ok=operation == "parents")
            case "rename", str():
                return tree.rename(path, PurePosixPath("/w", other))
            case "read", _:
                return bytes(tree.content(path))
            case "names", _:
                return tree.names(path)
            case _:
                return tree.unlink(path) if operation == "unlink" else tree.rmdir(path)
    except OSError as error:
        return failed(error)


def on_disk(root: Path, operation: str, path: str, other: str | bytes) -> object:
    place = root / path
    try:
        match operation, other:
            case "write" | "append", bytes():
                with place.open("wb" if operation == "write" else "ab") as file:
                    file.write(other)
                return None
            case "mkdir" | "parents", _:
                return place.mkdir(parents=operation == "parents", exist_ok=operation == "parents")
            case "rename", str():
                place.rename(root / other)
                return None
            case "read", _:
                return place.read_bytes()
            case "names", _:
                return sorted(child.name for child in place.iterdir())
            case _:
                return place.unlink() if operation == "unlink" else place.rmdir()
    except OSError as error:
        return failed(error)


def failed(error: OSError) -> str:
    """Return that it failed: which of several reasons is told first is not the same on every system."""
    assert str(error)
    return "failed"


@pytest.mark.spec("P18", "T29")
def test_it_has_room_for_so_many_files_and_bytes_and_gives_room_back() -> None:
    tree = FileTree({"/a": b"12"}, max_files=3, max_bytes=10)
    a, b, c, d = map(PurePosixPath, ("/a", "/b", "/c", "/d"))
    tree.write(b, b"345")
    tree.write(c, b"67890")
    for path, data in ((d, b""), (c, b"123456"), (a, b"123")):
        with pytest.raises(TreeFull, match="No space left"):
            tree.write(path, data)
    with pytest.raises(TreeFull, match="No space left"):
        tree.write(a, b"1", append=True)
    tree.rename(b, c)
    tree.write(d, b"12345")
    tree.unlink(a)
    tree.write(b, b"12")
    assert {str(path): bytes(content) for path, content in tree.files.items()} == {
        "/b": b"12",
        "/c": b"345",
        "/d": b"12345",
    }


@pytest.mark.spec("P18", "T29")
def test_names_have_an_end_too() -> None:
    tree, long = FileTree({}, max_files=9, max_bytes=9), PurePosixPath("/" + "x" * 5_000)
    tree.write(PurePosixPath("/a"), b"1")
    with pytest.raises(OSError, match="File name too long"):
        tree.write(long, b"1")
    with pytest.raises(OSError, match="File name too long"):
        tree.mkdir(long)
    with pytest.raises(OSError, match="File name too long"):
        tree.rename(PurePosixPath("/a"), long)


@pytest.mark.spec("P18", "T29")
def test_directories_have_an_end_too() -> None:
    tree = FileTree({}, max_files=1, max_bytes=1)
    for number in range(5_000):
        tree.mkdir(PurePosixPath(f"/{number}"))
    tree.mkdir(PurePosixPath("/deep", *["d"] * 900), parents=True)
    rest = [PurePosixPath(f"/deep/{number}") for number in range(10_000)]
    with pytest.raises(TreeFull, match="No space left"):
        list(map(tree.mkdir, rest))
