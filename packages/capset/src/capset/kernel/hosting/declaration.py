"""The declaration of an agent and its sessions: one frozen value (spec 2, F25)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from inspect import isawaitable
from types import MappingProxyType
from typing import Any, cast

from capset.definitions.agents import Agent
from capset.definitions.blocks import Block
from capset.definitions.names import checked_list, checked_text, checked_text_mapping
from capset.errors import ContextError, DefinitionError
from capset.evaluation.containment import name_of
from capset.kernel.hosting.events import SessionTurn
from capset.kernel.hosting.hooks import (
    NO_SESSION_HOOKS,
    SessionHooks,
    check_arity,
    checked_session_hooks,
    merge_session_hooks,
)
from capset.kernel.session_access import check_block

Run = Callable[[SessionTurn], Awaitable[Any] | Any]
"""Does the work of a turn, sync or async, and returns its output, which is of the host's own type."""


@dataclass(frozen=True, eq=False, slots=True)
class Declaration:
    """An agent under its id, and the hooks, the context and the ``run`` of its sessions.

    ``context`` begins with the agent's static context. Without a ``run``, the agent itself runs.
    """

    agent_id: str
    agent: Block
    hooks: SessionHooks
    context: tuple[Entry, ...]
    run: Run | None

    def extended(
        self, owner: str, hooks: SessionHooks | None, context: ContextLayer | None = None, run: Run | None = None
    ) -> Declaration:
        """Return this declaration with more hooks after its own, another layer of context, and ``run`` if it is given.

        Raises ``DefinitionError`` for invalid values, with a message that begins with ``owner``.
        """
        return replace(
            self,
            hooks=merge_session_hooks(self.hooks, checked_session_hooks(owner, hooks)),
            context=(*self.context, *checked_layer(owner, context)),
            run=self.run if run is None else _checked_run(owner, run),
        )


def declare(agent: Block, agent_id: str | None) -> Declaration:
    """Return the bare declaration of an agent or another block. Raises ``DefinitionError`` for anything else."""
    check_block("register takes", agent)
    checked_agent_id = checked_id("register: agent_id", agent.name if agent_id is None else agent_id)
    entries = (partial(_copy_static_context, agent),) if isinstance(agent, Agent) else ()
    return Declaration(checked_agent_id, agent, NO_SESSION_HOOKS, entries, None)


def _copy_static_context(agent: Agent, input: Any, so_far: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a copy of an agent's static context for one turn, which may change it."""
    return deepcopy(dict(agent.static_context))


def checked_id(label: str, id: object) -> str:
    """Return an id chosen by the host. Raises ``DefinitionError`` unless it is non-empty printable text."""
    text = checked_text(label, id)
    if not text.strip() or not text.isprintable():
        raise DefinitionError(f"{label} must be printable text; got {text!r:.80}")
    return text


def _checked_run(owner: str, run: object) -> Run:
    if not callable(run):
        raise DefinitionError(f"{owner}: run must be a function of a turn that returns its output; got {run!r:.80}")
    check_arity(f"{owner}: run", run, "turn")
    return run


Resolver = Callable[[Any, Mapping[str, Any]], Mapping[str, Any] | Awaitable[Mapping[str, Any]]]
"""A function, sync or async, of a turn's input and the read-only context so far, which returns what to add to it."""
Entry = Mapping[str, Any] | Resolver
ContextLayer = Entry | Sequence[Entry]


def checked_layer(owner: str, layer: ContextLayer | None) -> tuple[Entry, ...]:
    """Return a layer's copied mappings and its resolvers, in order. Raises ``DefinitionError`` for anything else."""
    if layer is None:
        return ()
    if isinstance(layer, Mapping) or callable(layer):
        return (_checked_entry(owner, cast("object", layer)),)
    return tuple(_checked_entry(owner, entry) for entry in checked_list(f"{owner}: context", layer))


async def merge_context(entries: Iterable[Entry], input: Any) -> Mapping[str, Any]:
    """Merge all entries, shallowly, and return the result, which is read-only.

    Raises ``ContextError`` for a resolver that returns anything but a mapping with text keys; exceptions of resolvers
    propagate.
    """
    merged: Mapping[str, Any] = MappingProxyType({})
    for entry in entries:
        addition = await _resolve(entry, input, merged) if callable(entry) else entry
        merged = MappingProxyType({**merged, **addition})  # a new mapping, since a resolver may hold the previous one
    return merged


async def _resolve(resolver: Resolver, input: Any, so_far: Mapping[str, Any]) -> Mapping[str, Any]:
    resolved: object = resolver(input, so_far)
    if isawaitable(resolved):
        resolved = await resolved
    try:
        return checked_text_mapping(f"the context resolver {name_of(resolver)}: its result", resolved)
    except DefinitionError as error:
        raise ContextError(error.message, hint="return a mapping of names to values, or {} for none") from None


def _checked_entry(owner: str, entry: object) -> Entry:
    if isinstance(entry, Mapping):
        return checked_text_mapping(f"{owner}: context", cast("object", entry))
    if not callable(entry):
        raise DefinitionError(
            f"{owner}: context must be a mapping, a resolver (input, context so far) -> mapping, or a list of these; "
            f"got {entry!r:.80}"
        )
    check_arity(f"{owner}: a context resolver", entry, "input", "context so far")
    return cast("Resolver", entry)
