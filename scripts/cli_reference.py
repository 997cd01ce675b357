"""``python -m scripts.cli_reference``: write the reference of the command line, from the commands themselves."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import typer.core
import typer.main

from capset.cli.app import app

PAGE: Final = Path(__file__).parents[1] / "docs" / "reference" / "command-line.md"
_HEAD: Final = """\
# Commands

Every command with its arguments and options, made from the commands themselves; `capset COMMAND --help` says the same.
The guide is [The command line](../guide/command-line.md): how agents are named, where settings come from, what the exit
codes mean.
"""


def render() -> str:
    """Return the page."""
    return "\n".join([_HEAD, *_commands("capset", typer.main.get_command(app))]).rstrip() + "\n"


def _commands(name: str, command: Any) -> Iterator[str]:  # of typer's own classes
    """Yield the sections of a command, or of all commands of a group, in the order of their names."""
    if isinstance(command, typer.core.TyperGroup):
        for one, inner in sorted(command.commands.items()):
            yield from _commands(f"{name} {one}", inner)
        return
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and not one.hidden]
    usage = [name, *(["[OPTIONS]"] if options else []), *(_usage(one) for one in arguments)]
    yield f"## {name}\n\n{_plain(inspect.cleandoc(command.help or ''))}\n\n```text\n{' '.join(usage)}\n```\n"
    rows = [f"| `{_value(one)}` | {_plain(one.help or '')} |" for one in arguments]
    rows += [f"| `{_written(one)}` | {_plain(one.help or '')}{_default(one)} |" for one in options]
    if rows:
        yield "\n".join(["| | |", "|---|---|", *rows, ""])


def _value(one: Any) -> str:  # a parameter of typer's
    return one.metavar or one.name.upper()


def _usage(one: Any) -> str:
    return _value(one) if one.required else f"[{_value(one)}]"


def _written(one: Any) -> str:
    return ", ".join([*one.opts, *one.secondary_opts]) + ("" if one.is_flag else f" {_value(one)}")


def _default(one: Any) -> str:
    """Return the default of an option, if it has one that says something."""
    if one.is_flag or one.default in (None, "", [], ()) or callable(one.default) or not one.show_default:
        return ""
    return f" Default: `{one.default}`."


def _plain(text: str) -> str:
    """Return a help text as one line of a table or a paragraph of Markdown."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
