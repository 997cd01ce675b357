"""Lookup of hashes: in what was recorded here, what is installed, and the org's own agents (spec 5, P12)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property, lru_cache
from typing import Any, Final, cast

from pydantic_core import from_json

from capset.composition.compose import Composition, compose
from capset.composition.statics import Fingerprinted, static_parts
from capset.definitions.agents import Agent
from capset.definitions.capabilities import AnyCapability
from capset.definitions.tools.toolkits import Member, Toolkit
from capset.errors import DefinitionError, InvalidArguments, NotFound, StoreError
from capset.evaluation.code import code_of, known_code, read_code_of
from capset.fingerprint.canonical import PROFILE, NotCanonical, canonical, digest, read
from capset.fingerprint.hashes import member_payload, used_payload
from capset.fingerprint.payload_changes import diff_payloads
from capset.fingerprint.payloads import Payload
from capset.kernel.kernel import Kernel
from capset.kernel.registry import Registry
from capset.stores.base import AgentQuery, AgentRow, PayloadRow
from capset.wire.diffs import FingerprintDiffShape, change_shapes
from capset.wire.fingerprints import FingerprintShape, InstalledCapability, InstalledShape, code_shape, code_shapes
from capset.wire.lineage import RefShape
from capset.wire.pages import PAGE_BYTES
from capset_connect.agent_files.store import StoredAgents

_PAGE: Final = 200
_MOST: Final = 1_000
"""How many of an org's agents, newest first, are searched for a hash that is not found elsewhere."""


class FingerprintLookup:
    """Lookup of the content behind a hash, for one org at a time: other orgs' records stay hidden."""

    def __init__(self, kernel: Kernel, registry: Registry, agents: StoredAgents) -> None:
        self._kernel = kernel
        self._registry = registry
        self._agents = agents
        self._parts = lru_cache(_MOST)(_parts_of)

    async def resolve(self, org: str | None, hash: str) -> FingerprintShape:
        """Return the content behind a hash. Raises ``NotFound``, and ``StoreError`` for a payload that was altered."""
        row = await self._kernel.store.lineage.payload(org, hash)
        if row is not None:
            code = known_code(hash)
            return FingerprintShape(
                hash=hash,
                profile=row.profile,
                kind=row.kind,
                payload=_stored_payload(row),
                code=code and code_shape(code),
            )
        if (found := await self._code(hash)) is not None:
            return found
        payload = self._installed.get(hash) or await self._of_agents(org, hash)
        if payload is None:
            raise NotFound(f"nothing is known here that has the hash {hash!r}")
        plain: Any = from_json(canonical(payload))  # like a recorded payload: large integers in their own form
        return FingerprintShape(hash=hash, profile=PROFILE, kind=payload["kind"], payload=plain)

    async def diff(self, org: str | None, before: str, after: str) -> FingerprintDiffShape:
        """Compare what two hashes cover. Raises ``NotFound``, and ``InvalidArguments`` if they are of two kinds."""
        one, other = await self.resolve(org, before), await self.resolve(org, after)
        if one.kind != other.kind:
            raise InvalidArguments(
                f"Invalid request: hashes of one kind are compared; these are of two: {one.kind} and {other.kind}"
            )
        changes = await asyncio.to_thread(diff_payloads, one.payload, other.payload)
        return FingerprintDiffShape(before=before, after=after, kind=one.kind, changes=change_shapes(changes))

    async def installed(self) -> InstalledShape:
        """Return the installed capabilities, with their hashes, those of their tools, and their code."""
        await self._read_code()
        return self._listed

    @cached_property
    def _listed(self) -> InstalledShape:
        found: list[InstalledCapability] = []
        for name, capability in self._registry.capabilities.items():
            itself, *parts = _of_capability(capability)
            hashes = {one.name: one.hash for one in parts if one.payload["kind"] == "tool"}
            tools = [
                RefShape(name=tool.name, hash=hashes[tool.name], code=code_of(tool).hash)
                for tool in capability.every_tool
            ]
            found.append(InstalledCapability(id=name, hash=itself.hash, tools=sorted(tools, key=lambda one: one.name)))
        every = {
            f"{name}.{tool.name}": tool for name, one in self._registry.capabilities.items() for tool in one.every_tool
        }
        return InstalledShape(profile=PROFILE, capabilities=found, code=code_shapes(every))

    async def _read_code(self) -> None:
        """Read the code of everything installed, once, in a thread."""
        await read_code_of(self._registry.tools)

    async def _code(self, hash: str) -> FingerprintShape | None:
        await self._read_code()
        code = known_code(hash)
        if code is None or code.covers is None:
            return None
        payload: Any = from_json(code.covers)
        return FingerprintShape(hash=hash, profile=PROFILE, kind="code", payload=payload, code=code_shape(code))

    @cached_property
    def _installed(self) -> Mapping[str, Payload]:
        """The payloads of this process by hash; a registry does not change."""
        parts = [part for one in self._registry.capabilities.values() for part in _of_capability(one)]
        for agent in self._registry.agents.values():
            with suppress(DefinitionError):  # an agent that cannot be composed has no hash
                parts += static_parts(self._kernel.compose(agent))
        return {one.hash: one.payload for one in parts}

    async def _of_agents(self, org: str | None, hash: str) -> Payload | None:
        """Return the payload of a hash from an agent stored for the org, or from a part of one."""
        kept = await self._kernel.store.agents.by_hash(org, hash)
        if kept is not None and (found := await self._in(kept, hash)) is not None:
            return found
        before: str | None = None
        left = _MOST
        while left > 0:
            query = AgentQuery(org, limit=min(left, _PAGE), before=before, max_bytes=PAGE_BYTES)
            page = await self._kernel.store.agents.list(query)
            left -= len(page.items)
            for row in page.items:
                if (found := await self._in(row, hash)) is not None:
                    return found
                await asyncio.sleep(0)  # the first composition of each takes a millisecond
            before = page.next
            if before is None:
                return None
        return None

    async def _in(self, row: AgentRow, hash: str) -> Payload | None:
        with suppress(DefinitionError):  # what is installed has changed since the agent was written
            return self._parts(self._kernel.compose((await self._agents.loaded(row)).agent)).get(hash)
        return None


