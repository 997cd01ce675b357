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
from capset_cli.common.output import cell, err, out, pretty, print_json, verbatim
from capset_cli.common.texts import visible

_REFUSED: Final = (401, 403, 409, 429)
_TEXTS: Final = ("text.delta", "reasoning.delta", "text.discarded")
"""The events of an incomplete answer."""
_MAX_SHOWN: Final = 200
"""The maximum length of arguments or results that are shown in one line."""


class TurnView:
    """Shows one turn after another: the agent's text on stdout, the rest on stderr; with ``as_json``, all on stdout."""

    def __init__(self, *, as_json: bool = False, console: Console | None = None) -> None:
        """Show everything on ``console`` if one is given."""
        self._as_json = as_json
        self._out = console or out()
        self._err = console or err()
        self._has_text = False
        self._held: list[str] = []
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
        self._print_held()
        match event.type:
            case "tool.called":
                self._break()
                self._calls[str(data["call"])] = f"{data['tool']} {_short(data['arguments'])}"
            case "tool.progress":
                self._break()
                progress = Progress(data["fraction"], data["message"])
                self._bars.show(str(data["call"]), progress, name=str(data["tool"]))
            case "tool.result":
                self._bars.remove(str(data["call"]))
                self._show_result(data)
            case "approval.requested":
                self._show_request(data)
            case "turn.resumed" if data["changed"]:
                self._note("the agent's tools have changed since the turn was suspended")
            case "turn.ended":
                self._end(data)
            case "turn.failed":
                self._break()
                error = data["error"]
                self._err.print(f"[red]error:[/] {verbatim(str(error['message']))}", soft_wrap=True)
            case "turn.cancelled":
                self._note("cancelled")
            case _:
                pass

    def tell(self, markup: str) -> None:
        """Print a line of markup for people; with ``as_json``, print nothing."""
        if not self._as_json:
            self.clear()
            self._break()
            self._err.print(markup, soft_wrap=True)

    def clear(self) -> None:
        """Remove the bars of calls that are running."""
        self._bars.stop()

    def _show_result(self, data: dict[str, Any]) -> None:
        self._break()
        called = self._calls.pop(str(data["call"]), str(data["tool"]))
        if data["success"]:
            self._err.print(f"[green]✓[/] {cell(called)} [dim]→ {cell(_short(data['data']))}[/]", soft_wrap=True)
        else:
            first = str(data["text"]).partition("\n")[0]
            self._err.print(f"[red]✗[/] {cell(called)} [dim]{data['code']}: {cell(first)}[/]", soft_wrap=True)

    def _show_request(self, data: dict[str, Any]) -> None:
        self._break()
        code = data.get("code_hash")
        self._err.print(f"[yellow]?[/] {cell(str(data['tool']))} needs an approval: {cell(str(data['reason']))}")
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
        self._err.print(f"  [dim]arguments[/]   {verbatim(text)}", soft_wrap=True)

    def _print_text(self, text: str) -> None:
        self._out.print(visible(text), end="", markup=False, soft_wrap=True)
        sys.stdout.flush()
        self._has_text = True

    def _show_text(self, event: EventShape) -> None:
        if event.type == "text.discarded":
            self._held.clear()
            self._note("the model's answer broke off; asking again")
        elif event.type == "text.delta" and self._out.file.isatty():
            self._print_text(str(event.data["text"]))
        elif event.type == "text.delta":
            self._held.append(str(event.data["text"]))

    def _print_held(self) -> None:
        pieces, self._held = self._held, []
        if pieces:
            self._print_text("".join(pieces))

    def _end(self, data: dict[str, Any]) -> None:
        output = data["output"]
        if isinstance(output, str):
            if not self._has_text:
                self._print_text(output)
        else:
            self._break()
            self._print_text(pretty(output))
        self._break()
        if data.get("file"):
            self._note(f"the whole output is in the session's file {data['file']}")

    def _note(self, text: str) -> None:
        self._break()
        self._err.print(f"[dim]{cell(text)}[/]", soft_wrap=True)

    def _break(self) -> None:
        if self._has_text:
            self._out.print()
            self._has_text = False


def exit_of(event: EventShape) -> Exit:
    """Return the exit code of a turn that ended with an event."""
    if event.type == "turn.ended":
        return Exit.DONE
    if event.type == "turn.cancelled":
        return Exit.FAILED
    status = event.data["error"]["status"]
    return Exit.REFUSED if status in _REFUSED else Exit.BAD_INPUT if status in (400, 404, 422) else Exit.FAILED


def _short(value: Any) -> str:  # any JSON
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…"
