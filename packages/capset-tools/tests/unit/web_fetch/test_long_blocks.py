"""Lists and tables that are longer than a piece go on in the next one, as if there were no pieces."""

from __future__ import annotations

import re
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset_tools.web_fetch.conversion import markdown_of, text_of
from capset_tools.web_fetch.tidy_html import PIECE_CHARACTERS, PIECE_TAGS
from tests.helpers.tools.web_fetch.regenerate import BASE

pytestmark = pytest.mark.spec("P28")

ITEMS: Final = 5 * PIECE_TAGS
ROWS: Final = 9_000


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("item", "converted"),
    [
        ("<li>item {0}</li>", "item {0}"),
        ("<li>item {0}", "item {0}"),
        ("\n<li><a href='/{0}'>item {0}</a></li>", "[item {0}](https://example.org/{0})"),
        ("<li>an <a href='/{0}'>item</a>", "an [item](https://example.org/{0})"),
    ],
    ids=["plain", "without ends", "links", "links without ends"],
)
def test_a_long_list_is_numbered_from_its_first_item_to_its_last(item: str, converted: str) -> None:
    items = "".join(item.format(number) for number in range(ITEMS))
    numbered = [f"{number + 7}. {converted.format(number)}" for number in range(ITEMS)]
    assert markdown_of(f"<ol start=7>{items}</ol>end", BASE).split("\n") == [*numbered, "", "end"]
    bullets = [f"- {converted.format(number)}" for number in range(ITEMS)]
    assert markdown_of(f"<ul>{items}</ul>", BASE).split("\n") == bullets


def test_lists_within_a_long_list_have_numbers_of_their_own() -> None:
    items = "".join(f"<li>item {number}<ol><li>one<li>two</ol>" for number in range(PIECE_TAGS))
    markdown = markdown_of(f"<ol>{items}</ol>", BASE)
    assert re.findall(r"^(\d+)\. item (\d+)$", markdown, re.MULTILINE) == [
        (str(number + 1), str(number)) for number in range(PIECE_TAGS)
    ]
    assert re.findall(r"^ +(\d\. \w+)$", markdown, re.MULTILINE) == ["1. one", "2. two"] * PIECE_TAGS


def test_an_item_that_is_longer_than_a_piece_keeps_its_number() -> None:
    markdown = markdown_of(f"<ol><li>one<li>{'word ' * PIECE_CHARACTERS}<li>three</ol>", BASE)
    numbers = re.findall(r"^(\d+)\. ", markdown, re.MULTILINE)
    assert list(dict.fromkeys(numbers)) == ["1", "2", "3"]
    assert markdown.endswith("3. three")


PLAIN: Final = "<tr><td>{0}</td><td>b</td><td>c</td></tr>"


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("row", "before", "after"),
    [
        (PLAIN, "", ""),
        ("<tr><td>{0}<td>b<td>c", "<div><h2>x</h2>", "</div><p>end"),
        ("\n<tr>\n <td><a href='/{0}'>{0}</a></td>\n <td><i>b</i></td>\n <td>c</td>\n</tr>", "", ""),
        (PLAIN, "<ul><li>x", "</ul>"),
        (PLAIN, "<blockquote>", "</blockquote>"),
        (PLAIN, "<table><tr><td>", "</table>"),
    ],
    ids=["plain", "without ends", "links", "item", "quote", "layout"],
)
def test_a_long_table_is_one_table(row: str, before: str, after: str) -> None:
    rows = "".join(row.format(number) for number in range(ROWS))
    html = f"{before}<table><tr><th>h<th>i<th>j</tr>{rows}</table>{after}"
    markdown = markdown_of(html, BASE)
    first = markdown.index("| h | i | j |\n")
    table = markdown[first : markdown.rindex("|") + 1].split("\n")
    assert table[1].lstrip(" >") == "| --- | --- | --- |"
    matches = [re.fullmatch(r"[ >]*\| \[?(\d+)\]?[^|]* \| \*?b\*? \| c \|", line) for line in table[2:]]
    assert [match and match[1] for match in matches] == [str(number) for number in range(ROWS)]
    assert [line.split("\t")[0] for line in text_of(html, BASE).split("\n") if line.endswith("\tb\tc")] == [
        str(number) for number in range(ROWS)
    ]


def test_a_table_whose_first_row_is_longer_than_a_piece_has_one_head() -> None:
    words = " ".join(f"word{number}" for number in range(PIECE_CHARACTERS))
    markdown = markdown_of(f"<table><tr><td>a<td>{words}<td>c<tr><td>d<td>e<td>f</table>", BASE)
    assert markdown.count("\n| ---") == 1
    assert markdown.replace("|", " ").replace("---", " ").split() == ["a", *words.split(), "c", "d", "e", "f"]
    assert markdown.splitlines()[-1] == "| d | e | f |"
    assert markdown.splitlines()[-2].startswith("|  | word")


def test_two_tables_stay_two() -> None:
    table = f"<table>{'<tr><td>a<td>b' * ROWS}</table>"
    tables = markdown_of(f"{table}{table}<table><tr><td>c</table>", BASE).split("\n\n")
    assert tables == [*["\n".join(["| a | b |", "| --- | --- |", *["| a | b |"] * (ROWS - 1)])] * 2, "| c |\n| --- |"]


CELLS: Final = st.lists(
    st.lists(st.sampled_from(["a", "b c", "", "<b>d</b>", " e\n"]), max_size=4), min_size=1, max_size=20
)


@given(rows=CELLS, spans=st.sampled_from(["", " colspan=2", " rowspan=3"]))
def test_what_is_taken_at_once_is_as_one_by_one(rows: list[list[str]], spans: str) -> None:
    def table(attribute: str) -> str:
        below = "".join(
            f"<tr{attribute}>" + "".join(f"<td{attribute}>{cell}</td>" for cell in row) + "</tr>\n" for row in rows
        )
        return f"<table><tr><th{spans}>x</th><th>y</th></tr>{below}</table><p>end</p>"

    def items(attribute: str) -> str:
        return "<ol>" + "".join(f"<li{attribute}>{cell}</li>" for row in rows for cell in row) + "</ol><p>end</p>"

    assert markdown_of(table(""), BASE) == markdown_of(table(" class=x"), BASE)
    assert markdown_of(items(""), BASE) == markdown_of(items(" class=x"), BASE)
