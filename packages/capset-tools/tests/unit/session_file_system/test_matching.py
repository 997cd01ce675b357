"""Differential tests: the search in one text against a plain reading of its rules."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from capset_tools.session_file_system.search import (
    LINE_CHARACTERS,
    LineHit,
    LineSearch,
    LineWindow,
    compile_pattern,
    hits,
)
from tests.helpers.tools.session_file_system.support import pieces

PATTERNS = ["a", "é", "a+b", "^", "$", "^$", "b$", "^b", ".", "[^a]", r"\bb", "a|b\n", r"\s", "(?i)A", "x*", "b?$"]
texts = st.text(alphabet="ab é\t\n", max_size=40)


def expected(pattern: str, text: str, context: int) -> list[LineHit]:
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    line_hits: list[LineHit] = []
    for index, line in enumerate(lines):
        if match := re.search(pattern, line, re.ASCII):
            before = tuple(lines[max(0, index - context) : index])
            after = tuple(lines[index + 1 : index + 1 + context])
            line_hits.append(LineHit(index + 1, match.start() + 1, line, before, after))
    return line_hits


@pytest.mark.spec("P24")
@given(st.sampled_from(PATTERNS), texts, st.integers(0, 3))
@example("^$", "\n", 1)
@example("^$", "\n\n", 0)
@example("^$", "", 0)
@example("$", "a", 0)
def test_it_finds_what_a_search_line_by_line_finds(pattern: str, text: str, context: int) -> None:
    assert list(hits(compile_pattern(pattern), text.encode(), context)) == expected(pattern, text, context)


@pytest.mark.spec("P24")
@given(st.sampled_from(PATTERNS), texts, st.integers(0, 3), st.lists(st.integers(0, 200), max_size=4), st.booleans())
def test_a_large_file_that_comes_in_pieces_is_searched_alike(
    pattern: str, text: str, context: int, cuts: list[int], is_dos: bool
) -> None:
    data = (text.replace("\n", "\r\n") if is_dos else text).encode()
    search = LineSearch(compile_pattern(pattern), context, 1000)
    window = LineWindow(search, "/large")
    *first, last = pieces(data, cuts)
    assert all(window.feed(piece, final=False) for piece in first)
    window.feed(last, final=True)
    assert window.is_searched
    lines = [
        LineHit(hit["line"], hit["column"], hit["text"], (*hit["before"],), (*hit["after"],)) for hit in search.matches
    ]
    assert lines == expected(pattern, text, context)


@given(st.sampled_from(PATTERNS), texts, st.integers(0, 2))
def test_carriage_returns_before_a_line_end_do_not_matter(pattern: str, text: str, context: int) -> None:
    dos = text.replace("\n", "\r\n").encode()
    assert list(hits(compile_pattern(pattern), dos, context)) == expected(pattern, text, context)


def test_a_match_of_nothing_inside_a_character_is_told_as_its_column() -> None:
    (hit,) = hits(compile_pattern(r"\B"), "aéb".encode(), 0)
    assert (hit.text, hit.column) == ("aéb", 2)


@pytest.mark.parametrize("at", [0, 50, 100, 101, 250, 2000, 2500, 2999])
def test_a_long_line_is_cut_around_its_match(at: int) -> None:
    line = "-" * at + "X" + "-" * (2999 - at)
    (hit,) = hits(compile_pattern("X"), f"{line}\n{line}"[: len(line)].encode(), 0)
    assert hit.column == at + 1
    assert "X" in hit.text
    inner = hit.text.strip("…")
    assert LINE_CHARACTERS == 500  # as the tool's description says
    assert len(inner) == LINE_CHARACTERS
    assert inner in line
    assert hit.text.startswith("…") is not line.startswith(inner)
    assert hit.text.endswith("…") is not line.endswith(inner)


def test_long_lines_around_a_match_are_cut_at_their_end() -> None:
    long = "é" * (LINE_CHARACTERS + 1)
    (hit,) = hits(compile_pattern("X"), f"{long}\nX\n{long[1:]}".encode(), 1)
    assert hit.before == ("é" * LINE_CHARACTERS + "…",)
    assert hit.after == ("é" * LINE_CHARACTERS,)
