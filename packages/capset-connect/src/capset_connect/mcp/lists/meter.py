"""Size limit for a server's tools, prompts and instructions, over all pages (spec 7, M4, M26)."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from capset.errors import ToolError
from capset_connect.mcp.rooms import Room
from capset_connect.mcp.server import McpServer

LIST_BYTES: Final = 4 * 1024 * 1024
"""The limit for all lists of a server, in bytes of JSON. Each item and member counts ``_ITEM_BYTES`` more."""
_ITEM_BYTES: Final = 16
"""Accounts for the memory of an item, which far exceeds its text of possibly two bytes."""
_ITEMS: Final = (b",", b"[", b"{")
METHODS: Final = frozenset({"initialize", "server/discover", "tools/list", "prompts/list"})
"""The requests whose responses are counted."""
MEMBERS: Final = frozenset({"tools", "prompts", "instructions"})
"""Members of results. Every large response to one of ``METHODS`` has at least one of them."""


class ListMeter:
    """Counts the size of a server's lists on one connection as they arrive, if possible before they are parsed."""

    def __init__(self, server: McpServer, room: Room | None = None) -> None:
        self._server = server
        self._room = room
        self.size = 0
        """The counted size of the last list, or of the current one so far, in bytes."""
        self.error: ToolError | None = None
        """The error of the current or last list, if it was refused."""
        self._is_under_way = False

    @contextmanager
    def reading(self, *, from_zero: bool) -> Generator[None]:
        """Enable counting inside the context, from zero or from the previous count."""
        if from_zero:
            self.size = 0
        self.error, self._is_under_way = None, True
        try:
            yield
        finally:
            self._is_under_way = False

    def count(self, part: bytes) -> None:
        """Count a part of a response if a list is being read. Raises ``ToolError`` if the limit is exceeded."""
        if not self._is_under_way:
            return
        self.size += len(part) + _ITEM_BYTES * sum(map(part.count, _ITEMS))
        try:
            if self.size > LIST_BYTES:
                raise ToolError(
                    f"The MCP server {self._server.name!r} sent more than {LIST_BYTES // 2**20} MiB of tools and "
                    f"prompts: all pages count together, and each item of a list counts {_ITEM_BYTES} bytes in "
                    "addition to its text.",
                    code="too_large",
                    status=502,
                )
            if self._room is not None:
                self._room.check_lists()
        except ToolError as error:
            self.error = error
            raise
