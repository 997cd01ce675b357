"""Bounds for what a server says of itself: tools, prompts and instructions, all pages together (spec 7, M4, M26)."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from capset.adapters.mcp.rooms import Room
from capset.adapters.mcp.server import McpServer
from capset.errors import ToolError

LIST_BYTES: Final = 4 * 1024 * 1024
"""The most that a server may say of itself, as JSON in bytes; each item and member counts ``_ITEM_BYTES`` more."""
_ITEM_BYTES: Final = 16
"""An item of a list takes far more memory than its text, which may be two bytes."""
_ITEMS: Final = (b",", b"[", b"{")
METHODS: Final = frozenset({"initialize", "server/discover", "tools/list", "prompts/list"})
"""The requests whose answers count."""
MEMBERS: Final = frozenset({"tools", "prompts", "instructions"})
"""Members of results, of which each of these answers has one if it is large."""


class ListMeter:
    """Counts what one connection's server says of itself, as it comes, before it is parsed where that can be."""

    def __init__(self, server: McpServer, room: Room | None = None) -> None:
        self._server = server
        self._room = room
        self.size = 0
        """What it has said, in bytes as they count: last, or so far while a list is under way."""
        self.error: ToolError | None = None
        """Why the list that is under way, or was last, was refused, if it was."""
        self._is_under_way = False

    @contextmanager
    def reading(self, *, from_zero: bool) -> Generator[None]:
        """Count inside: from zero, or on from what was counted before."""
        if from_zero:
            self.size = 0
        self.error, self._is_under_way = None, True
        try:
            yield
        finally:
            self._is_under_way = False

    def count(self, part: bytes) -> None:
        """Count a part of an answer, if a list is under way. Raises ``ToolError`` if it is more than may be."""
        if not self._is_under_way:
            return
        self.size += len(part) + _ITEM_BYTES * sum(map(part.count, _ITEMS))
        try:
            if self.size > LIST_BYTES:
                raise ToolError(
                    f"The MCP server {self._server.name!r} says more of its tools and prompts than the "
                    f"{LIST_BYTES // 2**20} MiB that a list may have: all pages count together, and each item of a "
                    f"list {_ITEM_BYTES} bytes more than its text.",
                    code="too_large",
                    status=502,
                )
            if self._room is not None:
                self._room.check_lists()
        except ToolError as error:
            self.error = error
            raise
