"""The reference of the command line, made of the commands themselves when the site is built."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any, Final

import typer.core
import typer.main

from capset_cli.app import app

PAGES: Final = {
    "define": (
        "Definitions and hashes",
        "check compose describe diff doctor fingerprint init list schema",
        "Begin, look at agents, capabilities and files, and compare them. Nothing is called.",
    ),
    "files": (
        "Files of others",
        "export import",
        "Write agents in the formats of others, and make configurations of their tools and servers.",
    ),
    "run": (
        "Calls, agents, servers",
        "bench call chat demo kernel replay run serve worker",
        "Call tools, run agents, and serve them.",
    ),
    "mcp": (
        "MCP servers and gateway",
        "gateway mcp",
        "Approve the tools of MCP servers and APIs, serve them as one endpoint, and serve an agent over MCP.",
    ),
    "agents": ("Stored agents", "agents", "Write agents to a database or a server, and change them."),
    "sessions": (
        "Sessions and runs",
        "sessions runs",
        "Look after sessions and their files, and see what ran in them.",
    ),
    "approvals": (
        "Approvals",
        "approvals deliveries people",
        "See what waits for an approval, and decide it; enter who may decide in a chat, see what channels are told.",
    ),
    "audit": ("The record", "audit", "Read the record, verify it, sign it, and cut it off."),
    "db": ("Databases and keys", "db key", "Look after a database, and make keys for its servers."),
}
"""The pages: their titles, the commands and groups on each, and what these are for."""
_HEAD: Final = """\
# Commands

Every command with its arguments and options, made from the commands themselves; `capset COMMAND --help` says the same.
The guide is [The command line](../../guide/command-line.md): how agents are named, where settings come from, what the
exit codes mean.
"""
_OPTION: Final = re.compile(r"(?<![\w`-])(--?[a-z][\w-]*|\$\{[A-Z_]+\}|CAPSET_[A-Z_]+)")
"""Names of options and variables in a help text."""


def render() -> dict[str, str]:
    """Return the pages by the names of their files. Commands that ``PAGES`` does not name are on ``run``."""
    group: Any = typer.main.get_command(app)  # of typer's own classes
    commands = dict(group.commands)
    pages: dict[str, str] = {}
    index = [_HEAD.rstrip()]
    others = commands.keys() - {top for _, names, _ in PAGES.values() for top in names.split()}
    for page, (title, names, intro) in PAGES.items():
        tops = sorted({*names.split(), *(others if page == "run" else ())})
        entries = [(name, command) for top in tops for name, command in _found(f"capset {top}", commands[top])]
        pages[f"{page}.md"] = (
            "\n".join([f"# {title}\n\n{intro}\n", *(part for entry in entries for part in _command(*entry))]).rstrip()
            + "\n"
        )
        index += ["", f"## {title}", "", "| | |", "|---|---|"]
        index += [
            f"| [`{name}`]({page}.md#{name.replace(' ', '-')}) | {_sentence(command)} |" for name, command in entries
        ]
    return {"index.md": "\n".join(index) + "\n", **pages}


def _found(name: str, command: Any) -> Iterator[tuple[str, Any]]:  # of typer's own classes
    """Yield a command with its name, or all commands of a group, in the order of their names."""
    if isinstance(command, typer.core.TyperGroup):
        for child_name, inner in sorted(command.commands.items()):
            yield from _found(f"{name} {child_name}", inner)
    else:
        yield name, command


def _command(name: str, command: Any) -> Iterator[str]:  # of typer's own classes
    """Yield the section of a command."""
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = [
        parameter for parameter in command.params if parameter.param_type_name == "option" and not parameter.hidden
    ]
    usage = [name, *(["[OPTIONS]"] if options else []), *(_usage(parameter) for parameter in arguments)]
    yield f"## {name}\n\n{_plain(inspect.cleandoc(command.help or ''))}\n\n```text\n{' '.join(usage)}\n```\n"
    rows = [f"| `{_value(parameter)}` | {_plain(parameter.help or '')} |" for parameter in arguments]
    rows += [
        f"| `{_written(parameter)}` | {_plain(parameter.help or '')}{_default(parameter)} |" for parameter in options
    ]
    if rows:
        yield "\n".join(["| | |", "|---|---|", *rows, ""])


def _value(parameter: Any) -> str:  # a parameter of typer's
    return parameter.metavar or parameter.name.upper()


def _usage(parameter: Any) -> str:
    return _value(parameter) if parameter.required else f"[{_value(parameter)}]"


def _written(parameter: Any) -> str:
    return ", ".join([*parameter.opts, *parameter.secondary_opts]) + (
        "" if parameter.is_flag else f" {_value(parameter)}"
    )


def _default(parameter: Any) -> str:
    """Return the default of an option, if it has one that says something."""
    if (
        parameter.is_flag
        or parameter.default in (None, "", [], ())
        or callable(parameter.default)
        or not parameter.show_default
    ):
        return ""
    return " Default: this folder." if str(parameter.default) == "." else f" Default: `{parameter.default}`."


def _plain(text: str) -> str:
    """Return a help text as one line of a table or a paragraph of Markdown, with names of options as code."""
    plain = " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
    parts = plain.split("`")  # each second one is code already
    return "`".join(_OPTION.sub(r"`\1`", part) if place % 2 == 0 else part for place, part in enumerate(parts))


def _sentence(command: Any) -> str:  # of typer's own classes
    """Return the first sentence of a command's help."""
    return re.split(r"\.\s|: ", _plain(inspect.cleandoc(command.help or "")))[0].rstrip(".")
