from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset import ToolError
from capset_tools.research import Note, Source
from capset_tools.research.citations import check_known, cited_in, escaped, report_of, topics_of


def source(number: int, title: str, url: str = "") -> Source:
    return Source(
        number=number,
        url=url or f"https://example.org/{number}",
        title=title,
        status_code=200,
        content_type=None,
        fetched_at="2026-01-01T10:00:00+00:00",
        sha256="0" * 64,
        characters=1,
        truncated=False,
        passages=(),
    )


def note(*numbers: int, topic: str | None = None) -> Note:
    return Note(id="x", sources=numbers, topic=topic, created_at="2026-01-01T10:00:00+00:00")


GOLDEN = """\
# On \\*tea\\*

- A thought without a topic.

## Brewing

- Green tea wants 80 °C. [1]
- Both agree [3] on this,
  and the second line says so. [1]

## History \\[old\\]

- It is old. [2][3]

## Sources

- [1] Green tea. <https://example.org/1>, fetched 2026-01-01.
- [2] \\<b\\>Bold\\</b\\> \\[x\\](y). <https://example.org/2>, fetched 2026-01-01.
- [3] Third. <https://example.org/a%20%3Cb%3E>, fetched 2026-01-01.

## Gathered, but not cited

- [4] Fourth. <https://example.org/4>, fetched 2026-01-01.
"""


@pytest.mark.spec("P18")
def test_a_report_is_this() -> None:
    noted = [
        (note(1, topic="Brewing"), "Green tea wants 80 °C."),
        (note(2, 3, topic="History [old]"), "It is old."),
        (note(), "A thought without a topic."),
        (note(1, 3, topic=" brewing "), "Both agree [3] on this,\nand the second line says so."),
    ]
    sources = [
        source(1, "Green tea"),
        source(2, "<b>Bold</b> [x](y)"),
        source(3, "Third", "https://example.org/a <b>"),
        source(4, "Fourth"),
    ]
    assert report_of("On *tea*", noted, sources, topics_of([entry for entry, _ in noted])) == GOLDEN


@pytest.mark.spec("P18")
def test_a_report_of_nothing_says_so() -> None:
    assert report_of("Research", [], [], []) == "# Research\n\nThere are no notes yet.\n"
    only = report_of("Research", [], [source(1, "Tea")], [])
    listing = "- [1] Tea. <https://example.org/1>, fetched 2026-01-01.\n"
    assert only.endswith(f"There are no notes yet.\n\n## Gathered, but not cited\n\n{listing}")


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("no", []),
        ("so [1].", [1]),
        ("so [1][12], and [3] too", [1, 12, 3]),
        ("[7]", [7]),
        ("Paris is the capital[1].", [1]),
        ("首都は東京[9]。", [9]),
        ("a]b[1]and[2]so", [1, 2]),
        ("[1, 2] [3,4;5] [6、7]", [1, 2, 3, 4, 5, 6, 7]),
        ("[1-3] and [4–5], [7 — 6]", [1, 2, 3, 4, 5, 6, 7]),
        ("[1, 3-5, 9]", [1, 3, 4, 5, 9]),
        ("[1-999999999] [0-200]", [1, 999_999_999, 0, 200]),
        ("[ 1 ] [[2]] [12345] \\[3]", [1, 2, 12345, 3]),
        ("[1]: so [2](see below) [3] (x)", [1, 2, 3]),
        ("[1](https://example.org) ![2](<a b>) [3](x_(y) 'z') [4]()", []),
        ("[[1]](x) and [2][3](x)", [1, 2]),
        ("[a] [] [-1] [1.5] [^1] [2026-11-22] [1, p. 2]", []),
        ("[1234567890] [1-98765432109876543210]", [1234567890, 1, 9876543210987654]),
        ("`items[0]` and ``a ` [1]`` [2]", [2]),
        ("so:\n\n```python\na[0]\n\nb[1]\n```\n[2]", [2]),
        ("- so:\n  ````\n  ```\n  a[0]\n  ````\n  [2]", [2]),
        ("a ` stray one [1]\n\nand ` another [2]", [1, 2]),
        ("\\`[1]\\` and `[2]", [1, 2]),
        ("```\n[1]", [1]),
    ],
)
def test_numbers_in_brackets_are_citations_but_in_code_and_links(text: str, numbers: list[int]) -> None:
    assert cited_in(text) == numbers


@pytest.mark.spec("P18")
@pytest.mark.parametrize(
    "text",
    ["[1](" + " " * 1_000_000, "[1](a" + "\n" * 1_000_000, "[1](<a>" + " " * 1_000_000 + "x)"],
    ids=["spaces", "lines", "spaces after an address"],
)
def test_what_looks_like_a_link_is_read_in_a_time_that_grows_with_it(text: str) -> None:
    """In one that grows with its square, this would take longer than a test may."""
    assert cited_in(text) == [1]


