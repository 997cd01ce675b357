"""Pins: the approved form of each third-party tool, compared with its current description (spec 7, M5)."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, Generic, Literal, Protocol, TypeVar

from typing_extensions import Unpack

from capset.definitions.capabilities import Capability
from capset.definitions.governance.acts import ActName
from capset.definitions.model_context import ContextFunction
from capset.definitions.principals import Principal
from capset.definitions.tools.definition import AnyTool
from capset.definitions.tools.mcp_offers import McpOffer
from capset.definitions.tools.options import Limits
from capset.errors import CapsetError, Conflict, DefinitionError, unknown
from capset.fingerprint.canonical import read
from capset.kernel.governance.acts import ActColumns, Actor
from capset.kernel.kernel import Kernel
from capset.stores.base import AuditQuery
from capset.stores.base.pins import ToolPin
from capset_connect.pins.offers import Offer, hash_of

State = Literal["approved", "changed", "new", "gone", "left out"]
"""How a tool compares with its pin. A tool is ``left out`` if the declaration of its source does not select it."""
Ask = Callable[[], Awaitable[Sequence[Offer]]]
"""Returns the tools of a source, as it describes them."""
Approved = Callable[[], Awaitable[Mapping[str, str] | None]]
"""Returns the hashes of the currently approved tools of a source, by their original names.

``None`` if the source is no longer declared, so that none of its tools may be used.
"""
Source = TypeVar("Source", bound="DeclaredSource")
R = TypeVar("R")
AT_ONCE: Final = max(4, os.cpu_count() or 1)
"""The maximum number of sources that are asked at once: most of them start a process first."""
_ACTS: Final = 200
"""The page size for reading recorded approvals."""
FIRST_USE: Final = Actor("first-use", "agent", None)
"""The actor that approves the tools of a source that is trusted at its first use."""


class ToolSource(Protocol):
    """A source of third-party tools: an MCP server or an API."""

    @property
    def name(self) -> str:
        """Its name, without its kind."""
        ...

    @property
    def label(self) -> str:
        """Its kind and name, for messages: ``MCP server 'books'``."""
        ...

    @property
    def capability(self) -> str:
        """The name of the capability of its tools."""
        ...

    @property
    def said(self) -> str:
        """The description of that capability."""
        ...

    @property
    def pin_key(self) -> str:
        """The key of its pins in a store, unique to the source."""
        ...

    @property
    def approval_act(self) -> ActName:
        """The act that approves its tools."""
        ...


class DeclaredSource(ToolSource, Protocol):
    """A source as declared by its host."""

    @property
    def limits(self) -> Limits:
        """Call limits for all of its tools together."""
        ...

    @property
    def trust_first_use(self) -> bool:
        """Whether the tools that it offers at its first use are approved automatically."""
        ...


@dataclass(frozen=True, slots=True)
class Standing:
    """A third-party tool: its pin, its current offer, and how they compare."""

    name: str
    state: State
    pin: ToolPin | None
    offer: Offer | None

    @property
    def problems(self) -> tuple[str, ...]:
        """The problems of its offer."""
        return () if self.offer is None else self.offer.problems

    @property
    def is_unusable(self) -> bool:
        """Whether it is offered but cannot be called."""
        return self.offer is not None and self.offer.is_unusable

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes of its offer, which do not prevent its use."""
        return () if self.offer is None else self.offer.notes


def standings(pins: Iterable[ToolPin], offers: Iterable[Offer]) -> list[Standing]:
    """Return every tool that is pinned or offered, sorted by name."""
    pinned, offered = {entry.tool: entry for entry in pins}, {entry.name: entry for entry in offers}
    tools: list[Standing] = []
    for name in sorted({*pinned, *offered}):
        pin, offer = pinned.get(name), offered.get(name)
        if pin is None:
            state: State = "new"
        elif offer is None:
            state = "gone"
        else:
            state = "approved" if is_as_approved(pin, offer) else "changed"
        tools.append(Standing(name, state, pin, offer))
    return tools


def is_as_approved(pin: ToolPin, offer: Offer) -> bool:
    """Return whether a tool is offered as it was approved.

    If the source ignores word order, the hash of an offer is that of its words in any order.
    """
    if offer.hash == pin.hash:
        return True
    return offer.hash == _hash_in_any_order(pin)


@lru_cache(1_024)
def _hash_in_any_order(pin: ToolPin) -> str | None:
    """Return the hash of an approved shape regardless of word order, or ``None`` for a damaged pin."""
    try:
        return hash_of(shape_of(pin), ignores_word_order=True)
    except DefinitionError:
        return None


