"""MCP servers and APIs as files declare them, in one way for both (spec 7, M6, M23)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Protocol

from capset.adapters.mcp.server import McpServer, server_of
from capset.adapters.openapi.api import OpenApi, api_of
from capset.definitions.capabilities import AnyCapability
from capset.wire.tool_sources import ApiShape, McpServerShape

Source = McpServer | OpenApi
Upstream = Callable[[Source], AnyCapability]
"""Returns the capability of a source, made of what is pinned of it somewhere."""
KEYS = ("mcp_servers", "apis")
"""The members of a file that declare sources."""


class Declaring(Protocol):
    """The content of a file that declares sources."""

    @property
    def mcp_servers(self) -> Mapping[str, McpServerShape]:
        """Servers by name."""
        ...

    @property
    def apis(self) -> Mapping[str, ApiShape]:
        """APIs by name."""
        ...


def declarations(shape: Declaring, folder: Path) -> Iterator[tuple[str, Callable[[], Source]]]:
    """Yield the place of each source that a file in ``folder`` declares, and a function that returns the source.

    The function raises ``DefinitionError``.
    """
    for name, server in shape.mcp_servers.items():
        yield f"mcp_servers.{name}", partial(server_of, name, server, folder)
    for name, api in shape.apis.items():
        yield f"apis.{name}", partial(api_of, name, api, folder)
