"""MCP servers and APIs of a file, on the command line: their capabilities, made from their pins in a database."""

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
from capset_cli.common.exits import require_extra
from capset_cli.common.output import err, error_text, escaped
from capset_cli.common.settings import Settings, has_db
from capset_cli.common.vaults import user_vault
from capset_connect.openapi.api import OpenApi
from capset_connect.sources import Source

if TYPE_CHECKING:
    from capset_connect.config_file import Configuration
    from capset_connect.declared_sources import DeclaredSources, SourceSummary
    from capset_connect.mcp import McpServers
    from capset_connect.mcp.connection import McpConnection
    from capset_connect.openapi.client import OpenApiClient
    from capset_connect.pins.offers import Offer
    from capset_connect.pins.tool_pins import Approved


@asynccontextmanager
async def source_client(source: Source, secrets: Secrets) -> AsyncGenerator[McpConnection | OpenApiClient]:
    """Yield a client that lists a source's tools. Raises ``DefinitionError`` if it needs the missing extra ``mcp``.

    The MCP SDK and the reader of API documents are imported only here.
    """
    if isinstance(source, OpenApi):
        from capset_connect.openapi.client import OpenApiClient

        yield OpenApiClient(source, secrets)
        return
    require_extra("mcp", "mcp")
    from capset_connect.mcp.connection import McpConnection

    async with McpConnection(source, secrets) as connection:
        yield connection


@asynccontextmanager
async def own_source_client(source: Source, settings: Settings) -> AsyncGenerator[McpConnection | OpenApiClient]:
    """Yield a client as ``source_client`` does; one with the principal's own credential if users connect the source.

    Raises ``DefinitionError`` if the principal has not connected it.
    """
    from capset_connect.vault.user_secrets import needs_user, secrets_of

    secrets: Secrets = EnvironmentSecrets()
    if not needs_user(source):
        async with source_client(source, secrets) as client:
            yield client
        return
    vault = user_vault([source], is_required=True)
    if not has_db(settings.db):  # to look makes no database
        raise DefinitionError(f"{source.label}: you have not connected it", hint=f"capset connect {source.pin_key}")
    async with Kernel(store=settings.db, credentials=vault and vault.open) as kernel:
        own_secrets = await secrets_of(source, secrets, kernel.credentials, settings.principal)
        async with source_client(source, own_secrets) as client:
            yield client


