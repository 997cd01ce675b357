"""What a call says while it runs: one bar on a terminal, lines elsewhere, and nothing for programs."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Self, cast

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn

from capset.cli.output import cell, err, one_line
from capset.definitions.messages import Message
from capset.wire.messages import MessageShape, progress_of


class Watching:
    """``with Watching(quiet=…) as watching: watching.show(event)``, on stderr; the bar is gone at the end.

    That a call waits for its approval is told in any case, with the command to give it; ``where`` are the options by
    which that finds the request.
    """

    def __init__(self, *, quiet: bool, where: str = "") -> None:
        self._console: Console | None = None if quiet else err()
        self._where = where
        self._bar: Progress | None = None
        self._task = TaskID(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()

    def show(self, message: Message | MessageShape) -> None:
        """Show an event; messages of other kinds are none."""
        data: object = message.data
        if message.kind == "event" and message.type == "approval.requested" and isinstance(data, Mapping):
            self._ask(cast("Mapping[str, object]", data))
            return
        if self._console is None or message.kind != "event":
            return
        said = progress_of(message)
        if said is None:
            self._tell(f"{message.type} {json.dumps(message.data, ensure_ascii=False)}")
        elif sys.stderr.isatty() and not self._console.is_dumb_terminal:
            self._move(said.fraction, one_line(said.message or ""))
        else:
            self._tell(f"{said.fraction:>4.0%} {said.message or ''}")

    def _ask(self, request: Mapping[str, object]) -> None:
        """Say what waits for an approval, and how it is given."""
        approve = f"capset approvals approve {shlex.quote(str(request.get('id')))}{self._where}"
        asked = f"{request.get('tool')} {json.dumps(request.get('arguments'), ensure_ascii=False)}"
        console = err()
        console.print(f"[yellow]waiting for an approval:[/] {cell(asked)}", soft_wrap=True)
        console.print(f"[dim]{cell(str(request.get('reason')))}[/]", soft_wrap=True)
        console.print(f"[dim]{cell(approve)}[/]", soft_wrap=True)

    def _tell(self, line: str) -> None:
        if self._console is not None:
            self._console.print(f"[dim]{cell(line)}[/]", soft_wrap=True)

    def _move(self, fraction: float, told: str) -> None:
        """Move the bar, which is there from the first progress on."""
        if self._bar is not None:
            self._bar.update(self._task, completed=fraction, description=told)
            return
        columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.description}", markup=False))
        self._bar = Progress(*columns, console=self._console, transient=True)
        self._task = self._bar.add_task(told, total=1.0, completed=fraction)  # pyright: ignore[reportArgumentType]  # rich takes a float
        self._bar.start()
