"""The types that lead to processors: one each, and no other tool's name (spec 3, K5)."""

from __future__ import annotations

from collections.abc import Iterable

from capset.composition.installing import Installed
from capset.errors import ToolNameConflict


def check_routes(tools: Iterable[Installed]) -> None:
    """Raise ``ToolNameConflict``, naming both contributors, where messages of one type would have two ways to go."""
    installed = list(tools)
    routes = {name: one for one in installed for name in (one.qualified, one.name)}
    for one in installed:
        if one.tool.contract is None:
            continue
        other = routes.setdefault(one.tool.type, one)
        if other.tool is not one.tool:
            raise ToolNameConflict(
                f"{one.source} brings {one.name!r} for messages of the type {one.tool.type!r}, which lead to the tool "
                f"{other.name!r} that {other.source} brings",
                hint="leave one of them out: a prefix or another name does not change the type of its messages",
            )
