"""Pages as Markdown and as text: what they say is written down, page by page (``regenerate.py``)."""

from __future__ import annotations

from pathlib import Path

import pytest

from capset_tools.web_fetch.conversion import CUT, MAX_CONVERTED, markdown_of, text_of
from capset_tools.web_fetch.tidy_html import MAX_TAGS, PIECE_CHARACTERS, PIECE_TAGS
from tests.helpers.tools.web_fetch.regenerate import BASE, PAGES, conversions

pytestmark = pytest.mark.spec("P28")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_says_what_is_written_down(page: Path) -> None:
    for file, converted in conversions(page):
        assert converted == file.read_text("utf-8"), f"{file.name}: see tests/helpers/tools/web_fetch/regenerate.py"


def test_every_page_has_its_conversions() -> None:
    assert PAGES
    assert {file.name for page in PAGES for file, _ in conversions(page)} == {
        file.name for file in PAGES[0].parent.iterdir() if file.suffix != ".html"
    }


@pytest.mark.parametrize(
    "html", ["", " \n ", "<", "<p", "<p></p>", "<script>x</script>", "<script>x", "<!-- x", "<title>x"]
)
def test_a_page_without_text_is_empty(html: str) -> None:
    assert markdown_of(html, BASE) in {"", "&lt;", "<"}
    assert text_of(html, BASE) in {"", "<"}


def test_emphasis_that_overlaps_stays_where_it_is_meant() -> None:
    assert markdown_of("<p>a <b>b <i>c</b> d</i> e</p>", BASE) == "a **b *c*** *d* e"
    assert markdown_of("<b><p>one</b> two</p>", BASE) == "**one**\n\ntwo"


def test_ends_that_belong_to_nothing_here_end_nothing() -> None:
    assert markdown_of("<ul><li>a</p></td></table></b> b<li>c</ul>", BASE) == "- a b\n- c"
    assert markdown_of("<div><table><tr><td>a</div></ul>b<td>c</table>d", BASE) == "| ab | c |\n| --- | --- |\n\nd"


def test_spans_keep_columns_in_line() -> None:
    html = "<table><tr><th>a<th>b<th>c<tr><td rowspan=2>1<td colspan=2>2<tr><td>3<td>4<tr><td>5<td>6<td>7</table>"
    assert markdown_of(html, BASE).splitlines()[2:] == ["| 1 | 2 |  |", "|  | 3 | 4 |", "| 5 | 6 | 7 |"]


def test_a_row_has_an_end_and_loses_nothing() -> None:
    markdown = markdown_of(
        "<table><tr>" + "".join(f"<td>{number}</td>" for number in range(150)) + "</table>after", BASE
    )
    assert markdown.splitlines()[0].count("|") == 101
    assert [word for word in markdown.replace("|", " ").split() if word.isdigit()] == [
        str(number) for number in range(150)
    ]
    assert markdown.endswith("\n\nafter")


def test_blank_lines_are_at_most_one_in_code_too() -> None:
    assert markdown_of("<pre>a\n\n\n\n  b  \n</pre>", BASE) == "```\na\n\n  b\n```"


def test_scripts_in_code_are_not_code() -> None:
    html = '<pre>a\n<script>document.write("</pre>x")</script>  b<br>c<style>d</style><!-- e --></pre>f'
    for converted in (markdown_of(html, BASE), text_of(html, BASE)):
        assert "write" not in converted
        assert "d" not in converted
        assert "e" not in converted
    assert markdown_of("<pre>a\n  <script>x()</script>b</pre>", BASE) == "```\na\n  b\n```"


def test_text_that_is_too_deep_is_still_said() -> None:
    for tag in ("div", "blockquote", "b", "ul><li", "table><tr><td"):
        markdown = markdown_of(f"<p>before</p>{f'<{tag}>' * 500}inside", BASE)
        assert markdown.startswith("before")
        assert markdown.rstrip("|-* \n").endswith("inside")


def test_a_long_page_is_said_from_its_beginning_to_its_end() -> None:
    count = 3 * PIECE_TAGS
    for converted in (f(f"<div>{'<p>word here</p>' * count}</div><p>end", BASE) for f in (markdown_of, text_of)):
        assert converted == "\n\n".join(["word here"] * count) + "\n\nend"


def test_long_text_and_long_code_lose_no_word() -> None:
    words = " ".join(f"word{number}" for number in range(PIECE_CHARACTERS // 3))
    assert markdown_of(f"<p>{words}</p>", BASE).split() == words.split()
    lines = "\n".join(f"    line {number}" for number in range(PIECE_CHARACTERS // 4))
    output_lines = markdown_of(f"<pre>{lines}</pre>", BASE).replace("```\n\n```\n", "").splitlines()
    assert output_lines == ["```", *lines.splitlines(), "```"]


@pytest.mark.nightly
@pytest.mark.parametrize(
    "html",
    [
        pytest.param("<p>a</p>" * (MAX_TAGS + 1), id="tags"),
        pytest.param("<div>" * (MAX_TAGS + 1), id="depth"),
        pytest.param(f"<pre>{'<u>a' * (MAX_TAGS + 1)}</pre>", id="tags in code"),
        pytest.param("<span>" * (MAX_TAGS + 1), id="tags that say nothing"),
        pytest.param("<p>word " * 10 + "word " * (MAX_CONVERTED // 5), id="text"),
        pytest.param(("<table><tr>" + "<td rowspan=1000>a" * 100 + "<tr><td>" * 1_000 + "</table>") * 5, id="spans"),
    ],
)
def test_what_is_too_large_is_cut_and_says_so(html: str) -> None:
    markdown = markdown_of(html, BASE)
    assert markdown.endswith(CUT.strip())
    assert len(markdown) <= MAX_CONVERTED + len(CUT)


def test_what_is_not_cut_does_not_say_so() -> None:
    assert not markdown_of("<p>x</p>" * 1_000, BASE).endswith(CUT)


@pytest.mark.parametrize("zeros", ["", "0" * 5_000])
def test_references_of_thousands_of_digits_do_not_make_it_fail(zeros: str) -> None:
    absurd, tea = f"&#{zeros}{'9' * 5_000};", f"&#{zeros}116;ea"
    assert markdown_of(f'<a href="/{tea}">{absurd}tea</a>', BASE).endswith("tea](https://example.org/tea)")
    assert markdown_of(f'<a href="/{absurd}">tea</a><img alt="{tea}{absurd}">', BASE).startswith(
        "[tea](https://example.org/"
    )
    assert markdown_of(f'<p style="color:{absurd}; display:&#{zeros}110;one">tea</p>', BASE) == ""
