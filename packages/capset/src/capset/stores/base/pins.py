"""The protocol of the pins: which tools of others were approved, and as what (spec 7, M5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from capset.stores.base.audit import Entry


@dataclass(frozen=True, slots=True)
class ToolPin:
    """A tool of a server as it was approved; ``shape`` is JSON, whose canonical form ``hash`` covers.

    ``approved_at`` is ISO 8601 UTC.
    """

    server: str
    tool: str
    hash: str
    shape: str
    approved_by: str
    approved_at: str


class PinStore(Protocol):
    """The pins of every server, one for each tool."""

    async def list(self, server: str | None = None) -> Sequence[ToolPin]:
        """Return the pins of a server, or of all, by server and tool."""
        ...

    async def change(
        self, server: str, add: Sequence[ToolPin], remove: Sequence[str] = (), *, act: Entry | None = None
    ) -> None:
        """Store pins of a server, in the place of those of the same tools, and remove others; all or nothing."""
        ...
