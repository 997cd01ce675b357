"""Calls of the demo: each is shown, and unexpected outcomes are collected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from capset.cli.demo.display import show_call
from capset.kernel.call.session import Session
from capset.kernel.results import Result


class Stopped(Exception):
    """A call failed on which later ones depend; the surprises name it."""


class Calls:
    """The calls of one run, and its ``surprises``: the unexpected outcomes."""

    def __init__(self, console: Console) -> None:
        self.surprises: list[str] = []
        self._console = console

    async def ask(self, session: Session, tool: str, **arguments: Any) -> Any:  # JSON data, of the tool's own shape
        """Call a tool and return its output. Raises ``Stopped`` if it fails."""
        result, data = await self._call(session, tool, arguments)
        if result.error is not None:
            self.surprises.append(f"{tool} failed: {result.error.message}")
            raise Stopped
        return data

    async def refused(self, session: Session, code: str, tool: str, **arguments: Any) -> None:
        """Call a tool that must fail with this code."""
        result, _ = await self._call(session, tool, arguments)
        if result.error is None or result.error.code != code:
            self.surprises.append(f"{tool} should have been refused with {code}")

    async def _call(self, session: Session, tool: str, arguments: Mapping[str, Any]) -> tuple[Result[Any], Any]:
        data: Any = None
        async with session.invoke(session.message(tool, arguments)) as messages:
            async for message in messages:
                data = message.data if message.kind == "reply" else data
        show_call(self._console, tool, arguments, messages.result, data)
        return messages.result, data
