"""Printing: JSON for programs, tables and one-line errors for people."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterable
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from capset.errors import CapsetError
from capset.wire.errors import error_shape

PIPE_WIDTH: Final = 160
"""The width of text in columns when it goes to a file or another program."""
LONGEST_WORD: Final = 24
"""The maximum width of text in table columns that never wrap."""
_HIDDEN: Final = ("Cc", "Cf", "Zl", "Zp")
"""Unicode categories that could move a terminal's cursor or change its display: controls, formats, separators."""


class _Spelling(dict[int, str]):
    """A table for ``str.translate`` that spells out hidden characters; filled as characters are met."""

    def __missing__(self, code: int) -> str:
        shown = chr(code)
        if shown not in "\n\t" and unicodedata.category(shown) in _HIDDEN:
            shown = f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
        self[code] = shown
        return shown


_SPELLING: Final = _Spelling()


class _Console(Console):
    """A console that leaves a closed pipe to ``guarded``."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def out() -> Console:
    """Return a console for results, wide when output is not a terminal, without highlighting or emoji codes."""
    return _Console(highlight=False, emoji=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)


def err() -> Console:
    """Return a console for everything besides the results."""
    return _Console(stderr=True, highlight=False, emoji=False)


def print_json(data: Any) -> None:  # plain JSON data
    """Print one JSON value on one line, in ASCII, which every stream accepts."""
    print(json.dumps(data), flush=True)


def print_error(error: CapsetError, *, as_json: bool) -> None:
    """Report an error and its hint: to people on stderr, to programs as JSON on stdout."""
    if as_json:
        print_json({"success": False, "error": error_shape(error).plain()})
        return
    console = err()
    console.print(f"[red]error:[/] {verbatim(error.message)}", soft_wrap=True)
    if error.hint:
        console.print(f"[dim]hint:[/]  {verbatim(error.hint)}", soft_wrap=True)


def in_one(error: CapsetError) -> str:
    """Return an error with its hint as one text, for a warning."""
    return error.message if error.hint is None else f"{error.message}; {error.hint}"


def pretty(value: Any) -> str:  # plain JSON data
    """Return JSON formatted for people."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def visible(text: str) -> str:
    """Return text with control and format characters spelled out, except for newlines and tabs."""
    return text.translate(_SPELLING)


def one_line(text: str) -> str:
    """Return text as ``visible`` does, with newlines spelled out too."""
    return visible(text).replace("\n", "\\n")


def verbatim(text: str) -> str:
    """Return untrusted text for a console, without markup or control characters."""
    return escape(visible(text))


def cell(text: str) -> str:
    """Return untrusted text for one line of a console, such as a table's row."""
    return escape(one_line(text))


def table(*columns: str, rows: Iterable[Iterable[str]], folds: Iterable[str]) -> Table:
    """Return a table in the common style, with rows of markup.

    On a narrow terminal, the columns ``folds`` wrap, and those with a text longer than ``LONGEST_WORD``.
    """
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    lines = [list(row) for row in rows]
    for position, column in enumerate(columns):
        longest = max((cell_len(Text.from_markup(line[position]).plain) for line in lines), default=0)
        made.add_column(column, no_wrap=column not in folds and longest <= LONGEST_WORD, overflow="fold")
    for line in lines:
        made.add_row(*line)
    return made


def short(digest: str | None) -> str:
    """Return the first eight digits of a hash, for one line of a console."""
    return cell((digest or "–")[:8])
