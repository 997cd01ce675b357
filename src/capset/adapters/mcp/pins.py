"""Pins: what was approved of each tool of a server, held against what the server has now (spec 7, M5)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from capset.adapters.mcp.connection import McpConnection
from capset.adapters.mcp.offers import Offer
from capset.adapters.mcp.server import McpServer
from capset.definitions.policies import Decision, Policy, Request, allow, deny
from capset.definitions.principals import Principal
from capset.definitions.tools.definition import AnyTool
from capset.errors import CapsetError, DefinitionError, TransientError, unknown
from capset.fingerprint.canonical import canonical, digest
from capset.kernel.governance.acts import Actor
from capset.kernel.kernel import Kernel
from capset.stores.base.pins import ToolPin

State = Literal["approved", "changed", "new", "gone"]
"""How a tool stands to its pin."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A tool of a server: its pin, its offer now, and how they stand to each other."""

    name: str
    state: State
    pin: ToolPin | None
    offer: Offer | None

    @property
    def problems(self) -> tuple[str, ...]:
        """The problems of its offer."""
        return () if self.offer is None else self.offer.problems


def standings(pins: Iterable[ToolPin], offers: Iterable[Offer]) -> list[Standing]:
    """Return every tool that is pinned or offered, by name."""
    pinned, offered = {one.tool: one for one in pins}, {one.name: one for one in offers}
    found: list[Standing] = []
    for name in sorted({*pinned, *offered}):
        pin, offer = pinned.get(name), offered.get(name)
        if pin is None:
            state: State = "new"
        elif offer is None:
            state = "gone"
        else:
            state = "approved" if offer.hash == pin.hash else "changed"
        found.append(Standing(name, state, pin, offer))
    return found


def pin_of(server: McpServer, offer: Offer, who: str, now: str) -> ToolPin:
    """Return the pin of a tool as it is offered."""
    return ToolPin(server.name, offer.name, offer.hash, canonical(offer.shape).decode(), who, now)


def shape_of(pin: ToolPin) -> Mapping[str, Any]:  # JSON
    """Return what was approved of a tool. Raises ``DefinitionError`` if it is not what the pin's hash says."""
    shape: Mapping[str, Any] = json.loads(pin.shape)
    if digest(shape) != pin.hash:
        raise DefinitionError(
            f"the pin of {pin.tool!r} of the MCP server {pin.server!r} is damaged: its hash is of another description"
        )
    return shape


async def approve(
    kernel: Kernel,
    server: McpServer,
    offers: Sequence[Offer],
    by: Principal | Actor,
    *,
    chosen: Iterable[str] | None = None,
) -> list[Standing]:
    """Pin the tools of a server as they are now, all of them or the chosen; those that are gone lose their pin.

    Returns those whose pin has changed, which is on record. Tools with problems are pinned only if they are chosen by
    name, and never those that nothing could call. Raises ``DefinitionError`` for a name that is neither offered nor
    pinned, and for a tool that cannot be called.
    """
    pins = await kernel.store.pins.list(server.name)
    found = {one.name: one for one in standings(pins, offers)}
    names = None if chosen is None else set(chosen)
    for name in names or ():
        if name not in found:
            raise DefinitionError(f"MCP server {server.name!r}: {unknown('tool', name, found)}")
        if (offer := found[name].offer) is not None and offer.is_unusable:
            raise DefinitionError(f"MCP server {server.name!r}: {name!r} cannot be used: {'; '.join(offer.problems)}")
    changed = [
        one
        for one in found.values()
        if one.state != "approved" and (not one.problems if names is None else one.name in names)
    ]
    if changed:
        add = [pin_of(server, one.offer, by.id, kernel.now()) for one in changed if one.offer is not None]
        gone = [one.name for one in changed if one.offer is None]
        about = {"server": server.name, "tools": {one.name: one.offer and one.offer.hash for one in changed}}
        await kernel.store.pins.change(server.name, add, gone, act=kernel.act("mcp.approve", about, by=by))
    return changed


class Guard:
    """Refuses calls of tools that their server describes in another way than was approved, or does not describe."""

    def __init__(self, connection: McpConnection, pins: Mapping[str, ToolPin]) -> None:
        """``pins`` are those of the tools by their names here."""
        self._connection = connection
        self._pins = pins
        self.policy = Policy(f"{connection.server.capability}:pinned", self._decide, phase="call")

    async def verify(self, name: str) -> str | None:
        """Return why a tool, by its name here, is not to be called; nothing if its server says what was approved.

        Raises ``CapsetError`` if the server does not say what tools it has.
        """
        pin = self._pins[name]
        offer = next((one for one in await self._connection.offers() if one.name == pin.tool), None)
        if offer is None:
            return f"The MCP server {pin.server!r} has no tool {pin.tool!r} any more"
        if offer.hash == pin.hash:
            return None
        return (
            f"The MCP server {pin.server!r} has changed what it says of its tool {pin.tool!r} since {pin.approved_by} "
            "approved it: it has to be approved again"
        )

    async def _decide(self, request: Request) -> Decision:
        try:
            reason = await self.verify(cast("AnyTool", request.tool).name)
        except TransientError:
            return allow()  # the handler asks again, and fails as what it is, with nothing called
        except CapsetError as error:
            reason = error.message
        return allow() if reason is None else deny(reason)
