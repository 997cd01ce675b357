"""The protocol of pins: the tools of third parties as they were approved (spec 7, M5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from capset.stores.base.audit import Entry


@dataclass(frozen=True, slots=True)
class ToolPin:
    """A tool of a server as it was approved. ``hash`` is over the canonical form of ``shape``, which is JSON.

    ``approved_at`` is ISO 8601 UTC.
    """

    server: str
    tool: str
    hash: str
    shape: str
    approved_by: str
    approved_at: str


class PinStore(Protocol):
    """The pins of every server, one per tool."""

    async def list(self, server: str | None = None) -> Sequence[ToolPin]:
        """Return the pins of a server, or of all servers, ordered by server and tool."""
        ...

    async def change(
        self, server: str, add: Sequence[ToolPin], remove: Sequence[str] = (), *, act: Entry | None = None
    ) -> None:
        """Store pins of a server, replacing those of the same tools, and remove those of other tools, atomically."""
        ...
