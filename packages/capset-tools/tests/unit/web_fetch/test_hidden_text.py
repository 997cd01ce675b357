"""Text that a page hides is left out of its Markdown and its plain text: in every element, and in any letter case."""

from __future__ import annotations

import pytest

from capset_tools.web_fetch.conversion import CUT, markdown_of, text_of
from capset_tools.web_fetch.tidy_html import MAX_TAGS
from tests.helpers.tools.web_fetch.regenerate import BASE

pytestmark = pytest.mark.spec("P28")

ELEMENTS = [
    "a", "abbr", "acronym", "address", "article", "aside", "b", "bdi", "bdo", "big", "blink", "blockquote", "button",
    "center", "cite", "code", "data", "dd", "del", "details", "dfn", "dialog", "dir", "div", "dl", "dt", "em",
    "fieldset", "figcaption", "figure", "font", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header",
    "hgroup", "i", "ins", "kbd", "label", "legend", "li", "main", "map", "mark", "marquee", "math", "menu", "meter",
    "nav", "nobr", "noscript", "ol", "output", "p", "picture", "pre", "progress", "q", "rp", "rt", "ruby", "s",
    "samp", "search", "section", "slot", "small", "span", "strike", "strong", "sub", "summary", "sup", "time", "tt",
    "u", "ul", "var", "xmp", "my-element", "an-element-whose-name-is-longer-than-most",
]  # fmt: skip
HIDING = (
    "hidden",
    "HIDDEN",
    'Hidden="until-found"',
    "class=x hidden=''",
    "title=\"a>b\" data-x='y' hidden",
    "a/hidden",
    'style="display:none"',
    "STYLE='DISPLAY : NONE'",
    "style=display:none",
    'style="color: red; Display:\n none !important"',
    'style="display:n&#111;ne"',
    'style="display:/* a */none"',
    'style="d\\69splay: no\\6E e"',
)
SHOWING = (
    "",
    "class=hidden",
    'title="hidden"',
    "data-hidden",
    "aria-hidden=true",
    'style="--display:none"',
    'style="display:nonesuch"',
    'data-style="display:none"',
    'title="hidden" style="color:red"',
    'style="color:red" style="display:none"',
)


def said(html: str) -> str:
    """Return both conversions of a page."""
    return f"{markdown_of(html, BASE)}\n{text_of(html, BASE)}"


def words(html: str) -> list[str]:
    """Return the words of the plain text."""
    return text_of(html, BASE).split()


@pytest.mark.parametrize("name", ELEMENTS)
def test_no_element_shows_what_it_hides(name: str) -> None:
    for hiding in HIDING:
        for spelled in (name, name.upper()):
            hidden = f"<{spelled} {hiding}>secret <b>secret</b><br><my-x>secret</my-x></{spelled}>"
            for html in (f"one {hidden} two", f"<p>one {hidden} two</p>", f"<ul><li>one {hidden} two</ul>"):
                assert "secret" not in said(html), html
                assert [word for word in words(html) if word != "-"] == ["one", "two"], html


@pytest.mark.parametrize("name", ELEMENTS)
def test_every_element_shows_what_it_does_not_hide(name: str) -> None:
    for showing in SHOWING:
        assert "shown" in text_of(f"<div>one <{name} {showing}>shown</{name}> two</div>", BASE), showing


@pytest.mark.parametrize("hiding", HIDING)
@pytest.mark.parametrize(
    ("html", "visible"),
    [
        ("<table H><tr><td>secret</table>two", "two"),
        ("<table><caption H>secret</caption><tr><td>one<td>two</table>", "one two"),
        ("<table><thead H><tr><th>secret<tbody><tr><td>one</table>", "one"),
        ("<table><tr><td>one<tbody H><tr><td>secret<tr><td>secret</tbody><tr><td>two</table>", "one two"),
        ("<table><tr><td>one<tr H><td>secret<td>secret</tr><tr><td>two</table>", "one two"),
        ("<table><tr H><td>secret<tr><td>one</table>two", "one two"),
        ("<table><tr><td>one<td H>secret<td>two</table>", "one two"),
        ("<table><tr><td>one<th H>secret</th><td>two</table>", "one two"),
        ("<table><tr><td>one<td H><table><tr><td>secret</table>secret<td>two</table>", "one two"),
        ("<table><tr><td>one<div H>secret<td>two</table>", "one two"),
        ("<table><tr H><td><table><tr><td>secret<tr><td>secret</table><tr><td>one</table>", "one"),
        ("<table>" + "<tr>" + "<td>one" * 101 + "<td H>secret</td><td>two</table>", "one " * 101 + "two"),
        ("<ol><li>one<li H>secret<li>two</ol>", "1. one 2. two"),
        ("<ol><li>one<ol H><li>secret</ol><li>two</ol>", "1. one 2. two"),
        ("<dl><dt H>secret<dd>one<dd H>secret<dt>two</dl>", "one two"),
        ("one<img H src=x alt=secret>two", "onetwo"),
        ("one<br H>two<input H><hr H>", "onetwo"),
        ("<pre>one<span H>secret<i>secret</i></span> two</pre>", "one two"),
        ("<code>one<span H>secret</span> two</code>", "one two"),
        ("<pre H>secret</pre>two", "two"),
    ],
)
def test_tables_lists_code_and_images_show_nothing_hidden(html: str, visible: str, hiding: str) -> None:
    html = html.replace(" H", f" {hiding}")
    assert "secret" not in said(html)
    shown_words = text_of(html, BASE).replace("|", " ").replace("-", " ").split()
    assert " ".join(shown_words).split() == visible.split() or [
        word for word in shown_words if not word.strip(".").isdigit()
    ] == [word for word in visible.split() if not word.strip(".").isdigit()]


