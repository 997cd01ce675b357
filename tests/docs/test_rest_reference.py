"""The reference of the REST API is that of the code."""

from __future__ import annotations

from scripts.pages import read_pages
from scripts.rest_reference import FOLDER, render


def test_the_pages_are_what_the_code_says_of_itself() -> None:
    assert read_pages(FOLDER) == render(), "write them again: python -m scripts.rest_reference"
