"""The agents of an organisation: those that it made, and those that are defined in code (spec 5, P3–P5)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from pydantic import ValidationError

from capset.adapters.agent_entries import Misfit, refer
from capset.adapters.agent_file import make_agent
from capset.adapters.reopening import agent_in_code
from capset.definitions.agents import Agent
from capset.definitions.misfits import misfits
from capset.errors import Conflict, DefinitionError, InvalidArguments, NotFound, Outdated
from capset.kernel.kernel import Kernel
from capset.kernel.registry import Registry
from capset.stores.base import AgentRow, CapabilityRow, SessionRow
from capset.wire.agents import AgentInput, AgentShape, CapabilityEntry, entry_of_row

_CACHED: Final = 1_000
_TRIES: Final = 20
"""How often a change is tried again when others change the same agent; each time, one of them has succeeded."""


@dataclass(frozen=True, eq=False, slots=True)
class Loaded:
    """An agent ready for use; ``row`` is what is kept of it, unless it is defined in code.

    ``notices`` say what of its capabilities is gone, deprecated or contributes nothing.
    """

    id: str
    agent: Agent
    row: AgentRow | None
    notices: tuple[str, ...]


class StoredAgents:
    """Writes agents whole or not at all, and loads them even where a capability has gone since."""

    def __init__(self, kernel: Kernel, registry: Registry) -> None:
        self._kernel = kernel
        self._registry = registry
        # One object for one definition, so that the kernel composes it once.
        self._cached = lru_cache(_CACHED)(self._load)

    async def create(self, org: str | None, given: AgentInput) -> AgentRow:
        """Keep a new agent and return it.

        Raises ``DefinitionError``, naming everything that cannot be had, or a conflict.
        """
        now = self._kernel.now()
        empty = AgentRow(self._kernel.new_id(), org, "", "", "", (), (), (), "active", 1, "", now, now)
        row = self._filled(empty, given)
        await self._kernel.store.agents.create(row)
        return row

    async def get(self, org: str | None, id: str) -> Loaded:
        """Return an agent: a stored one by its id, or one that is defined in code by its name.

        Raises ``NotFound`` if the org has none such.
        """
        if (defined := self._registry.agents.get(id)) is not None:
            return Loaded(id, defined, None, self._kernel.compose(defined).notices)
        return self.loaded(await self._row(org, id))

    def loaded(self, row: AgentRow) -> Loaded:
        """Return a stored agent ready for use, or with a notice of why it cannot be used as it is any more."""
        agent, gone = self._cached(json.dumps(_definition(row)))
        try:
            notices = self._kernel.compose(agent).notices
        except DefinitionError as error:  # what is installed has changed since
            notices = (error.message,)
        return Loaded(row.id, agent, row, (*gone, *notices))

    def of_session(self, row: SessionRow) -> Agent:
        """Return a session's agent as it was when the session began, without what has gone since.

        Raises ``Conflict`` where it is not all in the session's definition, and its code is not here as it was then.
        """
        return agent_in_code(row, self._kernel, self._registry) or self._cached(row.definition)[0]

    async def change(
        self,
        org: str | None,
        id: str,
        patch: Mapping[str, Any],  # any JSON
        *,
        version: int | None = None,
    ) -> AgentRow:
        """Change an agent by a JSON merge patch (RFC 7396; null clears), whole or not at all, and return it.

        Raises ``InvalidArguments`` or ``DefinitionError`` for what does not fit, ``Outdated`` if the agent has another
        version than the one expected, and ``Conflict`` for one that is defined in code.
        """
        if id in self._registry.agents:
            raise Conflict(f"the agent {id!r} is defined in code and cannot be changed here")
        for _ in range(_TRIES):
            row = await self._row(org, id)
            if version is not None and version != row.version:
                raise Outdated(f"the agent {id!r} has the version {row.version}, not {version}")
            changed = self._filled(row, _patched(row, patch))
            if replace(changed, capabilities=row.capabilities) == row and _text(changed) == _text(row):
                return row
            changed = replace(changed, version=row.version + 1, updated_at=self._kernel.now())
            if await self._kernel.store.agents.replace(changed):
                return changed
        raise Conflict(f"the agent {id!r} is being changed by others all the time; try again later")

    async def _row(self, org: str | None, id: str) -> AgentRow:
        row = await self._kernel.store.agents.get(org, id)
        if row is None:
            raise NotFound(f"there is no agent {id!r}")
        return row

    def _filled(self, row: AgentRow, given: AgentInput) -> AgentRow:
        row = replace(row, tags=tuple(dict.fromkeys(given.tags)), status=given.status)
        entries = given.entries()
        filled = replace(
            row,
            name=given.name,
            description=given.description,
            system_prompt=given.system_prompt,
            instructions=tuple(given.instructions),
            capabilities=tuple(map(_row, entries)),
        )
        if _text(filled) == _text(row):
            return row  # so that one whose capability has gone can still be archived
        agent = make_agent(given, self._registry, f"agent {given.name!r}", is_new=True)
        return replace(
            filled,
            instructions=agent.instructions,
            capabilities=tuple(replace(_row(one), id=self._registry.get(one.id).name) for one in entries),
            static_hash=self._kernel.compose(agent).static_hash,
        )

    def _load(self, definition: str) -> tuple[Agent, tuple[str, ...]]:
        """Return the agent of a definition, and what of its capabilities is gone."""
        shape = AgentShape.model_validate_json(definition)
        referred = refer(shape.entries(), self._registry)
        agent = Agent(
            shape.name,
            description=shape.description,
            system_prompt=shape.system_prompt,
            instructions=shape.instructions,
            uses=referred.refs,
        )
        return agent, tuple(_notice(one, self._registry) for one in referred.misfits)


def _row(entry: CapabilityEntry) -> CapabilityRow:
    return CapabilityRow(entry.id, entry.presets or {}, entry.config, entry.prefix, entry.rename or {})


def _definition(row: AgentRow) -> dict[str, Any]:  # JSON
    texts = {name: getattr(row, name) for name in ("name", "description", "system_prompt")}
    capabilities = [one if isinstance(one, str) else one.plain() for one in map(entry_of_row, row.capabilities)]
    return {**texts, "instructions": list(row.instructions), "capabilities": capabilities}


def _text(row: AgentRow) -> str:
    """Return a definition as text, by which two are told apart: to Python, 1 and true are equal."""
    return json.dumps(_definition(row), sort_keys=True)


def _notice(one: Misfit, registry: Registry) -> str:
    if one.place:
        return f"capability {one.id!r} is used without {one.place}, which does not fit any more: {one.expected}"
    if one.id in registry.capabilities or one.id in registry.aliases:
        return f"capability {one.id!r} is left out: {one.expected}"
    return f"capability {one.id!r} is gone: it is not installed here"


def _patched(row: AgentRow, patch: Mapping[str, Any]) -> AgentInput:
    """Return what a patch makes of an agent; its members are texts and lists, which a patch replaces whole."""
    there: dict[str, Any] = {**_definition(row), "tags": list(row.tags), "status": row.status}
    # What there is not cannot be cleared either: it may be a slip of the pen.
    cleared = {name: value for name, value in {**there, **patch}.items() if value is not None or name not in there}
    try:
        return AgentInput.model_validate(cleared)
    except ValidationError as error:
        fields = misfits(error, list(AgentInput.model_fields), cleared)
        raise InvalidArguments(f"Invalid agent: {'; '.join(map(str, fields))}", fields=fields) from None
