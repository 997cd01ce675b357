"""Who may give an agent what is of high risk: an administrator alone (spec 5, P3)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_json

from capset.composition.compose import Composition
from capset.errors import PermissionDenied


@dataclass(frozen=True, slots=True)
class Author:
    """Who writes agents, such as ``user:ada``, and whether as an administrator."""

    name: str
    is_admin: bool = False


def needs_admin(after: Composition, before: Composition | None) -> tuple[str, ...]:
    """Return the high-risk capabilities that an agent has and had not before, or not in this way.

    Those count too that come by another's ``uses`` or stand in a block that a tool runs. One that is used with another
    config or other presets is enabled anew: it may reach something else then. Dynamic ``uses`` are decided at run time;
    what they can add is the risk of the capability that has them.
    """
    known = {} if before is None else _used(before)
    return tuple(name for name, used in _used(after).items() if known.get(name) != used)


def check_enabled(needed: tuple[str, ...]) -> None:
    """Raise ``PermissionDenied``, naming what only an administrator enables, if there is any."""
    if needed:
        raise PermissionDenied(
            f"Permission denied: only an administrator enables {', '.join(map(repr, needed))}",
            hint="leave it as it is, or ask somebody whose key has the scope capset:admin",
        )


def _used(composition: Composition) -> dict[str, list[Any]]:
    """Return how each high-risk capability of an agent is used, wherever it stands in it."""
    found: dict[str, list[Any]] = {}
    pending, seen = [composition], {composition}
    while pending:
        for one in (current := pending.pop()).chosen:
            if one.capability.risk == "high":
                way = (one.presets, one.config, _text_of(one.config), dict(one.names), one.prefix, one.is_base)
                found.setdefault(one.capability.name, []).append(way)
        pending += [child for child in current.children.values() if child not in seen]
        seen.update(current.children.values())
    return found


def _text_of(config: Any) -> str:
    """Return a config as JSON text, since Python takes 1, 1.0 and True for equal.

    It is compared beside the config and not in its place: a secret's text is the same as any other's.
    """
    try:
        return json.dumps(json.loads(to_json(config, round_trip=True, serialize_unknown=True)), sort_keys=True)
    except ValueError:  # a serialiser of the model's own refuses it
        return repr(config)
