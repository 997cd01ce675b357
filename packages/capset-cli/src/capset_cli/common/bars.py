"""Progress bars of calls on a terminal; elsewhere, each report is a line."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, TaskID, TaskProgressColumn, TextColumn
from rich.progress import Progress as Bars

from capset.definitions.calls.messages import Progress
from capset_cli.common.output import cell
from capset_cli.common.texts import one_line


class CallBars:
    """A progress bar for each call that reports its progress. A removed bar disappears from the screen."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars: Bars | None = None
        self._tasks: dict[str, TaskID] = {}

    def show(self, call: str, progress: Progress, *, name: str = "") -> None:
        """Show the progress of a call. ``name`` is that of its tool."""
        text = " ".join(part for part in (name, progress.message) if part)
        if not self._console.file.isatty() or self._console.is_dumb_terminal:
            self.print_line(f"{progress.fraction:>4.0%} {text}")
            return
        if self._bars is None:
            columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.description}", markup=False))
            self._bars = Bars(*columns, console=self._console, transient=True)
        description = one_line(text)
        if call in self._tasks:
            self._bars.update(self._tasks[call], completed=progress.fraction, description=description)
            return
        self._tasks[call] = self._bars.add_task(description, total=1.0)
        self._bars.update(self._tasks[call], completed=progress.fraction)
        self._bars.start()

    def print_line(self, text: str) -> None:
        """Print a line above the bars."""
        self._console.print(f"[dim]{cell(text)}[/]", soft_wrap=True)

    def remove(self, call: str) -> None:
        """Remove the bar of a call, if it has one."""
        if self._bars is None or (task := self._tasks.pop(call, None)) is None:
            return
        self._bars.remove_task(task)
        if not self._tasks:
            self.stop()

    def stop(self) -> None:
        """Remove all bars."""
        if self._bars is not None:
            self._bars.stop()
            self._bars = None
            self._tasks.clear()
