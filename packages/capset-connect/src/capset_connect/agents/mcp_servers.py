"""MCP servers that stored agents declare: capabilities, connections and approvals (spec 7, M26)."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from pydantic_core import from_json

from capset.definitions.capabilities import Capability
from capset.definitions.governance.limits import checked_limits
from capset.definitions.principals import Principal
from capset.definitions.secrets import is_secret_name
from capset.errors import DefinitionError, Field, InvalidArguments, NotFound, unknown
from capset.extras import install_command
from capset.kernel.governance.acts import ActColumns, Actor
from capset.kernel.kernel import Kernel
from capset.kernel.registry import Registry
from capset.net.urls import parse_url
from capset.stores.base import AgentRow
from capset.stores.base.pins import ToolPin
from capset.wire.tool_sources import AgentServerShape, ServerToolsShape
from capset_connect.agents.server_allowances import AllowedSecrets, ServerAllowances
from capset_connect.declarations import secrets_in
from capset_connect.mcp.server import McpServer, McpSource
from capset_connect.pins.tool_pins import (
    Approved,
    SeenSource,
    Standing,
    approve,
    capability_with,
    check_names,
    check_seen,
    look_at,
    pin_of,
    withdraw,
)

if TYPE_CHECKING:
    from capset_connect.mcp.connection import McpConnection
    from capset_connect.mcp.rooms import Room

_TRANSPORT: Final = frozenset(
    {"connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
"""Headers that could route a request to another host behind the server, or truncate it."""
_MAX_SECONDS: Final = 600.0
"""The longest timeout that a tool's rule may set, in seconds."""
_MAX_BYTES: Final = 1024 * 1024
"""Maximum size of one agent's approved tools as JSON, in bytes. Every process that opens the agent holds them."""
Servers = Mapping[str, AgentServerShape]
"""Server declarations by name."""


@dataclass(frozen=True, slots=True)
class ServerOwner:
    """The stored agent that declares some servers."""

    org: str | None
    id: str


@dataclass(frozen=True, slots=True)
class OwnServers:
    """The capabilities of an agent's own servers, and a notice for each server that cannot be used as declared."""

    capabilities: tuple[Capability, ...] = ()
    notices: tuple[str, ...] = ()

    def within(self, registry: Registry) -> Registry:
        """Return a registry that includes these capabilities; they replace those with equal names."""
        if not self.capabilities:
            return registry
        named = {**registry.capabilities, **{capability.name: capability for capability in self.capabilities}}
        return replace(registry, capabilities=MappingProxyType(named))


def servers_of(declarations: Mapping[str, ServerToolsShape] | Mapping[str, object] | None) -> Servers:
    """Return validated declarations from their stored form or from a session's definition."""
    plain = {
        name: shape.plain() if isinstance(shape, ServerToolsShape) else shape
        for name, shape in (declarations or {}).items()
    }
    return {name: AgentServerShape.model_validate(declaration) for name, declaration in plain.items()}


def servers_in(definition: str) -> Servers:
    """Return the declarations in a session's definition, as they were when the session began."""
    return servers_of(from_json(definition).get("mcp_servers")) if '"mcp_servers"' in definition else {}


def with_servers(definition: str, row: AgentRow | None) -> str:
    """Return a session's definition with the declarations of the agent's own servers added."""
    if row is None or not row.mcp_servers:
        return definition
    return json.dumps({**from_json(definition), "mcp_servers": dict(row.mcp_servers)}, ensure_ascii=False)


def new_servers(after: Servers, before: Servers) -> tuple[str, ...]:
    """Return the capabilities of new and changed servers, which only an administrator can enable."""
    texts_before = {name: _text_of(server) for name, server in before.items()}
    return tuple(f"mcp:{name}" for name, server in after.items() if texts_before.get(name) != _text_of(server))


def _text_of(shape: AgentServerShape) -> str:
    return json.dumps(shape.plain(), sort_keys=True)  # to Python, 1 and true are equal


