"""The reference of the command line is that of the commands."""

from __future__ import annotations

from scripts.cli_reference import FOLDER, render
from scripts.pages import read_pages


def test_the_pages_are_what_the_code_says_of_itself() -> None:
    assert read_pages(FOLDER) == render(), "write them again: python -m scripts.cli_reference"