async def side_by_side(asks: Iterable[Callable[[], Awaitable[R]]]) -> list[R]:
    """Return the results of these functions, in order. At most ``AT_ONCE`` of them run at once.

    If one raises, the others are cancelled.
    """
    slots = asyncio.Semaphore(AT_ONCE)

    async def run(ask: Callable[[], Awaitable[R]]) -> R:
        async with slots:
            return await ask()

    tasks = [asyncio.create_task(run(ask)) for ask in asks]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class SourceClient(Protocol):
    """A client that lists the tools of a source."""

    async def offers(self, *, at_once: bool = False) -> Sequence[Offer]:
        """Return its tools; the current ones if ``at_once``. Raises ``CapsetError``."""
        ...

    async def unmatched(self) -> list[str]:
        """Return a sentence for each declared name that it does not have."""
        ...

    async def leaves_out(self, shape: Mapping[str, Any]) -> bool:
        """Return whether its declaration leaves out an approved tool of this shape."""
        ...

    @property
    def last_output(self) -> Sequence[str]:
        """The last lines that its process wrote to stderr; empty for a source that is not a process."""
        ...


@dataclass(frozen=True, slots=True)
class SeenSource(Generic[Source]):
    """A source, its tools compared with their pins, the declared names that it does not have, and any failure.

    ``is_listed`` is whether its tools were listed; if not, ``tools`` are those of its pins. ``output`` has the last
    lines that its process wrote to stderr, if it failed.
    """

    source: Source
    tools: Sequence[Standing]
    unmatched: Sequence[str] = ()
    problem: str | None = None
    is_listed: bool = True
    output: Sequence[str] = ()

    def state(self, tool: Standing) -> State | Literal["not asked"]:
        """Return the state of one of the tools, or ``not asked`` if the source could not be asked."""
        return tool.state if self.problem is None else "not asked"


async def look_at(
    source: Source,
    pins: Sequence[ToolPin],
    connection: AbstractAsyncContextManager[SourceClient],
    *,
    at_once: bool = True,
) -> SeenSource[Source]:
    """Compare the tools of a source with their pins. If it cannot be asked, return the pins and the reason.

    Without ``at_once``, a list of a few minutes ago is good enough.
    """
    output: Sequence[str] = ()
    try:
        async with connection as client:
            try:
                tools = standings(pins, await client.offers(at_once=at_once))
                return SeenSource(source, await as_declared(client, tools), await client.unmatched())
            except CapsetError:
                output = client.last_output
                raise
    except CapsetError as error:
        problem = error.message if error.hint is None or output else f"{error.message}; {error.hint}"
        return unlisted(source, pins, problem, output)


def unlisted(
    source: Source, pins: Iterable[ToolPin], problem: str | None = None, output: Sequence[str] = ()
) -> SeenSource[Source]:
    """Return a source whose tools were not listed: its pins, and the reason if that failed."""
    tools = [Standing(pin.tool, "approved", pin, None) for pin in pins]
    return SeenSource(source, tools, problem=problem, is_listed=False, output=output)


async def as_declared(client: SourceClient, tools: Iterable[Standing]) -> list[Standing]:
    """Return the tools; those that are not offered because the declaration leaves them out get that state."""
    declared_tools: list[Standing] = []
    for standing in tools:
        is_left_out = (
            standing.offer is None and standing.pin is not None and await client.leaves_out(shape_of(standing.pin))
        )
        declared_tools.append(replace(standing, state="left out") if is_left_out else standing)
    return declared_tools


def capability_with(
    source: DeclaredSource,
    tools: Iterable[AnyTool] = (),
    offers: Iterable[McpOffer] = (),
    context: ContextFunction | None = None,
) -> Capability:
    """Return the capability of a source with these tools; without tools, it is a placeholder."""
    return Capability(
        source.capability,
        title=source.name,
        description=source.said,
        tools=tools,
        context=None if context is None else [context],
        risk="high",
        mcp=offers,
        limits=source.limits,
    )


def pin_of(source: ToolSource, offer: Offer, approver: str, now: str) -> ToolPin:
    """Return the pin of a tool as currently offered. Its shape keeps the order of members."""
    shape = json.dumps(offer.shape, ensure_ascii=False, separators=(",", ":"))
    return ToolPin(source.pin_key, offer.name, hash_of(offer.shape), shape, approver, now)


def shape_of(pin: ToolPin) -> Mapping[str, Any]:  # JSON
    """Return the approved shape of a tool. Raises ``DefinitionError`` if it does not match the pin's hash."""
    shape: Mapping[str, Any] = json.loads(pin.shape)
    if hash_of(shape) != pin.hash:
        raise DefinitionError(
            f"the pin of {pin.tool!r} of {pin.server!r} is damaged: its hash does not match its description"
        )
    return shape


