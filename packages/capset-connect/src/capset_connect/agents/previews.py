"""Previews of changes to agents: every problem is reported, and nothing is stored (spec 5, P7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from capset.composition.compose import Composition, compose
from capset.composition.conflicts import CompositionConflict, conflicts_of
from capset.definitions.agents import Agent
from capset.definitions.references import AnyRef
from capset.errors import Field
from capset.kernel.registry import Registry
from capset.stores.base import AgentRow
from capset.wire.agents import AgentInput
from capset_connect.agents.definitions import agent_of, context_of
from capset_connect.agents.entries import refer
from capset_connect.agents.permissions import needs_admin
from capset_connect.agents.rows import Loaded


@dataclass(frozen=True, eq=False, slots=True)
class Preview:
    """An agent that could be stored, or everything that prevents it; ``agent`` is then ``None``.

    ``problems`` are invalid fields; ``conflicts`` are conflicts between valid ones. ``needs_admin`` names the
    capabilities that only an administrator can enable. For a change of an existing agent, ``saved`` is its current
    state and ``written`` the row that would be stored.
    """

    agent: Agent | None
    problems: tuple[Field, ...] = ()
    conflicts: tuple[CompositionConflict, ...] = ()
    needs_admin: tuple[str, ...] = ()
    saved: Loaded | None = None
    written: AgentRow | None = None


def preview_of(agent_input: AgentInput, registry: Registry, before: Composition | None) -> Preview:
    """Return the preview of an agent. ``before`` is the composition of its current version, if it has one.

    A hundred capabilities with many conflicts take a second.
    """
    referred = refer(agent_input.entries(), registry, is_new=True)
    context, wrong = context_of(agent_input.static_context)
    problems = (*wrong, *(misfit.field for misfit in referred.misfits))

    def make(refs: Sequence[AnyRef]) -> Agent:
        return agent_of(agent_input, refs, context)

    conflicts = conflicts_of(make, referred.refs)
    if conflicts:
        return Preview(None, problems, conflicts)
    agent = make(referred.refs)
    needed = needs_admin(compose(agent), before)
    return Preview(None if problems else agent, problems, (), needed)
