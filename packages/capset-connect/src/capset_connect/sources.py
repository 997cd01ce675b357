"""MCP servers and APIs that files declare, handled alike (spec 7, M6, M23)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from capset.definitions.capabilities import AnyCapability
from capset.errors import DefinitionError
from capset.wire.tool_sources import ApiShape, McpServerShape, ProviderShape
from capset_connect.declarations import SOURCE
from capset_connect.mcp.server import McpServer, McpSource, server_of
from capset_connect.openapi.api import ApiSource, OpenApi, api_of

Source = McpServer | OpenApi
Upstream = Callable[[Sequence[Source]], Callable[[Source], AnyCapability]]
"""Reads the pins of all sources at once, and returns a function that creates the capability of each."""
KEYS = ("mcp_servers", "apis")
"""The members of a file that declare sources."""
_KEY: Final = re.compile(rf"(api:)?({SOURCE.pattern})")


def source_named(key: str) -> McpSource | ApiSource:
    """Return the source that a pin key names, by its name alone. Raises ``DefinitionError`` for an invalid key."""
    match = _KEY.fullmatch(key)
    if match is None:
        raise DefinitionError(f"{key!r:.80} is not the name of an MCP server or API")
    return McpSource(name=match[2]) if match[1] is None else ApiSource(name=match[2])


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

    @property
    def providers(self) -> Mapping[str, ProviderShape]:
        """Providers by name."""
        ...


def declarations(shape: Declaring, folder: Path) -> Iterator[tuple[str, Callable[[], Source]]]:
    """Yield the place of each source that a file in ``folder`` declares, and a function that returns the source.

    The function raises ``DefinitionError``.
    """
    for name, server in shape.mcp_servers.items():
        yield f"mcp_servers.{name}", partial(server_of, name, server, folder, shape.providers)
    for name, api in shape.apis.items():
        yield f"apis.{name}", partial(api_of, name, api, folder, shape.providers)
