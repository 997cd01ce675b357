"""The sections of ``capset --help``."""

from __future__ import annotations

from capset_cli.app import COMMANDS, GROUPS, PANELS


def test_every_command_is_in_one_section() -> None:
    names = [name for section in PANELS.values() for name in section.split()]
    assert sorted(names) == sorted([*COMMANDS, *GROUPS])
