"""What holds for every page, however crooked."""

from __future__ import annotations

import re
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset_tools.web_fetch.conversion import markdown_of, text_of
from tests.helpers.tools.web_fetch.regenerate import BASE

pytestmark = pytest.mark.spec("P28")

NAMES: Final = st.sampled_from([
    "a", "b", "i", "em", "code", "p", "div", "span", "ul", "ol", "li", "table", "tr", "td", "th", "caption", "h1", "h2",
    "pre", "blockquote", "dl", "dt", "dd", "br", "hr", "img", "base", "title", "q", "script", "style", "svg",
    "template", "select", "textarea", "noscript", "details", "summary", "math", "annotation", "body", "html",
    "own-element",
])  # fmt: skip
ATTRIBUTES: Final = st.sampled_from([
    "", " href=x", " href='//a b'", " href=javascript:1", " colspan=3 rowspan=2", " src=y alt='q\"<'", " start=7",
    " hidden", " style='display:none'", " class='language-py x'", ' a="b', " <", " =", "/",
])  # fmt: skip
TEXTS: Final = st.text(max_size=8) | st.sampled_from([
    "word", " ", "\n\n\n\n", "a|b", "```", "    four", "\t", "# h", "- b", "* ", "1. a", "\u00a0", "  \n", "\0",
    "\ud800", "&amp;", "&#0;", "&lt;p&gt;", "<", "</", "<!", "<!--", "-->", "<?", "]]>", "</>", "\x0c",
])  # fmt: skip
PARTS: Final = st.one_of(
    TEXTS,
    st.builds("<{}{}>".format, NAMES, ATTRIBUTES),
    st.builds("</{}>".format, NAMES),
    st.builds("<{0}{1}>{2}</{0}>".format, NAMES, ATTRIBUTES, TEXTS),
)
MARKUP: Final = st.lists(PARTS, max_size=40).map("".join)


@given(st.one_of(MARKUP, st.text(), st.binary().map(lambda raw: raw.decode("latin-1"))))
def test_no_page_fails_and_white_space_is_kept_in_bounds(html: str) -> None:
    for converted in (markdown_of(html, BASE), text_of(html, BASE)):
        assert "\n\n\n" not in converted
        assert not [line for line in converted.split("\n") if line != line.rstrip()]
        assert converted == converted.strip("\n")


@given(MARKUP)
def test_a_page_is_always_converted_to_the_same(html: str) -> None:
    assert markdown_of(html, BASE) == markdown_of(html, BASE)


@given(MARKUP, st.sampled_from(["script", "style", "SCRIPT", "template", "svg", "textarea", "title", "iframe"]), MARKUP)
def test_what_is_not_read_is_not_said(before: str, name: str, after: str) -> None:
    # No tag, attribute or comment of what is before goes on into it; whatever element does may hide more, not show it.
    html = f"{before}'\">--><{name} a='>'>unread()</{name.lower()} >{after}"
    for converted in (markdown_of(html, BASE), text_of(html, BASE)):
        assert "unread()" not in converted


LINK: Final = re.compile(r"(?<!\\)\]\(([^)]*)\)")


ADDRESSES: Final = st.text(st.characters(exclude_characters="\"'<>&"), max_size=12) | st.sampled_from([
    "", "#", "?", "/", "//", "\\\\", "java\nscript:", "javascript&colon;", "\x01javascript:", "data:", "http:", "https://",
    "mailto:", "../", "HTTP://a.b/x(y)",
])  # fmt: skip


@given(st.lists(ADDRESSES, max_size=5))
def test_every_link_is_absolute_and_goes_to_a_place(addresses: list[str]) -> None:
    markdown = markdown_of(" ".join(f'<a href="{address}">t</a>' for address in addresses), BASE)
    for address in LINK.findall(markdown):
        assert re.match(r"(https?://[^/?#\s]+|mailto:|tel:)[^\s<>()]*\Z", address, re.IGNORECASE), address
