"""The reference of the REST API is that of the code."""

from __future__ import annotations

from scripts.rest_reference import PAGE, render


def test_the_page_is_what_the_server_says_of_itself() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "write it anew: python -m scripts.rest_reference"
