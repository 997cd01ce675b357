from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capset.definitions.calls.files import (
    MAX_PATH_BYTES,
    MAX_PATH_LEVELS,
    FileStat,
    normalise_path,
    parent_of,
    parents_of,
)
from capset.errors import FileError


@pytest.mark.spec("P22")
@pytest.mark.parametrize(
    ("path", "clean"),
    [
        ("/", "/"),
        ("/.", "/"),
        ("/a/", "/a"),
        ("//a///b/./c/", "/a/b/c"),
        ("/A/a", "/A/a"),
        ("/.hidden/...", "/.hidden/..."),
        ("/..a/b..", "/..a/b.."),
        ("/a b/\u65e5\u672c \U0001f600", "/a b/\u65e5\u672c \U0001f600"),
        ("/a\\..\\b", "/a\\..\\b"),
        ("/%2e%2e/a", "/%2e%2e/a"),
    ],
)
def test_a_path_has_one_form(path: str, clean: str) -> None:
    assert normalise_path(path) == clean
    assert normalise_path(clean) == clean


@pytest.mark.spec("P22")
@pytest.mark.parametrize(
    ("problem", "paths"),
    [
        ("absolute", ["", "a", "./a", "~/a", "\\a", "C:/a"]),
        (r"'\.\.'", ["/..", "/a/../b", "/a/.."]),
        ("NUL", ["/a\0b"]),
        ("valid Unicode", ["/\ud800"]),
        ("at most 1024 bytes", ["/" + "a" * MAX_PATH_BYTES, "/" + "\u65e5" * 342]),
        ("at most 64 levels", ["/a" * (MAX_PATH_LEVELS + 1)]),
    ],
)
def test_any_other_path_is_refused(problem: str, paths: list[str]) -> None:
    for path in paths:
        with pytest.raises(FileError, match=problem):
            normalise_path(path)


@pytest.mark.spec("P22")
def test_the_limits_are_allowed_themselves() -> None:
    assert len(normalise_path("/" + "a" * (MAX_PATH_BYTES - 1))) == MAX_PATH_BYTES
    assert normalise_path("/a" * MAX_PATH_LEVELS).count("/") == MAX_PATH_LEVELS


@pytest.mark.spec("P22")
@settings(deadline=None)
@given(st.text(st.sampled_from("/.a\0\\\u65e5 ")))
def test_a_normalised_path_stays_inside_and_stays_itself(path: str) -> None:
    try:
        clean = normalise_path("/" + path)
    except FileError:
        return
    assert clean.startswith("/")
    assert normalise_path(clean) == clean
    assert not {"", ".", ".."} & set(clean[1:].split("/")) or clean == "/"
    assert parent_of(clean) == "/" or clean.startswith(parent_of(clean) + "/")
    above = [*parents_of(clean)]
    assert above == ([] if parent_of(clean) == "/" else [parent_of(clean), *parents_of(parent_of(clean))])
    assert "/" not in above


@pytest.mark.parametrize(("path", "name"), [("/", "/"), ("/a", "a"), ("/a/b.txt", "b.txt")])
def test_a_file_knows_its_name(path: str, name: str) -> None:
    assert FileStat(path, False, 0, 1, "", "").name == name