def _parts_of(composition: Composition) -> Mapping[str, Payload]:
    return {one.hash: one.payload for one in static_parts(composition)}


def _of_capability(capability: AnyCapability) -> Iterator[Fingerprinted]:
    """Yield a capability as used by an agent with its defaults, and every toolkit and tool of all its presets."""
    yield _as_used(capability)
    for part in capability.parts.values():
        yield from _members(part.members)


def _as_used(capability: AnyCapability) -> Fingerprinted:
    """Return a capability with its payload: on its own, if it contributes nothing or needs a config."""
    with suppress(DefinitionError):
        for one in static_parts(compose(Agent("anyone", uses=[capability]))):
            if one.payload["kind"] == "capability" and one.name == capability.name:
                return one
    payload = used_payload(capability)
    return Fingerprinted(capability.name, digest(payload), payload)


def _members(members: Iterable[Member]) -> Iterator[Fingerprinted]:
    for one in members:
        payload = member_payload(one)
        yield Fingerprinted(one.name, digest(payload), payload)
        if isinstance(one, Toolkit):
            yield from _members(one.members)


def _stored_payload(row: PayloadRow) -> dict[str, Any]:  # JSON
    """Return the stored payload of a hash. Raises ``StoreError`` if it does not match the hash."""
    try:
        payload: Any = from_json(row.payload, allow_inf_nan=False)
        if not isinstance(payload, dict) or (row.profile == PROFILE and digest(read(row.payload)) != row.hash):
            raise StoreError(f"what is kept for the hash {row.hash} was changed: it has another one")
    except (ValueError, NotCanonical) as error:
        raise StoreError(f"what is kept for the hash {row.hash} was changed: {error}") from None
    return cast("dict[str, Any]", payload)
