"""Printing: JSON for programs, tables and one-line errors for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from capset.errors import CapsetError
from capset.wire.errors import error_shape
from capset_cli.common.texts import one_line, visible


class _Console(Console):
    """A console that leaves a closed pipe to ``guarded``."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def out() -> Console:
    """Return a console for results, wide when output is not a terminal, without highlighting or emoji codes."""
    return _Console(highlight=False, emoji=False, width=None if sys.stdout.isatty() else 160)


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
    console.print(f"[red]error:[/] {escaped(error.message)}", soft_wrap=True)
    if error.hint:
        console.print(f"[dim]hint:[/]  {escaped(error.hint)}", soft_wrap=True)


def error_text(error: CapsetError) -> str:
    """Return an error with its hint as one text, for a warning."""
    return error.message if error.hint is None else f"{error.message}; {error.hint}"


def pretty(value: Any) -> str:  # plain JSON data
    """Return JSON formatted for people."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def escaped(text: str) -> str:
    """Return untrusted text for a console, without markup or control characters."""
    return escape(visible(text))


def cell(text: str) -> str:
    """Return untrusted text for one line of a console, such as a table's row."""
    return escape(one_line(text))


def table(*columns: str, rows: Iterable[Iterable[str]], folds: Iterable[str]) -> Table:
    """Return a table in the common style, with rows of markup.

    On a narrow terminal, text wraps in the columns ``folds`` and in those with text wider than 24 characters.
    """
    new_table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    lines = [list(row) for row in rows]
    for position, column in enumerate(columns):
        longest = max((cell_len(Text.from_markup(line[position]).plain) for line in lines), default=0)
        new_table.add_column(column, no_wrap=column not in folds and longest <= 24, overflow="fold")
    for line in lines:
        new_table.add_row(*line)
    return new_table


def print_table(columns: Sequence[str], rows: Iterable[Iterable[str]], *, folds: Iterable[str], empty: str) -> None:
    """Print a table. Without rows, print ``empty`` on stderr: what there is none of, and how one comes about."""
    lines = list(rows)
    if lines:
        out().print(table(*columns, rows=lines, folds=folds))
    else:
        err().print(f"[dim]{escaped(empty)}[/]", soft_wrap=True)


class PrintablePage(Protocol):
    """A page of a list, and the cursor of the next one."""

    @property
    def next(self) -> object: ...
    def plain(self) -> object: ...


def print_page(
    page: PrintablePage,
    columns: Sequence[str],
    rows: Iterable[Iterable[str]],
    *,
    folds: Iterable[str],
    as_json: bool,
    empty: str,
    option: str = "--before",
) -> None:
    """Print a page of a list as ``print_table`` does, and the option that continues after it."""
    if as_json:
        print_json(page.plain())
        return
    print_table(columns, rows, folds=folds, empty=empty)
    if page.next is not None:
        err().print(f"[dim]more: {option} {cell(str(page.next))}[/]")


def short_hash(digest: str | None) -> str:
    """Return the first eight digits of a hash, for one line of a console."""
    return cell((digest or "–")[:8])
