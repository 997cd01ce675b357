"""The MCP servers and APIs of a served configuration: their state, and approvals of their tools (spec 7, M27)."""

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
"""One is not connected until something is asked of it, and after its connection broke off."""


class SourceConnection(SourceClient, Protocol):
    """A client of a source that says what is known without asking."""

    @property
    def is_connected(self) -> bool:
        """Whether it is connected."""
        ...

    @property
    def failure(self) -> CapsetError | None:
        """Why the last attempt to connect failed, if it did."""
        ...

    @property
    def known_offers(self) -> Sequence[Offer] | None:
        """The tools that the source had when it was asked last, if it was."""
        ...


@dataclass(frozen=True, slots=True)
class SourceSummary:
    """A source, as far as is known without asking it.

    ``approved`` counts its pins; ``waiting`` the tools that are offered and not as they were approved, as far as its
    tools are known.
    """

    source: Source
    state: SourceState
    problem: str | None
    approved: int
    waiting: int | None


class DeclaredSources:
    """The MCP servers and APIs that the operator of a server declares, beside its kernel.

    ``connection`` returns that through which agents use a source. ``is_shared`` says whether what is approved in the
    kernel's store is what agents have: where it is not, nothing is approved here.
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
        """Take other sources in the place of those before: their configuration has been read again."""
        self._sources = {source.pin_key: source for source in sources}

    async def summaries(self) -> list[SourceSummary]:
        """Return every source, by the key of its pins, as far as is known without asking one."""
        pins: dict[str, list[ToolPin]] = {}
        for pin in await self._kernel.store.pins.list() if self._sources else ():
            pins.setdefault(pin.server, []).append(pin)
        return [self._summary(source, pins.get(key, ())) for key, source in sorted(self._sources.items())]

    async def look(self, key: str) -> tuple[SourceSummary, SeenSource[Source]]:
        """Return one source, with how its tools stand to their pins; it is asked. Raises ``NotFound``."""
        source = self._named(key)
        pins = await self._kernel.store.pins.list(key)
        report = await look_at(source, pins, nullcontext(self._connection(source)))
        return self._summary(source, pins), report

    async def approve(self, key: str, tools: Mapping[str, str], by: Principal) -> list[Standing]:
        """Approve tools of a source as they were seen, by their names and hashes, on record; all of them or none.

        Raises ``NotFound`` for an unknown source, ``DefinitionError`` for a tool that it has not or that nothing could
        call, and for names in its declaration that it has not; and ``Conflict`` for a tool that is not as it was seen
        any more.
        """
        source = self._named(key)
        self._check_shared()
        client = self._connection(source)
        offers = await client.offers(at_once=True)
        await check_names(source, client)
        check_seen(source, {offer.name: offer for offer in offers}, tools)
        return await as_declared(client, await approve(self._kernel, source, offers, by, chosen=tools))

    async def withdraw(self, key: str, tools: Iterable[str], by: Principal) -> list[str]:
        """Take approvals back, on record, and return the names of the tools; the source may be declared no more.

        Raises ``DefinitionError`` for a tool that is not approved.
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
                "this server keeps its data in memory, and agents would not have what is approved there",
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
