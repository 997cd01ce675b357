"""The demo's screen output, and its calls: each is shown, and unexpected outcomes are collected."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from capset.definitions.calls.records import Record
from capset.kernel.call.session import Session
from capset.kernel.results import Result
from capset.stores.base import Page
from capset.wire.operations import InterfaceCallShape
from capset_cli.common.output import cell, escaped, short_hash, table


def show_session(console: Console, session: Session, folder: Path) -> None:
    """Print the agent, its capabilities, and the folder of the demo."""
    agent = session.snapshot.composition.block
    capabilities = ", ".join(capability.name for capability in agent.uses if not callable(capability))
    console.print(f"[bold]{escaped(agent.name)}[/] with {capabilities}, in {escaped(str(folder))}", soft_wrap=True)


def show_hashes(console: Console, session: Session) -> None:
    """Print the exact version of the agent, which its records name."""
    snapshot = session.snapshot
    console.print(f"the records name the exact version of {escaped(snapshot.composition.block.name)}:")
    for name in ("static_hash", "runtime_hash", "prompt_hash"):
        console.print(f"  [dim]{name:<12}[/] {getattr(snapshot, name)}", soft_wrap=True)


def show_call(
    console: Console, tool: str, arguments: Mapping[str, Any], result: Result[Any], data: Any
) -> None:  # arguments and data are the tool's own
    """Show one call in one line: the tool, its arguments, and the outcome."""
    mark = "[green]✓[/]" if result.success else "[red]✗[/]"
    outcome = json.dumps(data, ensure_ascii=False) if result.error is None else result.error.message
    arguments_text = json.dumps(arguments, ensure_ascii=False)
    line = f"{mark} [bold]{tool}[/] {cell(_cut(arguments_text, 60))} [dim]→[/] {cell(outcome)}"
    console.print(line, no_wrap=True, overflow="ellipsis", soft_wrap=False)


def show_records(console: Console, page: Page[Record, int]) -> None:
    """Show the records, in the order they were written."""
    columns = ("SEQ", "PRINCIPAL", "TOOL", "DECISION", "OUTCOME", "ms", "RUNTIME", "HASH")
    console.print(table(*columns, rows=map(_row, reversed(page.items)), folds=("TOOL",)))


def show_progress(console: Console, data: Any) -> None:
    """Show the progress that a tool reports."""
    done = round(data["fraction"] * 20)
    console.print(f"  [dim]{'█' * done}{'░' * (20 - done)} {data['fraction']:>4.0%} {cell(data['message'] or '')}[/]")


def show_interfaces(console: Console, calls: list[InterfaceCallShape]) -> None:
    """Show the record of each interface."""
    rows = ((call.door, call.tool, call.outcome, short_hash(call.runtime_hash), call.record) for call in calls)
    console.print(
        table("DOOR", "TOOL", "OUTCOME", "RUNTIME", "RECORD", rows=(map(cell, row) for row in rows), folds=())
    )


def _row(record: Record) -> list[str]:
    texts = (record.principal, record.tool, record.decision or "–", record.outcome or "–")
    milliseconds = f"{(record.duration_us or 0) / 1000:.1f}"
    return [str(record.seq), *map(cell, texts), milliseconds, short_hash(record.runtime_hash), short_hash(record.hash)]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


class CallFailed(Exception):
    """Raised when a call fails on which later ones depend. ``Calls.surprises`` names it."""


class Calls:
    """The calls of one run, and its ``surprises``: the unexpected outcomes."""

    def __init__(self, console: Console) -> None:
        self.surprises: list[str] = []
        self._console = console

    async def call(self, session: Session, tool: str, **arguments: Any) -> Any:  # JSON data, of the tool's own shape
        """Call a tool and return its output. Raises ``CallFailed`` if it fails."""
        result, data = await self._invoke(session, tool, arguments)
        if result.error is not None:
            self.surprises.append(f"{tool} failed: {result.error.message}")
            raise CallFailed
        return data

    async def expect_refusal(self, session: Session, code: str, tool: str, /, **arguments: Any) -> None:
        """Call a tool that must fail with the error ``code``."""
        result, _ = await self._invoke(session, tool, arguments)
        if result.error is None or result.error.code != code:
            self.surprises.append(f"{tool} should have been refused with {code}")

    async def _invoke(self, session: Session, tool: str, arguments: Mapping[str, Any]) -> tuple[Result[Any], Any]:
        data: Any = None
        async with session.invoke(session.message(tool, arguments)) as messages:
            async for message in messages:
                data = message.data if message.kind == "reply" else data
        show_call(self._console, tool, arguments, messages.result, data)
        return messages.result, data


def show_skipped(console: Console, skipped: Sequence[str]) -> None:
    """Print the skipped files with their reasons. Many files with the same reason share a line."""
    paths: dict[str, list[str]] = {}
    for line in skipped:
        path, _, reason = line.partition(": ")
        paths.setdefault(reason, []).append(path)
    for reason, names in paths.items():
        if len(names) > 3:  # too many to name them all
            summary = f"{len(names)} files, {names[0]} and others"
            console.print(f"[yellow]skipped[/] {cell(summary)}: {cell(reason)}", soft_wrap=True)
            continue
        for name in names:
            console.print(f"[yellow]skipped[/] {cell(name)}: {cell(reason)}", soft_wrap=True)
