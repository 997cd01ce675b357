from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset_tools.session_file_system.search import path_filter

names = st.text(alphabet="ab.[]!-^\\*?é\n", min_size=1, max_size=6)


@pytest.mark.spec("P24")
@pytest.mark.parametrize(
    ("glob", "matching", "others"),
    [
        ("*.txt", ["/a.txt", "/x/y/b.txt", "/.txt"], ["/a.txt/b", "/a.TXT", "/atxt"]),
        ("a?c", ["/abc", "/x/aéc"], ["/ac", "/abbc"]),
        ("*.{md,py}", ["/a.md", "/b/c.py"], ["/a.txt", "/a.{md,py}"]),
        ("{a,b{1,2}}", ["/a", "/b1", "/b2"], ["/b", "/a1"]),
        ("a,b", ["/a,b"], ["/a", "/b"]),
        ("[a-c]1", ["/a1", "/x/c1"], ["/d1"]),
        ("[!a]1", ["/b1"], ["/a1", "/a/1"]),
        ("[]]", ["/]"], ["/["]),
        ("a+(b).c", ["/a+(b).c"], ["/aabac"]),
        ("/a/*.txt", ["/a/x.txt"], ["/a/b/x.txt", "/b/a/x.txt"]),
        ("a/*.txt", ["/a/x.txt"], ["/b/a/x.txt"]),
        ("/a/**/*.txt", ["/a/x.txt", "/a/b/c/x.txt"], ["/ab/x.txt", "/b/x.txt"]),
        ("**/c.txt", ["/c.txt", "/a/b/c.txt"], ["/abc.txt"]),
        ("/a/**", ["/a/b", "/a/b/c", "/a/b\nc"], ["/a", "/ab"]),
        ("/a?b", ["/axb"], ["/a/b"]),
        ("/a[!x]b", ["/ayb"], ["/a/b", "/axb"]),
        ("{docs,src}/*", ["/docs/a", "/src/b"], ["/lib/a", "/docs/a/b"]),
    ],
)
def test_what_a_glob_means(glob: str, matching: list[str], others: list[str]) -> None:
    matches = path_filter(glob)
    assert [path for path in (*matching, *others) if matches(path)] == matching


@given(names, st.text(alphabet="ab.é*?", max_size=6), names)
def test_on_base_names_it_is_as_fnmatch(name: str, glob: str, folder: str) -> None:
    assert path_filter(glob or "*")(f"/{folder}/{name}") == fnmatchcase(name, glob or "*")


@given(names.filter(lambda name: not set(name) & set("[]*?")))
def test_any_other_character_stands_for_itself(name: str) -> None:
    assert path_filter(name)(f"/x/{name}")
    assert path_filter(f"/x/{name}")(f"/x/{name}")
    assert not path_filter(name)(f"/x/{name}b")


def test_without_a_glob_every_path_is_meant() -> None:
    assert path_filter(None)("/any/path")
