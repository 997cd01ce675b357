"""Message types as routes to processors: each unique, and distinct from the names of other tools (spec 3, K5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from capset.composition.installation import Installed
from capset.composition.resolve import Chosen
from capset.errors import ToolNameConflict


def check_routes(tools: Mapping[str, Installed], chosen: Iterable[Chosen]) -> None:
    """Raise ``ToolNameConflict``, naming both contributors, if messages of one type would have two routes.

    ``tools`` are by their names here; the names and aliases of the capabilities in ``chosen`` lead to tools too.
    """
    routes = _names(tools, chosen)
    for one in tools.values():
        if one.tool.contract is None:
            continue
        other = routes.setdefault(one.tool.type, one)
        if other.tool is not one.tool:
            raise ToolNameConflict(
                f"{one.source} brings {one.name!r} for messages of the type {one.tool.type!r}, which lead to the tool "
                f"{other.name!r} that {other.source} brings",
                hint="leave one of them out: a prefix or another name does not change the type of its messages",
            )


def _names(tools: Mapping[str, Installed], chosen: Iterable[Chosen]) -> dict[str, Installed]:
    """Return every name that a tool can be called by."""
    names = {name: one for one in tools.values() for name in (one.qualified, one.name)}
    aliases: dict[str, tuple[str, ...]] = {}
    for one in chosen:
        owners = aliases[one.capability.name] = (one.capability.name, *one.capability.aliases)
        for _, part in one.parts:
            for tool in part.tools:
                called = one.names[tool.name]
                names |= {f"{owner}.{called}": tools[called] for owner in owners}
    return names | {f"{owner}.{one.name}": one for one in tools.values() for owner in aliases.get(one.owner, ())}