class AgentServers:
    """The MCP servers that the stored agents of one kernel declare.

    A connection is opened at the first call and shared by all users of the agent. It is closed when it is idle or the
    kernel closes. The number of open connections of an organisation is limited.
    """

    def __init__(self, kernel: Kernel, allowances: ServerAllowances | None = None) -> None:
        self._kernel = kernel
        self._allowances = allowances or ServerAllowances()
        self._rooms: dict[str | None, Room] = {}
        self._looks = defaultdict[str | None, asyncio.Lock](asyncio.Lock)
        self._connections: WeakValueDictionary[tuple[ServerOwner, str, str], McpConnection] = WeakValueDictionary()
        self._is_bound = False
        """Whether the kernel's exit stack closes the connections."""

    def problems(self, owner: ServerOwner, servers: Servers) -> list[Field]:
        """Return the errors of the declarations."""
        fields: list[Field] = []
        for name, shape in servers.items():
            try:
                self._check(owner, self._declared(owner, name, shape))
            except DefinitionError as error:
                fields.append(Field(f"mcp_servers.{name}", error.message))
        return fields

    async def pins(self, owner: ServerOwner, names: Iterable[str]) -> tuple[ToolPin, ...]:
        """Return the pins of an agent's servers."""
        keys = [McpSource(name=name, agent=owner.id).pin_key for name in names]
        return tuple([pin for key in keys for pin in await self._kernel.store.pins.list(key)])

    def of(self, owner: ServerOwner, servers: Servers, pins: Sequence[ToolPin]) -> OwnServers:
        """Return the capabilities of servers with their approved tools, without connecting to any server."""
        capabilities: list[Capability] = []
        notices: list[str] = []
        for name, shape in servers.items():
            try:
                server = self._declared(owner, name, shape)
            except DefinitionError as error:  # it was valid when it was written
                notices.append(error.message)
                continue
            try:
                capabilities.append(self._capability(owner, server, shape, pins))
            except DefinitionError as error:
                notices.append(f"{server.label} has no tools: {error.message}")
                capabilities.append(capability_with(server))
        return OwnServers(tuple(capabilities), tuple(notices))

    async def look(self, row: AgentRow, name: str | None = None) -> list[SeenSource[McpServer]]:
        """List the tools of an agent's servers, or of one of them, and compare them with what was approved.

        Each organisation has one comparison at a time, because the tool lists stay in memory until it ends. Raises
        ``NotFound`` if the agent declares no server with this name.
        """
        names = servers_of(row.mcp_servers) if name is None else (name,)
        targets = [self._named(row, server_name) for server_name in names]
        async with self._looks[row.org]:
            return list(await asyncio.gather(*(self._look_at(*target) for target in targets)))

    async def approve(
        self,
        row: AgentRow,
        name: str,
        tools: Mapping[str, str],
        by: Principal,
        *,
        check: Callable[[tuple[ToolPin, ...]], object],
    ) -> list[Standing]:
        """Approve tools of an agent's server, given by their names and the hashes of what was reviewed, on record.

        ``check`` receives the resulting pins of all the agent's servers, and raises if they are not possible. Raises
        ``NotFound`` if the agent declares no server with this name; ``DefinitionError`` for a tool that the server does
        not have or that cannot be called, and for names in the declaration that the server does not have; and
        ``Conflict`` for a tool that has changed since it was reviewed.
        """
        owner, server, shape = self._named(row, name)
        connection = self._connection(owner, server, shape)
        offers = {offer.name: offer for offer in await connection.offers(at_once=True)}
        await check_names(server, connection)
        check_seen(server, offers, tools)
        chosen = [offers[tool] for tool in tools]
        # Tools that cannot be called are refused below.
        added = [pin_of(server, offer, by.id, self._kernel.now()) for offer in chosen if not offer.is_unusable]
        current_pins = await self.pins(owner, row.mcp_servers or ())
        pins = (*(pin for pin in current_pins if pin.server != server.pin_key or pin.tool not in tools), *added)
        size = sum(len(pin.shape.encode()) for pin in pins)
        if size > _MAX_BYTES:
            raise InvalidArguments(f"an agent's approved tools may have at most {_MAX_BYTES:,} bytes; got {size:,}")
        check(pins)
        return await approve(self._kernel, server, list(offers.values()), by, chosen=tools, **_columns(row))

    async def withdraw(self, row: AgentRow, name: str, tools: Iterable[str], by: Principal | Actor) -> list[str]:
        """Withdraw approvals, on record, and return the names of the tools.

        The agent need not declare the server any more, because sessions of earlier versions may still use it. Raises
        ``DefinitionError`` for a tool that is not approved.
        """
        source = McpSource(name=name, agent=row.id)
        return await withdraw(self._kernel, source, by, chosen=tools, **_columns(row))

    def _named(self, row: AgentRow, name: str) -> tuple[ServerOwner, McpServer, AgentServerShape]:
        """Return one of the agent's servers. Raises ``NotFound``."""
        servers, owner = servers_of(row.mcp_servers), ServerOwner(row.org, row.id)
        if name not in servers:
            raise NotFound(f"the agent {row.id!r}: {unknown('MCP server', name, servers)}")
        return owner, self._declared(owner, name, servers[name]), servers[name]

    async def _look_at(self, owner: ServerOwner, server: McpServer, shape: AgentServerShape) -> SeenSource[McpServer]:
        connection = self._connection(owner, server, shape)
        pins = await self._kernel.store.pins.list(server.pin_key)
        return await look_at(server, pins, nullcontext(connection))

    def _declared(self, owner: ServerOwner, name: str, shape: AgentServerShape) -> McpServer:
        fields = shape.model_dump(exclude_none=True)
        return McpServer(name=name, agent=owner.id, internal=self._allowances.internal(owner.org), **fields)

    def _check(self, owner: ServerOwner, server: McpServer) -> None:
        """Raise ``DefinitionError`` for declarations that a host may make, but an organisation may not."""
        url = parse_url(server.url or "")
        allowed = self._allowances.secrets(owner.org, url)
        for name in sorted({*secrets_in(server.headers.values())} - allowed):
            raise DefinitionError(
                f"the operator does not allow this organisation's agents to send the secret {name!r} to {url}"
            )
        for name, text in server.headers.items():
            if name.lower() in _TRANSPORT:
                raise DefinitionError(f"the header {name!r} belongs to the connection: remove it")
            if is_secret_name(name) and not secrets_in([text]):
                raise DefinitionError(
                    f"the header {name!r} would be stored in plain text: use ${{NAME}}, the name of a secret that the "
                    "operator allows"
                )
        for tool, rules in server.rules.items():
            if rules.get("timeout", 0.0) > _MAX_SECONDS:
                raise DefinitionError(f"rules of {tool!r}: a call may take at most {_MAX_SECONDS:g} seconds")
        for limits in (server.limits, *(rules.get("limits", ()) for rules in server.rules.values())):
            if any(limit.per == "all" for limit in checked_limits("the server", limits)):
                raise DefinitionError("a limit here must be per principal, session or org; all is for the operator")

    def _capability(
        self, owner: ServerOwner, server: McpServer, shape: AgentServerShape, pins: Sequence[ToolPin]
    ) -> Capability:
        connection = self._connection(owner, server, shape)
        from capset_connect.mcp.tools import capability_of

        server_pins = (pin for pin in pins if pin.server == server.pin_key)
        return capability_of(connection, server_pins, self._approved(owner, server))

    def _approved(self, owner: ServerOwner, server: McpServer) -> Approved:
        """Return a function that looks up a server's pins; ``None`` once the agent no longer has it at this URL."""

        async def approved() -> Mapping[str, str] | None:
            _, row = await self._kernel.current.agent(owner.org, owner.id)
            declared = None if row is None else (row.mcp_servers or {}).get(server.name)
            if declared is None or declared["url"] != server.url:
                return None
            return await self._kernel.current.pins(server.pin_key)

        return approved

    def _connection(self, owner: ServerOwner, server: McpServer, shape: AgentServerShape) -> McpConnection:
        """Return the server's connection, which is opened on demand. An unchanged declaration reuses the existing one.

        Raises ``DefinitionError`` if the required extra is not installed.
        """
        if find_spec("mcp") is None:
            raise DefinitionError("MCP servers need an extra", hint=install_command("mcp"))
        from capset_connect.mcp.connection import McpConnection
        from capset_connect.mcp.rooms import Room

        key = (owner, server.name, shape.model_dump_json(exclude_none=True))
        connection = self._connections.get(key)
        if connection is None:
            if not self._is_bound:
                self._is_bound = True
                self._kernel.closing.push_async_callback(self._aclose)
            if owner.org not in self._rooms:
                label = "This server" if owner.org is None else f"The organisation {owner.org!r}"
                self._rooms[owner.org] = Room(label)
            allowed = self._allowances.secrets(owner.org, parse_url(shape.url))
            secrets = AllowedSecrets(self._kernel.secrets, allowed)
            connection = self._connections[key] = McpConnection(server, secrets, self._rooms[owner.org])
        return connection

    async def _aclose(self) -> None:
        await asyncio.gather(*(connection.aclose() for connection in self._connections.values()))


def _columns(row: AgentRow) -> ActColumns:
    return {"org": row.org, "agent": row.name}
