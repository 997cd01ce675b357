"""Expansion at run time: dynamic ``uses``, and the members of dynamic toolkits (spec 1, C27–C29; spec 2, F18, F22)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from inspect import isawaitable
from types import MappingProxyType
from typing import cast

from capset.composition.compose import Composition, check_routes, compose
from capset.composition.installation import InstalledTool, InstalledToolkit, PolicyBinding, ToolInstaller
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
    dynamic_refs: dict[DynamicUses, tuple[AnyRef, ...]] = {}
    block, data = composition.block, composition.data
    while pending := [function for function in composition.dynamic if function not in dynamic_refs]:
        dynamic_refs |= {function: resolve_uses(function, context) for function in pending}
        composition = compose(block, dynamic_refs, data=data)
    return composition


def resolve_uses(function: DynamicUses, context: Context) -> tuple[AnyRef, ...]:
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
        self._installer = ToolInstaller(plan.installed, plan.policies)
        self._members: dict[DynamicToolkit, tuple[Member, ...]] = {}
        self._expanded: dict[InstalledToolkit, tuple[InstalledToolkit, slice]] = {}
        self._policies_by_id: dict[str, Policy] = {policy.id: policy for policy in plan.policies}

    async def make(
        self, step: InstalledToolkit, toolkit: DynamicToolkit, context: ToolkitContext
    ) -> list[PolicyBinding | InstalledToolkit]:
        """Make a toolkit, install its members, and return their evaluation steps. Raises ``ToolkitFailed``."""
        if toolkit not in self._members:
            self._members[toolkit] = await expand_toolkit(toolkit, context)
        members, installer = self._members[toolkit], self._installer
        step_count, member_count = len(installer.steps), installer.count
        try:
            tools = distinct_tools(f"the dynamic toolkit {toolkit.name!r}", members)
            names = step.names.with_tools(tools)
            installer.add(members, step.source, names, step.levels, step.path)
            self._check_ids(installer.steps[step_count:])
        except DefinitionError as error:
            message = f"the dynamic toolkit {toolkit.name!r} cannot be installed: {error.message}"
            raise ToolkitFailed(message, hint=error.hint) from error
        installed_toolkit = replace(step, names=names, tools=frozenset(map(names.name_of, tools)))
        self._expanded[step] = installed_toolkit, slice(member_count, installer.count)
        return installer.steps[step_count:]

    def plan(self, composition: Composition) -> Plan:
        """Return the expanded plan of a composition. Raises ``ToolkitFailed`` for a tool that cannot run."""
        if not self._expanded:
            return self._plan
        for installed in self._installer.tools.values():
            if installed.tool.block is not None and installed.tool.block not in composition.children:
                raise ToolkitFailed(
                    f"the dynamic toolkit {'.'.join(installed.toolkits)!r} made the tool {installed.name!r}, "
                    "which runs a block that nothing declares statically",
                    hint="put the tools that run blocks into tools=",
                )
        _check_routes(self._installer.tools, composition)
        members = dict.fromkeys(self._in_order(self._plan.members))
        return Plan(composition, tuple(members), MappingProxyType(self._installer.tools))

    def _in_order(
        self, members: Iterable[InstalledTool | InstalledToolkit]
    ) -> Iterator[InstalledTool | InstalledToolkit]:
        """Yield the installed members, each dynamic toolkit followed by its own."""
        for member in members:
            if isinstance(member, InstalledTool):
                yield self._installer.tools[member.name]
            elif member in self._expanded:
                installed_toolkit, own_members = self._expanded[member]
                yield installed_toolkit
                yield from self._in_order(self._installer.members[own_members])
            else:
                yield member

    def _check_ids(self, steps: Iterable[PolicyBinding | InstalledToolkit]) -> None:
        """Raise ``PolicyConflict`` for two policies with one id, since records could not tell them apart."""
        for step in steps:
            if (
                isinstance(step, PolicyBinding)
                and self._policies_by_id.setdefault(step.policy.id, step.policy) is not step.policy
            ):
                raise PolicyConflict(
                    f"two different policies have the id {step.policy.id!r}",
                    hint="share one Policy object, or give one of them another id",
                )


def _check_routes(tools: Mapping[str, InstalledTool], composition: Composition) -> None:
    try:
        check_routes(tools, composition.capability_uses)
    except ToolNameConflict as error:
        raise ToolkitFailed(error.message, hint=error.hint) from error


async def expand_toolkit(toolkit: DynamicToolkit, context: ToolkitContext) -> tuple[Member, ...]:
    """Return the members of a dynamic toolkit in a context.

    Raises ``ToolkitFailed`` for any failure inside it, since tools must never disappear silently.
    """
    owner = f"the dynamic toolkit {toolkit.name!r}"
    try:
        members = toolkit.make(context)
        returned = await members if isawaitable(members) else members
    except CapsetError as error:
        raise ToolkitFailed(f"{owner} failed: {error.message}", hint=error.hint) from error
    except BaseException as error:
        if not is_contained(error):
            raise
        raise _log_failure(owner, error) from error
    try:
        return checked_members(owner, returned)
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
        raise _log_failure(owner, error) from error


def _log_failure(owner: str, error: BaseException) -> ToolkitFailed:
    """Log a failure, and return the public error for it."""
    _log.error("%s failed", owner, exc_info=error)
    return ToolkitFailed(f"{owner} failed: {type(error).__name__}")
