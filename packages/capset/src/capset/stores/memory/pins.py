"""The pins of external tools, in memory."""

from __future__ import annotations

from collections.abc import Sequence

from capset.stores.base import Entry, ToolPin
from capset.stores.memory.lifecycle import Lifecycle


class MemoryPins:
    """The pins, by server and tool."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        self._pins: dict[tuple[str, str], ToolPin] = {}

    async def list(self, server: str | None = None) -> Sequence[ToolPin]:
        self._lifecycle.check()
        return [pin for _, pin in sorted(self._pins.items()) if server is None or pin.server == server]

    async def change(
        self, server: str, add: Sequence[ToolPin], remove: Sequence[str] = (), *, act: Entry | None = None
    ) -> None:
        self._lifecycle.check()
        self._lifecycle.record(act)
        for tool in remove:
            self._pins.pop((server, tool), None)
        self._pins.update({(server, pin.tool): pin for pin in add})