async def check_names(source: ToolSource, client: SourceClient) -> None:
    """Raise ``DefinitionError`` for declared names that the source does not have."""
    if odd := await client.unmatched():
        raise DefinitionError(
            f"{source.label}: {'; '.join(odd)}",
            hint="correct the name, or remove it: it applies to no tool",
        )


def check_seen(source: ToolSource, offers: Mapping[str, Offer], chosen: Mapping[str, str]) -> None:
    """Raise ``DefinitionError`` for a tool that a source does not have, ``Conflict`` for one that changed since seen.

    ``offers`` are its tools by name, ``chosen`` the names and hashes of the tools to approve.
    """
    for name, expected in chosen.items():
        if name not in offers:
            raise DefinitionError(f"{source.label}: {unknown('tool', name, offers)}")
        if offers[name].hash != expected:
            raise Conflict(f"{source.label}: {name!r} no longer has the hash {expected}: look at it again")


async def approve(
    kernel: Kernel,
    source: ToolSource,
    offers: Sequence[Offer],
    by: Principal | Actor,
    *,
    chosen: Iterable[str] | None = None,
    **columns: Unpack[ActColumns],
) -> list[Standing]:
    """Pin the current tools of a source, all of them or the chosen ones. Tools that are gone lose their pin.

    Records the act, and returns the tools whose pins changed. Tools with problems are pinned only if chosen by name;
    tools that nothing can call are never pinned. Raises ``DefinitionError`` for a name that is neither offered nor
    pinned, and for a chosen tool that cannot be called.
    """
    pins = await kernel.store.pins.list(source.pin_key)
    by_name = {standing.name: standing for standing in standings(pins, offers)}
    names = None if chosen is None else set(chosen)
    for name in names or ():
        if name not in by_name:
            raise DefinitionError(f"{source.label}: {unknown('tool', name, by_name)}")
        if (offer := by_name[name].offer) is not None and offer.is_unusable:
            raise DefinitionError(f"{source.label}: {name!r} cannot be used: {'; '.join(offer.problems)}")
    changed = [
        standing
        for standing in by_name.values()
        if standing.state != "approved" and (not standing.problems if names is None else standing.name in names)
    ]
    if changed:
        add = [
            pin_of(source, standing.offer, by.id, kernel.now()) for standing in changed if standing.offer is not None
        ]
        gone = [standing.name for standing in changed if standing.offer is None]
        hashes = {pin.tool: pin.hash for pin in add}
        about = {"server": source.pin_key, "tools": {standing.name: hashes.get(standing.name) for standing in changed}}
        act = kernel.act(source.approval_act, about, by=by, **columns)
        await kernel.current.change_pins(source.pin_key, add, gone, act=act)
    return changed


async def withdraw(
    kernel: Kernel,
    source: ToolSource,
    by: Principal | Actor,
    *,
    chosen: Iterable[str] | None = None,
    **columns: Unpack[ActColumns],
) -> list[str]:
    """Remove the pins of a source's tools, all or the chosen ones, record the act, and return the tools' names.

    Raises ``DefinitionError`` for a name that is not pinned.
    """
    pinned = {pin.tool for pin in await kernel.store.pins.list(source.pin_key)}
    names = pinned if chosen is None else set(chosen)
    for name in sorted(names - pinned):
        raise DefinitionError(f"{source.label}: {unknown('tool', name, pinned)}")
    if names:
        about = {"server": source.pin_key, "tools": dict.fromkeys(names)}
        act = kernel.act(source.approval_act, about, by=by, **columns)
        await kernel.current.change_pins(source.pin_key, [], sorted(names), act=act)
    return sorted(names)


async def pins_of(kernel: Kernel, source: DeclaredSource, offers: Ask) -> list[ToolPin]:
    """Return the pins of a source. If it has none and is trusted at its first use, approve its current tools first.

    A source whose approvals were withdrawn has been used before.
    """
    pins = await kernel.store.pins.list(source.pin_key)
    if not pins and source.trust_first_use and not await _was_approved(kernel, source):
        await approve(kernel, source, await offers(), FIRST_USE)
        pins = await kernel.store.pins.list(source.pin_key)
    return list(pins)


async def _was_approved(kernel: Kernel, source: ToolSource) -> bool:
    """Return whether any approval of a source's tools, or its withdrawal, is on record."""
    query = AuditQuery(act=source.approval_act, limit=_ACTS)
    while True:
        page = await kernel.audit.query(query)
        if any(read(act.arguments or "{}").get("server") == source.pin_key for act in page.items):
            return True
        if page.next is None:
            return False
        query = replace(query, before=page.next)


def approved_in(kernel: Kernel, source: ToolSource) -> Approved:
    """Return a function that looks up the approved tools of a source in the store of a kernel."""
    return lambda: kernel.current.pins(source.pin_key)