@pytest.mark.spec("P18")
@pytest.mark.parametrize(
    ("numbers", "count", "message"),
    [
        ([1], 0, r"there is no source \[1\]; none is gathered yet: research_fetch one first"),
        ([2, 1], 1, r"there is no source \[2\]; there is \[1\] alone"),
        ([9, 0, 3], 3, r"there is no source \[0\]\[9\]; there are \[1\] to \[3\]"),
    ],
)
def test_a_number_that_no_source_has_is_refused(numbers: list[int], count: int, message: str) -> None:
    sources = [source(number, "x") for number in range(1, count + 1)]
    with pytest.raises(ToolError, match=f"^{message}$") as refused:
        check_known(numbers, sources)
    assert refused.value.code == "unknown_source"
    check_known(range(1, count + 1), sources)


@pytest.mark.spec("P18")
def test_what_a_text_cites_may_be_no_citation_and_not_all_of_it_is_listed() -> None:
    with pytest.raises(ToolError, match=r"\[7\]; there is \[1\] alone; a number .* goes in backquotes$"):
        check_known([7, 1], [source(1, "x")], cited=[7])
    with pytest.raises(ToolError, match=r"\[7\]; there is \[1\] alone$"):
        check_known([7, 1], [source(1, "x")], cited=[1])
    with pytest.raises(ToolError, match=r"^there is no source \[2\]\[3\]\[4\]\[5\]\[6\] and others; there is"):
        check_known(cited_in("[1-7]"), [source(1, "x")])


@given(before=st.text("a1]). `é東\n"), after=st.text("a1[. `é東\n"), number=st.integers(0, 999_999_999))
def test_what_is_not_in_backquotes_is_never_overlooked(before: str, after: str, number: int) -> None:
    quotes = before.count("`") and after.count("`")
    assert quotes or number in cited_in(f"{before}[{number}]{after}")


@pytest.mark.spec("P18", "T30")
@pytest.mark.parametrize(
    ("text", "item"),
    [
        ("--\n## Sources", "- \\--\n  ## Sources"),
        ("- -\n## Sources", "- \\- -\n  ## Sources"),
        ("---", "- \\---"),
        ("-- so\n---", "- -- so\n  ---"),
        ("[1]: <http://evil.example>", "- [1]\\: <http://evil.example>"),
        ("x\n\n> [\n 1 ]: /y", "- x\n  \n  > [\n   1 ]\\: /y"),
        ("so says [1]: it is", "- so says [1]: it is"),
    ],
)
def test_a_note_cannot_leave_its_item_nor_change_what_others_cite(text: str, item: str) -> None:
    assert report_of("x", [(note(), text)], [], [None]) == f"# x\n\n{item}\n"


@pytest.mark.parametrize(
    ("title", "rendered"),
    [
        ("See https://evil.example/x", "See https: //evil.example/x"),
        ("HTTP://a ://b", "HTTP: //a : //b"),
        ("(www.evil.example) and _WWW.b", "(www .evil.example) and \\_WWW .b"),
        ("Time: 10://", "Time: 10: //"),
    ],
)
def test_a_title_has_nothing_that_becomes_a_link(title: str, rendered: str) -> None:
    assert escaped(title) == rendered
    assert f"- [1] {rendered}. <https://example.org/1>" in report_of("x", [], [source(1, title)], [])


def test_a_source_that_is_called_by_its_url_is_named_once() -> None:
    url = "https://example.org/1"
    assert f"- [1] <{url}>, fetched 2026-01-01.\n" in report_of("x", [], [source(1, url, url)], [])


@pytest.mark.spec("P18")
@pytest.mark.parametrize(
    ("requested_url", "answered", "suffix"),
    [
        ("https://a.example/x", None, ""),
        ("https://a.example/x", "https://a.example/y", ""),
        ("http://A.example:80/x", "https://a.example/x", ""),
        ("https://a.example/?to=b", "https://b.example/x", ", answered by <https://b.example/x>"),
        ("https://a.example/", "https://a.example.b.example/", ", answered by <https://a.example.b.example/>"),
        ("http://a.example/", "http://a.example:8080/<x", ", answered by <http://a.example:8080/%3Cx>"),
        ("http://[2001:db8::1]/", "http://[2001:db8::2]/", ", answered by <http://[2001:db8::2]/>"),
    ],
)
def test_a_source_says_who_answered_where_that_is_somebody_else(
    requested_url: str, answered: str | None, suffix: str
) -> None:
    tea_source = source(1, "Tea", requested_url).model_copy(update={"answered_by": answered})
    assert f"- [1] Tea. <{requested_url}>{suffix}, fetched 2026-01-01.\n" in report_of("x", [], [tea_source], [])


@given(st.text(max_size=60))
def test_a_title_is_one_line_and_opens_nothing(title: str) -> None:
    rendered = escaped(title)
    assert len(rendered.splitlines()) <= 1
    bare = rendered.replace("\\\\", "")
    for special in "`*_[]<>#|~&":
        assert bare.count(special) == bare.count(f"\\{special}")
