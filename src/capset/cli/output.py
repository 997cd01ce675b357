"""Printing: JSON for programs, tables and one-line errors for people."""

from __future__ import annotations

import json
import sys
from typing import Any, Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from capset.errors import CapsetError
from capset.wire.errors import error_shape

PIPE_WIDTH: Final = 160
"""Columns of text when it goes to a file or another program."""
_CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}
"""What could move a terminal's cursor, or change what is seen."""


class _Console(Console):
    """A console that leaves a closed pipe to ``guarded``."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def out() -> Console:
    """Return a console for results, wide where nobody's terminal limits it; it guesses at nothing in other texts."""
    return _Console(highlight=False, emoji=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)


def err() -> Console:
    """Return a console for what is said beside the results."""
    return _Console(stderr=True, highlight=False, emoji=False)


def print_json(data: Any) -> None:  # plain JSON data
    """Print one JSON value, on one line, in ASCII: every stream takes that."""
    print(json.dumps(data), flush=True)


def print_error(error: CapsetError, *, as_json: bool) -> None:
    """Say what went wrong and what to do: to people on stderr, to programs as JSON on stdout."""
    if as_json:
        print_json({"success": False, "error": error_shape(error).plain()})
        return
    console = err()
    console.print(f"[red]error:[/] {verbatim(error.message)}", soft_wrap=True)
    if error.hint:
        console.print(f"[dim]hint:[/]  {verbatim(error.hint)}", soft_wrap=True)


def visible(text: str) -> str:
    """Return text with its control characters spelled out, but for new lines and tabs."""
    return text.translate(_CONTROLS)


def verbatim(text: str) -> str:
    """Return other people's text for a console: no markup in it, no control characters."""
    return escape(visible(text))


def cell(text: str) -> str:
    """Return other people's text for one line of a console, such as a table's row."""
    return verbatim(text.replace("\n", "\\n"))


def table(*columns: str) -> Table:
    """Return an empty table in the house style."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, no_wrap=True)
    return made


def short(digest: str | None) -> str:
    """Return the first twelve digits of a hash."""
    return (digest or "–")[:12]
