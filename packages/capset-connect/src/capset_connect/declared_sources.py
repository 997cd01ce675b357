"""The MCP servers and APIs of a served configuration: state, and approval of their tools (spec 7, M27)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Literal, Protocol

from capset.definitions.principals import Principal
from capset.errors import CapsetError, Conflict, NotFound, unknown
from capset.kernel.kernel import Kernel
from capset.stores.base.pins import ToolPin
from capset_connect.offers import Offer
from capset_connect.pins import (
    SeenSource,
    SourceClient,
    Standing,
    approve,
    as_declared,
    check_names,
    check_seen,
    look_at,
    standings,
    withdraw,
)
from capset_connect.sources import Source, source_named

SourceState = Literal["connected", "unreachable", "not connected"]
"""A source is ``not connected`` until it is first used, and after its connection was lost."""


class SourceConnection(SourceClient, Protocol):
    """A client of a source that also exposes its cached state."""

    @property
    def is_connected(self) -> bool:
        """Whether the client is connected."""
        ...

    @property
    def failure(self) -> CapsetError | None:
        """The error of the last attempt to connect, if it failed."""
        ...

    @property
    def known_offers(self) -> Sequence[Offer] | None:
        """The tools that were last listed, if any were."""
        ...


@dataclass(frozen=True, slots=True)
class SourceSummary:
    """The cached state of a source.

    ``approved`` is the number of its pins. ``waiting`` is the number of new or changed tools, or ``None`` if its tools
    have not been listed.
    """

    source: Source
    state: SourceState
    problem: str | None
    approved: int
    waiting: int | None


class DeclaredSources:
    """The MCP servers and APIs that the operator of a server declares.

    ``connection`` returns the connection through which agents use a source. ``is_shared`` says whether agents use the
    approvals in the kernel's store; if not, nothing can be approved here.
    """

    def __init__(
        self,
        kernel: Kernel,
        sources: Iterable[Source],
        connection: Callable[[Source], SourceConnection],
        *,
        is_shared: bool = True,
    ) -> None:
        self._kernel = kernel
        self._connection = connection
        self._is_shared = is_shared
        self._sources: Mapping[str, Source] = {}
        self.declare(sources)

    def declare(self, sources: Iterable[Source]) -> None:
        """Replace the sources after their configuration has been reloaded."""
        self._sources = {source.pin_key: source for source in sources}

    async def summaries(self) -> list[SourceSummary]:
        """Return the cached state of every source, sorted by the key of its pins."""
        pins: dict[str, list[ToolPin]] = {}
        for pin in await self._kernel.store.pins.list() if self._sources else ():
            pins.setdefault(pin.server, []).append(pin)
        return [self._summary(source, pins.get(key, ())) for key, source in sorted(self._sources.items())]

    async def look(self, key: str) -> tuple[SourceSummary, SeenSource[Source]]:
        """List the tools of a source, and compare them with their pins. Raises ``NotFound``."""
        source = self._named(key)
        pins = await self._kernel.store.pins.list(key)
        report = await look_at(source, pins, nullcontext(self._connection(source)))
        return self._summary(source, pins), report

    async def approve(self, key: str, tools: Mapping[str, str], by: Principal) -> list[Standing]:
        """Approve tools of a source, given by their names and the hashes of what was reviewed, on record; all or none.

        Raises ``NotFound`` for an unknown source; ``DefinitionError`` for a tool that the source does not have or that
        cannot be called, and for names in its declaration that it does not have; and ``Conflict`` for a tool that has
        changed since it was reviewed.
        """
        source = self._named(key)
        self._check_shared()
        client = self._connection(source)
        offers = await client.offers(at_once=True)
        await check_names(source, client)
        check_seen(source, {offer.name: offer for offer in offers}, tools)
        return await as_declared(client, await approve(self._kernel, source, offers, by, chosen=tools))

    async def withdraw(self, key: str, tools: Iterable[str], by: Principal) -> list[str]:
        """Withdraw approvals, on record, and return the names of the tools.

        The source need not be declared any more. Raises ``DefinitionError`` for a tool that is not approved.
        """
        self._check_shared()
        return await withdraw(self._kernel, source_named(key), by, chosen=tools)

    def _named(self, key: str) -> Source:
        if key not in self._sources:
            raise NotFound(unknown("MCP server or API", key, self._sources))
        return self._sources[key]

    def _check_shared(self) -> None:
        if not self._is_shared:
            raise Conflict(
                "this server keeps its data in memory, so agents would not get the approvals",
                hint="serve it with a database: --db sqlite:///capset.db",
            )

    def _summary(self, source: Source, pins: Sequence[ToolPin]) -> SourceSummary:
        client = self._connection(source)
        state: SourceState = "connected" if client.is_connected else "not connected"
        problem = None
        if not client.is_connected and client.failure is not None:
            state, problem = "unreachable", client.failure.message
        waiting = None
        if client.known_offers is not None:
            waiting = sum(standing.state in ("new", "changed") for standing in standings(pins, client.known_offers))
        return SourceSummary(source, state, problem, len(pins), waiting)
