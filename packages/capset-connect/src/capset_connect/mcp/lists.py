"""Bounds for what a server says of itself: tools, prompts and instructions, all pages together (spec 7, M4, M26)."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from capset.errors import ToolError
from capset_connect.mcp.rooms import Room
from capset_connect.mcp.server import McpServer

LIST_BYTES: Final = 4 * 1024 * 1024
"""Limit on what a server says of itself, in bytes of JSON; each item and member counts ``_ITEM_BYTES`` more."""
_ITEM_BYTES: Final = 16
"""An item of a list takes far more memory than its text, which may be two bytes."""
_ITEMS: Final = (b",", b"[", b"{")
METHODS: Final = frozenset({"initialize", "server/discover", "tools/list", "prompts/list"})
"""The requests whose answers count."""
MEMBERS: Final = frozenset({"tools", "prompts", "instructions"})
"""Members of results; each of these answers that is large has one of them."""


class ListMeter:
    """Counts what the server of one connection says of itself, as it arrives, and before it is parsed if possible."""

    def __init__(self, server: McpServer, room: Room | None = None) -> None:
        self._server = server
        self._room = room
        self.size = 0
        """The size of the list that was read last, or so far of one that is being read, in bytes as they count."""
        self.error: ToolError | None = None
        """The reason why the current list, or else the last one, was refused, if it was."""
        self._is_under_way = False

    @contextmanager
    def reading(self, *, from_zero: bool) -> Generator[None]:
        """Count inside: from zero, or on from the previous count."""
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
