"""What a page says itself, and what is said of it (spec 5, P26)."""

from __future__ import annotations

from typing import get_args

import pytest

from capset_tools.web_fetch import WebPage
from capset_tools.web_fetch.conversion import CUT
from capset_tools.web_fetch.page import Cut, own_text_of, suffix_of


def page(content: str, *, truncated: bool = True) -> WebPage:
    return WebPage(
        url="https://example.org/",
        status_code=200,
        content_type=None,
        size=None,
        format="raw",
        truncated=truncated,
        content=content,
    )


@pytest.mark.spec("P26")
@pytest.mark.parametrize("cut", [None, *get_args(Cut)])
@pytest.mark.parametrize("text", ["", "It says this.", f"Quoted: {suffix_of('time', 1)} and on", suffix_of("size", 9)])
def test_what_is_said_of_a_page_is_no_part_of_its_text(cut: Cut | None, text: str) -> None:
    ending = suffix_of(cut, 10_000_000)
    assert own_text_of(page(text + ending, truncated=cut is not None)) == text
    assert own_text_of(page(text + CUT + ending)) == text
    assert own_text_of(page(CUT.lstrip() + ending)) == ""


@pytest.mark.spec("P26")
def test_a_page_that_is_whole_may_say_the_same() -> None:
    assert own_text_of(page(f"so {suffix_of('time', 1)}", truncated=False)) == f"so {suffix_of('time', 1)}"
