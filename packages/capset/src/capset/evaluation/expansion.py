"""Expansion at run time: dynamic ``uses``, and the members of dynamic toolkits (spec 1, C27–C29; spec 2, F18, F22)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from inspect import isawaitable
from types import MappingProxyType
from typing import cast

from capset.composition.compose import Composition, check_routes, compose
from capset.composition.installation import Installed, InstalledToolkit, Installing, PolicyBinding
from capset.definitions.calls.contexts import Context
from capset.definitions.governance.policies import Policy
from capset.definitions.references import AnyRef, DynamicUses, as_ref
from capset.definitions.tools.toolkits import DynamicToolkit, Member, ToolkitContext, checked_members, distinct_tools
from capset.errors import CapsetError, ContextError, DefinitionError, PolicyConflict, ToolkitFailed, ToolNameConflict
from capset.evaluation.containment import is_contained
from capset.evaluation.plan import Plan


def with_dynamic_uses(composition: Composition, context: Context) -> Composition:
    """Return a composition with everything that its dynamic ``uses`` add in a context.

    Raises ``ContextError`` if one of them fails, and any error of ``compose`` for the references that they return.
    """
    decided: dict[DynamicUses, tuple[AnyRef, ...]] = {}
    block, within = composition.block, composition.data
    while pending := [function for function in composition.dynamic if function not in decided]:
        decided |= {function: ask_uses(function, context) for function in pending}
        composition = compose(block, decided, within=within)
    return composition


def ask_uses(function: DynamicUses, context: Context) -> tuple[AnyRef, ...]:
    """Return the references from one dynamic ``uses`` function. Raises ``ContextError`` if it fails."""
    name = getattr(function, "__name__", "uses")
    try:
        returned = cast("object", function(context))
        if not isinstance(returned, Iterable) or isinstance(returned, str):
            raise ContextError(f"the dynamic uses {name!r} must return a list of capabilities; got {returned!r:.80}")
        return tuple(as_ref(f"the dynamic uses {name!r}", use) for use in cast("Iterable[object]", returned))
    except ContextError:
        raise
    except CapsetError as error:
        raise ContextError(error.message, hint=error.hint) from error
    except Exception as error:
        raise ContextError(f"the dynamic uses {name!r} failed: {type(error).__name__}") from error


_log = logging.getLogger("capset.toolkits")


class Expansion:
    """The members of dynamic toolkits for one evaluation. Each toolkit is made once, however often it is used."""

    def __init__(self, plan: Plan) -> None:
        """``plan`` has the members that exist before the expansion."""
        self._plan = plan
        self._installing = Installing(plan.installed, plan.gates)
        self._members: dict[DynamicToolkit, tuple[Member, ...]] = {}
        self._made: dict[InstalledToolkit, tuple[InstalledToolkit, slice]] = {}
        self._ids: dict[str, Policy] = {policy.id: policy for policy in plan.gates}

    async def make(
        self, step: InstalledToolkit, toolkit: DynamicToolkit, context: ToolkitContext
    ) -> list[PolicyBinding | InstalledToolkit]:
        """Make a toolkit, install its members, and return their evaluation steps. Raises ``ToolkitFailed``."""
        if toolkit not in self._members:
            self._members[toolkit] = await expand_toolkits(toolkit, context)
        members, installing = self._members[toolkit], self._installing
        step_count, before = len(installing.steps), installing.count
        try:
            tools = distinct_tools(f"the dynamic toolkit {toolkit.name!r}", members)
            names = step.names.and_of(tools)
            installing.add(members, step.source, names, step.levels, step.path)
            self._check_ids(installing.steps[step_count:])
        except DefinitionError as error:
            message = f"the dynamic toolkit {toolkit.name!r} cannot be installed: {error.message}"
            raise ToolkitFailed(message, hint=error.hint) from error
        speaking = replace(step, names=names, tools=frozenset(map(names.of, tools)))
        self._made[step] = speaking, slice(before, installing.count)
        return installing.steps[step_count:]

    def plan(self, composition: Composition) -> Plan:
        """Return the expanded plan of a composition. Raises ``ToolkitFailed`` for a tool that cannot run."""
        if not self._made:
            return self._plan
        for installed in self._installing.tools.values():
            if installed.tool.block is not None and installed.tool.block not in composition.children:
                raise ToolkitFailed(
                    f"the dynamic toolkit {'.'.join(installed.toolkits)!r} made the tool {installed.name!r}, "
                    "which runs a block that nothing declares statically",
                    hint="put the tools that run blocks into tools=",
                )
        _check_routes(self._installing.tools, composition)
        members = dict.fromkeys(self._in_order(self._plan.members))
        return Plan(composition, tuple(members), MappingProxyType(self._installing.tools))

    def _in_order(self, members: Iterable[Installed | InstalledToolkit]) -> Iterator[Installed | InstalledToolkit]:
        """Yield the installed members, each dynamic toolkit followed by its own."""
        for member in members:
            if isinstance(member, Installed):
                yield self._installing.tools[member.name]
            elif member in self._made:
                speaking, inside = self._made[member]
                yield speaking
                yield from self._in_order(self._installing.members[inside])
            else:
                yield member

    def _check_ids(self, steps: Iterable[PolicyBinding | InstalledToolkit]) -> None:
        """Raise ``PolicyConflict`` for two policies with one id, since records could not tell them apart."""
        for step in steps:
            if isinstance(step, PolicyBinding) and self._ids.setdefault(step.policy.id, step.policy) is not step.policy:
                raise PolicyConflict(
                    f"two different policies have the id {step.policy.id!r}",
                    hint="share one Policy object, or give one of them another id",
                )


def _check_routes(tools: Mapping[str, Installed], composition: Composition) -> None:
    try:
        check_routes(tools, composition.chosen)
    except ToolNameConflict as error:
        raise ToolkitFailed(error.message, hint=error.hint) from error


async def expand_toolkits(toolkit: DynamicToolkit, context: ToolkitContext) -> tuple[Member, ...]:
    """Return the members of a dynamic toolkit in a context.

    Raises ``ToolkitFailed`` for any failure inside it, since tools must never disappear silently.
    """
    owner = f"the dynamic toolkit {toolkit.name!r}"
    try:
        members = toolkit.make(context)
        gave = await members if isawaitable(members) else members
    except CapsetError as error:
        raise ToolkitFailed(f"{owner} failed: {error.message}", hint=error.hint) from error
    except BaseException as error:
        if not is_contained(error):
            raise
        raise _failed(owner, error) from error
    try:
        return checked_members(owner, gave)
    except ToolNameConflict as error:
        raise ToolkitFailed(error.message, hint=error.hint) from error
    except DefinitionError as error:
        # The message quotes the returned value, which may be anything, so it is only logged.
        _log.error("%s", error.message)
        message = f"{owner} failed: it must return a list of tools and toolkits; the log has the details"
        raise ToolkitFailed(message) from error
    except BaseException as error:  # raised by the returned iterator
        if not is_contained(error):
            raise
        raise _failed(owner, error) from error


def _failed(owner: str, error: BaseException) -> ToolkitFailed:
    """Log a failure, and return the public error for it."""
    _log.error("%s failed", owner, exc_info=error)
    return ToolkitFailed(f"{owner} failed: {type(error).__name__}")