@pytest.mark.parametrize(
    "html",
    [
        "one<div hidden>secret<div>secret</div>secret</div>two",
        "one<div hidden>secret</p></span></td></b></ul>secret</div>two",
        "one<span hidden>secret<section><span>secret</span></section>secret</span>two",
        "one<div hidden><table><tr><td></div>secret</table>secret</div>two",
        "<div><table><tr><td>one<p hidden>secret</div>secret</p>two</table></div>",
        "one<div hidden><script>'</div>'</script>secret<!-- </div> -->secret<svg></div></svg>secret</div>two",
        "<p>one<p hidden>secret<div>two</div>",
        "<p>one<span hidden>secret<div>two</div>",
        "<p>one<span hidden>secret</p>two",
        "<b>one<p hidden>secret</b>secret</p>two",
        "<ul><li>one<li hidden>secret<ul><li>secret</ul>secret<li>two</ul>",
        "<ul><li>one<section hidden>secret<li>secret</section>two</ul>",
        "<ul><li hidden><section>secret<li>secret</section></li><li>one</ul>two",
        "one<h1 hidden>secret<h2>two</h2>",
        "one<h1 hidden>secret<span>secret<h2>secret</h2></span></h1>two",
        "one<p hidden><button>secret<div>secret</div></button></p>two",
        "one<a hidden>secret<a href=x>two</a>",
        "one<div hidden><td>secret<tr>secret</div>two",
        "<section>one<code hidden>secret</section>secret</code>two",
        "one<div hidden>secret<i hidden>secret</div>secret</i>two",
        "one<a hidden>secret<div hidden>secret</a>secret</div>two",
        "one<span hidden>secret<button>secret</span>secret</button></span>two",
        "<p>one<li hidden>secret</p>secret</li>two",
        "<p>one<button><span hidden>secret<div>secret</div></span></button>two",
        "<ruby>one<rp hidden>secret<rt>two</ruby>",
        "<!doctype html>one<p hidden>secret<table><tr><td>two</table>",
        "one<p hidden>secret<table><tr><td>secret</table></p>two",
        "<table><tr><td>one<b hidden>secret</table>two",
        "<div>one<div hidden>secret</div>two</div>",
        "<section>one<div hidden>secret</section>two",
    ],
)
def test_a_hidden_element_ends_where_a_browser_ends_it(html: str) -> None:
    assert "secret" not in said(html)
    assert "".join(words(html)).replace("-", "") == "onetwo"


@pytest.mark.parametrize("end", ["</p>", "</div>", "</b>", "</x>", ""])
def test_nothing_hidden_is_shown_however_deep_it_lies(end: str) -> None:
    for around in ("<div>", "<b><i>", "<ul><li>", "<blockquote><p>"):
        for depth in (30, 63, 64, 65, 70, 200):
            html = f"{around * depth}one<div hidden>{end}secret<p>secret</p>secret</div> two"
            if end != "</div>":
                assert "secret" not in said(html)
            assert words(html)[-1] == "two"


def test_a_tag_of_many_attributes_hides_too() -> None:
    many = " ".join(f'data-{number}="{number}"' for number in range(3_000))
    assert words(f"one <div {many} hidden>secret</div> two") == ["one", "two"]
    assert words(f"one <div {many}>shown</div> two") == ["one", "shown", "two"]


def test_long_hidden_text_is_left_out_wherever_the_page_is_cut_into_pieces() -> None:
    long = "secret <p>secret</p> " * 20_000
    html = f"<ol><li>one<li hidden>{long}</li><li>two<span hidden>{long}</span></ol><div hidden>{long}</div>three"
    assert markdown_of(html, BASE) == "1. one\n2. two\n\nthree"


def test_hidden_tags_count_as_those_that_are_shown() -> None:
    html = f"one<div hidden>{'<i>x' * (MAX_TAGS + 1)}</div>two"
    assert markdown_of(html, BASE) == f"one{CUT}"
