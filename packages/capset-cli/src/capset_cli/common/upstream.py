"""MCP servers and APIs of a file, on the command line: capabilities of what is pinned of them in a database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from capset.definitions.capabilities import AnyCapability
from capset.definitions.secrets import Secrets
from capset.errors import CapsetError, DefinitionError
from capset.kernel.kernel import Kernel
from capset.kernel.runtime import EnvironmentSecrets
from capset.stores.base.pins import ToolPin
from capset_cli.common.exits import needs_extra
from capset_cli.common.output import err, in_one, verbatim
from capset_cli.common.settings import has_db
from capset_connect.openapi.api import OpenApi
from capset_connect.sources import Source

if TYPE_CHECKING:
    from capset_connect.mcp import McpServers
    from capset_connect.mcp.connection import McpConnection
    from capset_connect.offers import Offer
    from capset_connect.openapi.client import OpenApiClient
    from capset_connect.pins import Approved


@asynccontextmanager
async def asked(source: Source, secrets: Secrets) -> AsyncGenerator[McpConnection | OpenApiClient]:
    """Yield what says which tools a source has. Raises ``DefinitionError`` if the extra ``mcp`` is needed and missing.

    What needs the SDK, and what reads documents, is imported only here.
    """
    if isinstance(source, OpenApi):
        from capset_connect.openapi.client import OpenApiClient

        yield OpenApiClient(source, secrets)
        return
    needs_extra("mcp", "mcp")
    from capset_connect.mcp.connection import McpConnection

    async with McpConnection(source, secrets) as connection:
        yield connection


class Upstream:
    """The MCP servers and APIs behind one command. It makes their capabilities, as ``read_configuration`` has it do.

    They are used in the kernel that it opens. Without sources it does nothing more.
    """

    def __init__(self, db: str) -> None:
        self._db = db
        self._servers: McpServers | None = None
        self._known: dict[str, Sequence[ToolPin]] = {}
        self._apis: dict[str, OpenApiClient] = {}
        self._kernel: Kernel | None = None
        self._starting: asyncio.Task[None] | None = None
        self._is_shared = not db.startswith("memory:")
        self._declared: Mapping[str, str] | None = None
        """The places of the sources that are declared now, by their pins' keys; ``None`` for all that were made."""

    @asynccontextmanager
    async def opened(self, kernel: Kernel, db: str) -> AsyncGenerator[Kernel]:
        """Open a kernel whose store is ``db``, and close every connection after it.

        If that is the database of the approvals, these are looked up there at each call.
        """
        try:
            async with kernel:
                self._kernel, self._is_shared = kernel, self._is_shared and db == self._db
                yield kernel
        finally:
            if self._starting is not None:
                self._starting.cancel()
                await asyncio.wait([self._starting])
            if self._servers is not None:
                await self._servers.__aexit__(None, None, None)

    def start_servers(self) -> None:
        """Start the MCP servers that are processes, in the background: no first call has to wait for that.

        It is for commands that stay, within ``opened``.
        """
        if self._servers is not None:
            self._starting = asyncio.create_task(self._servers.start(), name="start MCP servers")

    def declare(self, sources: Iterable[Source]) -> None:
        """Refuse calls of all other sources from now on: the configuration has been read again."""
        self._declared = {source.pin_key: source.place for source in sources}

    @property
    def is_used(self) -> bool:
        """Whether it made capabilities."""
        return bool(self._known)

    @property
    def is_shared(self) -> bool:
        """Whether other processes can approve tools in the database of the kernel."""
        return self._is_shared

    @property
    def pins(self) -> frozenset[ToolPin]:
        """The pins that the capabilities were made of, as they were read last."""
        return frozenset(pin for pins in self._known.values() for pin in pins)

    @property
    def unapproved(self) -> tuple[str, ...]:
        """The keys of the sources of which no tool is approved."""
        return tuple(sorted(key for key, pins in self._known.items() if not pins))

    def __call__(self, sources: Sequence[Source]) -> Callable[[Source], AnyCapability]:
        """Return what makes the capability of each of these sources, of what is pinned of it in the database.

        If this is the first use of sources that are trusted then, they are asked side by side, and what they have is
        pinned first; those that cannot be reached are named on stderr. What is returned raises ``DefinitionError`` for
        damaged pins, and if the extra ``mcp`` is needed and missing.
        """
        # In a thread: some commands read their configuration while they run a loop.
        with ThreadPoolExecutor(1) as thread:
            pins = thread.submit(asyncio.run, self._stored_pins(sources)).result()
        return lambda source: self._made(source, pins.get(source.pin_key, ()))

    def connection(self, source: Source) -> McpConnection | OpenApiClient:
        """Return the connection of a source through which its capability, made before, is used."""
        if isinstance(source, OpenApi):
            return self._apis[source.pin_key]
        if self._servers is None:
            raise LookupError(source.pin_key)
        return self._servers.connection(source)

    async def capability(self, source: Source, kernel: Kernel) -> AnyCapability:
        """Return the capability of a source, as that of calling this, of what is pinned in the store of a kernel."""
        return self._made(source, await self._pins(source, kernel))

    def _made(self, source: Source, pins: Sequence[ToolPin]) -> AnyCapability:
        self._known[source.pin_key] = pins
        if isinstance(source, OpenApi):
            from capset_connect.openapi.client import OpenApiClient
            from capset_connect.openapi.tools import capability_of

            client = self._apis[source.pin_key] = OpenApiClient(source, EnvironmentSecrets())
            return capability_of(client, pins, self._approved(source))
        needs_extra("mcp", "mcp")
        from capset_connect.mcp import McpServers

        if self._servers is None:
            self._servers = McpServers(EnvironmentSecrets())
        return self._servers.capability(source, pins, self._approved(source))

    def _approved(self, source: Source) -> Approved | None:
        """Return a function that looks up the approved tools of a source; nothing approves or withdraws in memory."""
        if not self.is_shared:
            return None

        async def approved() -> Mapping[str, str] | None:
            if self._declared is not None and self._declared.get(source.pin_key) != source.place:
                return None
            if self._kernel is None:
                raise DefinitionError(f"{source.label} is used outside of the kernel that its approvals are in")
            if not self._is_shared:  # a measurement, in a database of its own
                return {pin.tool: pin.hash for pin in self._known[source.pin_key]}
            return await self._kernel.current.pins(source.pin_key)

        return approved

    async def _stored_pins(self, sources: Sequence[Source]) -> Mapping[str, Sequence[ToolPin]]:
        """Return what is pinned of each source, by the key of its pins."""
        from capset_connect.pins import side_by_side

        if not (any(source.trust_first_use for source in sources) or has_db(self._db)):
            return {}
        async with Kernel(store=self._db) as kernel:
            pins = await side_by_side(partial(self._pins, source, kernel) for source in sources)
        return {source.pin_key: approved for source, approved in zip(sources, pins, strict=True)}

    async def _pins(self, source: Source, kernel: Kernel) -> Sequence[ToolPin]:
        from capset_connect.pins import pins_of

        async def offers() -> Sequence[Offer]:
            async with asked(source, kernel.secrets) as client:
                return await client.first_offers()

        try:
            return await pins_of(kernel, source, offers)
        except CapsetError as error:
            err().print(f"[yellow]warning:[/] {verbatim(in_one(error))}", soft_wrap=True)
            return ()
