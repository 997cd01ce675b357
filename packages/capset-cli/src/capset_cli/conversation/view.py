"""The events of turns on a terminal: text as it comes, each call as a line; or as NDJSON for programs."""

from __future__ import annotations

import json
import sys
from typing import Any, Final

from rich.console import Console

from capset.definitions.calls.messages import Progress
from capset.wire.turns import EventShape
from capset_cli.common.bars import CallBars
from capset_cli.common.exits import Exit
from capset_cli.common.output import cell, err, escaped, out, pretty, print_json
from capset_cli.common.texts import visible

_REFUSED: Final = (401, 403, 409, 429)
_TEXTS: Final = ("text.delta", "reasoning.delta", "text.discarded")
"""The events of an incomplete answer."""


class TurnView:
    """Shows one turn after another: the agent's text on stdout, the rest on stderr; with ``as_json``, all on stdout."""

    def __init__(self, *, as_json: bool = False, console: Console | None = None) -> None:
        """Show everything on ``console`` if one is given."""
        self._as_json = as_json
        self._out = console or out()
        self._err = console or err()
        self._has_text = False
        self._held_text: list[str] = []
        """The text of the current step. Off a terminal it is held back, as printed text cannot be discarded there."""
        self._calls: dict[str, str] = {}
        self._bars = CallBars(self._err)

    def show(self, event: EventShape) -> None:
        """Show an event."""
        if self._as_json:
            print_json(event.plain())
            return
        data = event.data
        if event.type not in ("tool.progress", "tool.executed", "tool.result"):  # calls keep the bars of others
            self._bars.stop()
        if event.type in _TEXTS:
            self._show_text(event)
            return
        self._print_held_text()
        match event.type:
            case "tool.called":
                self._end_line()
                self._calls[str(data["call"])] = f"{data['tool']} {_shorten(data['arguments'])}"
            case "tool.progress":
                self._end_line()
                progress = Progress(data["fraction"], data["message"])
                self._bars.show(str(data["call"]), progress, name=str(data["tool"]))
            case "tool.result":
                self._bars.remove(str(data["call"]))
                self._show_result(data)
            case "approval.requested":
                self._show_request(data)
            case "turn.resumed" if data["changed"]:
                self._print_dim("the agent's tools have changed since the turn was suspended")
            case "turn.ended":
                self._show_output(data)
            case "turn.failed":
                self._end_line()
                error = data["error"]
                self._err.print(f"[red]error:[/] {escaped(str(error['message']))}", soft_wrap=True)
            case "turn.cancelled":
                self._print_dim("cancelled")
            case _:
                pass

    def print_note(self, markup: str) -> None:
        """Print a line of markup for people; with ``as_json``, print nothing."""
        if not self._as_json:
            self.clear()
            self._end_line()
            self._err.print(markup, soft_wrap=True)

    def clear(self) -> None:
        """Remove the bars of calls that are running."""
        self._bars.stop()

    def _show_result(self, data: dict[str, Any]) -> None:
        self._end_line()
        called = self._calls.pop(str(data["call"]), str(data["tool"]))
        if data["success"]:
            self._err.print(f"[green]✓[/] {cell(called)} [dim]→ {cell(_shorten(data['data']))}[/]", soft_wrap=True)
        else:
            first = str(data["text"]).partition("\n")[0]
            self._err.print(f"[red]✗[/] {cell(called)} [dim]{data['code']}: {cell(first)}[/]", soft_wrap=True)

    def _show_request(self, data: dict[str, Any]) -> None:
        self._end_line()
        code = data.get("code_hash")
        needed = "an approval" if data.get("connect") is None else "a connection"
        self._err.print(f"[yellow]?[/] {cell(str(data['tool']))} needs {needed}: {cell(str(data['reason']))}")
        self._print_arguments(data["arguments"])
        for file in data.get("files", ()):
            about = f"{file['path']}, {file['size_bytes']} bytes, SHA-256 {file['sha256']}"
            self._err.print(f"  [dim]file[/]        {cell(about)}", soft_wrap=True)
        self._err.print(f"  [dim]for[/]         {cell(str(data['principal']))}, until {data['expires_at']}")
        if data.get("needs"):
            self._err.print(f"  [dim]needs[/]       {cell(str(data['needs']))}", soft_wrap=True)
        self._err.print(f"  [dim]fingerprint[/] {data['tool_hash'][:16]}… code {code[:16] + '…' if code else '–'}")
        self._err.print(f"  [dim]request[/]     {cell(str(data['id']))}", soft_wrap=True)

    def show_arguments(self, arguments: Any) -> None:
        """Show the arguments of a request again, with fewer of them masked."""
        if self._as_json:
            print_json({"arguments": arguments})
        else:
            self._print_arguments(arguments)

    def _print_arguments(self, arguments: Any) -> None:
        text = pretty(arguments).replace("\n", f"\n{' ' * 14}")  # strings in JSON contain no line breaks
        self._err.print(f"  [dim]arguments[/]   {escaped(text)}", soft_wrap=True)

    def _print_text(self, text: str) -> None:
        self._out.print(visible(text), end="", markup=False, soft_wrap=True)
        sys.stdout.flush()
        self._has_text = True

    def _show_text(self, event: EventShape) -> None:
        if event.type == "text.discarded":
            self._held_text.clear()
            self._print_dim("the model's answer broke off; asking again")
        elif event.type == "text.delta" and self._out.file.isatty():
            self._print_text(str(event.data["text"]))
        elif event.type == "text.delta":
            self._held_text.append(str(event.data["text"]))

    def _print_held_text(self) -> None:
        pieces, self._held_text = self._held_text, []
        if pieces:
            self._print_text("".join(pieces))

    def _show_output(self, data: dict[str, Any]) -> None:
        output = data["output"]
        if isinstance(output, str):
            if not self._has_text:
                self._print_text(output)
        else:
            self._end_line()
            self._print_text(pretty(output))
        self._end_line()
        if data.get("file"):
            self._print_dim(f"the whole output is in the session's file {data['file']}")

    def _print_dim(self, text: str) -> None:
        self._end_line()
        self._err.print(f"[dim]{cell(text)}[/]", soft_wrap=True)

    def _end_line(self) -> None:
        if self._has_text:
            self._out.print()
            self._has_text = False


def exit_code_of(event: EventShape) -> Exit:
    """Return the exit code of a turn that ended with an event."""
    if event.type == "turn.ended":
        return Exit.DONE
    if event.type == "turn.cancelled":
        return Exit.FAILED
    status = event.data["error"]["status"]
    return Exit.REFUSED if status in _REFUSED else Exit.BAD_INPUT if status in (400, 404, 422) else Exit.FAILED


def _shorten(value: Any, *, limit: int = 200) -> str:  # any JSON
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= limit else text[: limit - 1] + "…"
