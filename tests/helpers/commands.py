"""The commands in texts, and their options as the command line has them."""

from __future__ import annotations

import re
from typing import Any, Final

import typer

from capset_cli.app import app

_APP: Final[Any] = typer.main.get_command(app)  # of typer's copy of click
_COMMANDS: Final[dict[str, Any]] = _APP.commands
_COMMAND: Final = re.compile(rf"(?:^|[\s/;`$(])capset ((?:{'|'.join(_COMMANDS)})\b[^\n|;)`#>]*)", re.MULTILINE)
_DEFAULT: Final = "serve"
"""The command of a group that its name may leave out."""


def commands_in(text: str) -> list[list[str]]:
    """Return the words of every ``capset …`` command in a text."""
    return [
        [word.strip("'\"[]…,") for word in command.split()] for command in _COMMAND.findall(text.replace("\\\n", " "))
    ]


def unknown_words(words: list[str]) -> list[str]:
    """Return the words of a command that name no command or option."""
    command, rest = _COMMANDS[words[0]], words[1:]
    while commands := getattr(command, "commands", {}):
        if rest and rest[0] in commands:
            command, rest = commands[rest[0]], rest[1:]
        elif _DEFAULT in commands:
            command = commands[_DEFAULT]
        elif rest and re.fullmatch("[a-z-]+", rest[0]):
            return [rest[0]]
        else:
            break
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    named = (word.partition("=")[0] for word in rest if word.startswith("--"))
    return [option for option in named if option not in options | {"--help", "--"}]