class Upstream:
    """The MCP servers and APIs behind one command. ``read_configuration`` calls it to make their capabilities.

    The capabilities are used in the kernel that ``opened`` opens. Without sources, it does nothing else.
    """

    def __init__(self, db: str) -> None:
        self._db = db
        self._servers: McpServers | None = None
        self._pins_by_key: dict[str, Sequence[ToolPin]] = {}
        self._apis: dict[str, OpenApiClient] = {}
        self._kernel: Kernel | None = None
        self._watch_task: asyncio.Task[None] | None = None
        self.is_shared = not db.startswith("memory:")
        """Whether other processes can approve tools in the database of the kernel."""
        self._declared_places: Mapping[str, str] | None = None
        """The places of the currently declared sources, by the keys of their pins; ``None`` if all are declared."""

    @asynccontextmanager
    async def opened(self, kernel: Kernel, db: str) -> AsyncGenerator[Kernel]:
        """Open a kernel whose store is ``db``, and close all connections after it.

        If the approvals are in the same database, each call looks them up there.
        """
        try:
            async with kernel:
                self._kernel, self.is_shared = kernel, self.is_shared and db == self._db
                try:
                    yield kernel
                finally:
                    if self._watch_task is not None:
                        self._watch_task.cancel()
                        await asyncio.wait([self._watch_task])
        finally:
            if self._servers is not None:
                await self._servers.__aexit__(None, None, None)

    def watch(self, sources: DeclaredSources, report: Callable[[SourceSummary], object]) -> None:
        """Start the sources in the background, so that first calls do not wait for them, and report what they need.

        This is for commands that keep running. Call it within ``opened``.
        """
        self._watch_task = asyncio.create_task(sources.watch(report), name="watch MCP servers and APIs")

    def declare(self, sources: Iterable[Source]) -> None:
        """Refuse calls of all other sources from now on, after the configuration was reloaded."""
        self._declared_places = {source.pin_key: source.place for source in sources}

    @property
    def pins(self) -> frozenset[ToolPin]:
        """The pins from which the capabilities were made, as last read."""
        return frozenset(pin for pins in self._pins_by_key.values() for pin in pins)

    @property
    def unapproved(self) -> tuple[str, ...]:
        """The keys of the sources without approved tools."""
        return tuple(sorted(key for key, pins in self._pins_by_key.items() if not pins))

    def __call__(self, sources: Sequence[Source]) -> Callable[[Source], AnyCapability]:
        """Return a function that makes the capability of each of these sources from its pins in the database.

        Sources that are trusted on first use, and are used for the first time, are queried concurrently and pinned
        first; those that cannot be reached are reported on stderr. The function raises ``DefinitionError`` for damaged
        pins, and if the extra ``mcp`` is needed and missing.
        """
        # In a thread: some commands read their configuration while an event loop runs.
        with ThreadPoolExecutor(1) as thread:
            pins = thread.submit(asyncio.run, self._load_all_pins(sources)).result()
        return lambda source: self._make_capability(source, pins.get(source.pin_key, ()))

    def connection(self, source: Source) -> McpConnection | OpenApiClient:
        """Return the connection that the capability of a source uses. The capability must have been made."""
        if isinstance(source, OpenApi):
            return self._apis[source.pin_key]
        if self._servers is None:
            raise LookupError(source.pin_key)
        return self._servers.connection(source)

    def declared_sources(self, kernel: Kernel, configuration: Configuration, options: str) -> DeclaredSources:
        """Return the MCP servers and APIs of a configuration, for the service on a kernel.

        ``options`` are those by which commands find the same file and database.
        """
        from capset_connect.declared_sources import DeclaredSources

        return DeclaredSources(
            kernel,
            configuration.sources,
            self.connection,
            is_shared=self.is_shared,
            options=options,
            own_client=source_client,
        )

    async def capability(self, source: Source, kernel: Kernel) -> AnyCapability:
        """Return the capability of a source, as ``__call__`` makes it, but from the pins in a kernel's store."""
        return self._make_capability(source, await self._load_pins(source, kernel))

    def _make_capability(self, source: Source, pins: Sequence[ToolPin]) -> AnyCapability:
        self._pins_by_key[source.pin_key] = pins
        if isinstance(source, OpenApi):
            from capset_connect.openapi.client import OpenApiClient
            from capset_connect.openapi.tools import capability_of

            client = self._apis[source.pin_key] = OpenApiClient(source, EnvironmentSecrets())
            return capability_of(client, pins, self._approval_lookup(source))
        require_extra("mcp", "mcp")
        from capset_connect.mcp import McpServers

        if self._servers is None:
            self._servers = McpServers(EnvironmentSecrets())
        return self._servers.capability(source, pins, self._approval_lookup(source))

    def _approval_lookup(self, source: Source) -> Approved | None:
        """Return a function that looks up a source's approved tools; ``None`` in memory, where they do not change."""
        if not self.is_shared:
            return None

        async def approved() -> Mapping[str, str] | None:
            if self._declared_places is not None and self._declared_places.get(source.pin_key) != source.place:
                return None
            if self._kernel is None:
                raise DefinitionError(f"{source.label} is used outside of the kernel that has its approvals")
            if not self.is_shared:  # a measurement, in a database of its own
                return {pin.tool: pin.hash for pin in self._pins_by_key[source.pin_key]}
            return await self._kernel.current.pins(source.pin_key)

        return approved

    async def _load_all_pins(self, sources: Sequence[Source]) -> Mapping[str, Sequence[ToolPin]]:
        """Return the pins of each source, by their key."""
        from capset_connect.pins.tool_pins import side_by_side

        if not (any(source.trust_first_use for source in sources) or has_db(self._db)):
            return {}
        async with Kernel(store=self._db) as kernel:
            pins = await side_by_side(partial(self._load_pins, source, kernel) for source in sources)
        return {source.pin_key: approved for source, approved in zip(sources, pins, strict=True)}

    async def _load_pins(self, source: Source, kernel: Kernel) -> Sequence[ToolPin]:
        from capset_connect.pins.tool_pins import pins_of

        async def offers() -> Sequence[Offer]:
            async with source_client(source, kernel.secrets) as client:
                return await client.first_offers()

        try:
            return await pins_of(kernel, source, offers)
        except CapsetError as error:
            err().print(f"[yellow]warning:[/] {escaped(error_text(error))}", soft_wrap=True)
            return ()
