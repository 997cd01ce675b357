"""Generator runners for tests of turns."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from capset.definitions.calls.messages import Json
from capset.errors import ToolError
from capset.kernel.blocks.generation import Turn


@dataclass
class Parrot:
    """A runner that does what it is told: ``{"say": …, "call": "echo"}``, ``{"fail": "why"}``, ``{"wait": true}``.

    What is waited for goes on when ``go`` is set; ``ran`` counts the turns, ``cut`` those that were cancelled.
    """

    go: asyncio.Event = field(default_factory=asyncio.Event)
    started: asyncio.Event = field(default_factory=asyncio.Event)
    ran: int = 0
    cut: int = 0

    async def run(self, turn: Turn) -> Any:
        """Take one turn."""
        self.ran += 1
        self.started.set()
        request = turn.input if isinstance(turn.input, dict) else {"say": turn.input}
        step = await turn.step()
        for name in request.get("call", "").split():
            await step.call(name, Json(b"{}"))
        if request.get("wait"):
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.cut += 1
                raise
        if "fail" in request:
            raise ToolError(request["fail"], code="failed_politely")
        if "crash" in request:
            raise RuntimeError("the password is hunter2")
        return request.get("say")
