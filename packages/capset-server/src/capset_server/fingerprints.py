"""Lookup of hashes among recorded payloads, installed definitions, and the org's own agents (spec 5, P12)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property, lru_cache
from typing import Any, Final, cast

from pydantic_core import from_json

from capset.composition.compose import Composition, compose
from capset.composition.statics import FingerprintedPart, static_parts
from capset.definitions.agents import Agent
from capset.definitions.capabilities import AnyCapability
from capset.definitions.tools.toolkits import Member, Toolkit
from capset.errors import DefinitionError, InvalidArguments, NotFound, StoreError
from capset.evaluation.code import code_of, known_code, read_code_of
from capset.fingerprint.canonical import PROFILE, NotCanonical, canonical, digest, read
from capset.fingerprint.hashes import member_payload, reference_payload
from capset.fingerprint.payload_changes import diff_payloads
from capset.fingerprint.payloads import Payload
from capset.kernel.kernel import Kernel
from capset.kernel.registry import Registry
from capset.stores.base import AgentQuery, AgentRow, PayloadRow
from capset.wire.diffs import FingerprintDiffShape, change_shapes
from capset.wire.fingerprints import FingerprintShape, InstalledCapability, InstalledShape, code_shape, code_shapes
from capset.wire.lineage import RefShape
from capset.wire.pages import PAGE_BYTES
from capset_connect.agents.store import StoredAgents

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
        if (shape := await self._code(hash)) is not None:
            return shape
        payload = self._installed.get(hash) or await self._of_agents(org, hash)
        if payload is None:
            raise NotFound(f"nothing known here has the hash {hash!r}")
        plain: Any = from_json(canonical(payload))  # like a recorded payload: large integers in their canonical form
        return FingerprintShape(hash=hash, profile=PROFILE, kind=payload["kind"], payload=plain)

    async def diff(self, org: str | None, before: str, after: str) -> FingerprintDiffShape:
        """Compare the payloads of two hashes. Raises ``NotFound``, and ``InvalidArguments`` if their kinds differ."""
        old, new = await self.resolve(org, before), await self.resolve(org, after)
        if old.kind != new.kind:
            raise InvalidArguments(
                f"Invalid request: only hashes of the same kind can be compared, not {old.kind} and {new.kind}"
            )
        changes = await asyncio.to_thread(diff_payloads, old.payload, new.payload)
        return FingerprintDiffShape(before=before, after=after, kind=old.kind, changes=change_shapes(changes))

    async def installed(self) -> InstalledShape:
        """Return the installed capabilities with their hashes, the hashes of their tools, and their code."""
        await self._read_code()
        return self._listed

    @cached_property
    def _listed(self) -> InstalledShape:
        capabilities: list[InstalledCapability] = []
        for name, capability in self._registry.capabilities.items():
            itself, *parts = _of_capability(capability)
            hashes = {part.name: part.hash for part in parts if part.payload["kind"] == "tool"}
            tools = [
                RefShape(name=tool.name, hash=hashes[tool.name], code=code_of(tool).hash)
                for tool in capability.every_tool
            ]
            capabilities.append(
                InstalledCapability(id=name, hash=itself.hash, tools=sorted(tools, key=lambda ref: ref.name))
            )
        every = {
            f"{name}.{tool.name}": tool
            for name, installed in self._registry.capabilities.items()
            for tool in installed.every_tool
        }
        return InstalledShape(profile=PROFILE, capabilities=capabilities, code=code_shapes(every))

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
        """The payloads of everything installed, by hash; a registry never changes."""
        parts = [part for capability in self._registry.capabilities.values() for part in _of_capability(capability)]
        for agent in self._registry.agents.values():
            with suppress(DefinitionError):  # an agent that cannot be composed has no hash
                parts += static_parts(self._kernel.compose(agent))
        return {part.hash: part.payload for part in parts}

    async def _of_agents(self, org: str | None, hash: str) -> Payload | None:
        """Return the payload of a hash from an agent stored for the org, or from a part of one."""
        stored = await self._kernel.store.agents.by_hash(org, hash)
        if stored is not None and (payload := await self._in(stored, hash)) is not None:
            return payload
        before: str | None = None
        remaining = _MOST
        while remaining > 0:
            query = AgentQuery(org, limit=min(remaining, _PAGE), before=before, max_bytes=PAGE_BYTES)
            page = await self._kernel.store.agents.list(query)
            remaining -= len(page.items)
            for row in page.items:
                if (payload := await self._in(row, hash)) is not None:
                    return payload
                await asyncio.sleep(0)  # let others run: the first composition of an agent takes a millisecond
            before = page.next
            if before is None:
                return None
        return None

    async def _in(self, row: AgentRow, hash: str) -> Payload | None:
        with suppress(DefinitionError):  # the installed definitions have changed since the agent was stored
            return self._parts(self._kernel.compose((await self._agents.loaded(row)).agent)).get(hash)
        return None


def _parts_of(composition: Composition) -> Mapping[str, Payload]:
    return {part.hash: part.payload for part in static_parts(composition)}


def _of_capability(capability: AnyCapability) -> Iterator[FingerprintedPart]:
    """Yield a capability as used by an agent with its defaults, and every toolkit and tool of all its presets."""
    yield _as_used(capability)
    for part in capability.parts.values():
        yield from _members(part.members)


def _as_used(capability: AnyCapability) -> FingerprintedPart:
    """Return a capability as an agent uses it, or on its own if it contributes nothing or needs a config."""
    with suppress(DefinitionError):
        for part in static_parts(compose(Agent("anyone", uses=[capability]))):
            if part.payload["kind"] == "capability" and part.name == capability.name:
                return part
    payload = reference_payload(capability)
    return FingerprintedPart(capability.name, digest(payload), payload)


def _members(members: Iterable[Member]) -> Iterator[FingerprintedPart]:
    for member in members:
        payload = member_payload(member)
        yield FingerprintedPart(member.name, digest(payload), payload)
        if isinstance(member, Toolkit):
            yield from _members(member.members)


def _stored_payload(row: PayloadRow) -> dict[str, Any]:  # JSON
    """Return the stored payload of a hash. Raises ``StoreError`` if it does not match the hash."""
    try:
        payload: Any = from_json(row.payload, allow_inf_nan=False)
        if not isinstance(payload, dict) or (row.profile == PROFILE and digest(read(row.payload)) != row.hash):
            raise StoreError(f"the payload stored for the hash {row.hash} was altered: it has another hash")
    except (ValueError, NotCanonical) as error:
        raise StoreError(f"the payload stored for the hash {row.hash} was altered: {error}") from None
    return cast("dict[str, Any]", payload)
