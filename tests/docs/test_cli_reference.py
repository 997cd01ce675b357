"""The reference of the command line is that of the commands."""

from __future__ import annotations

from scripts.cli_reference import PAGE, render


def test_the_page_is_what_the_commands_say_of_themselves() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "write it again: python -m scripts.cli_reference"
