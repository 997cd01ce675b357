"""Making the members of a dynamic toolkit (spec 2, F5, F18, F22)."""

from __future__ import annotations

import logging
from inspect import isawaitable

from capset.definitions.toolkits import DynamicToolkit, Member, ToolkitContext, checked_members
from capset.errors import CapsetError, ToolkitFailed
from capset.evaluation.containment import is_contained

_log = logging.getLogger("capset.toolkits")


async def make_members(toolkit: DynamicToolkit, context: ToolkitContext) -> tuple[Member, ...]:
    """Return what a dynamic toolkit is here and now.

    Raises ``ToolkitFailed`` for whatever goes wrong in it: an evaluation never shrinks silently.
    """
    owner = f"the dynamic toolkit {toolkit.name!r}"
    try:
        members = toolkit.make(context)
        return checked_members(owner, await members if isawaitable(members) else members)
    except CapsetError as error:
        raise ToolkitFailed(f"{owner} failed: {error.message}", hint=error.hint) from error
    except BaseException as error:
        if not is_contained(error):
            raise
        _log.exception("%s failed", owner)
        raise ToolkitFailed(f"{owner} failed: {type(error).__name__}") from error
