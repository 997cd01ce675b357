"""Protection of high-risk capabilities: only an administrator can give them to an agent (spec 5, P3)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_json

from capset.composition.compose import Composition
from capset.definitions.principals import Principal
from capset.errors import PermissionDenied


@dataclass(frozen=True, slots=True)
class Author:
    """The author of a change, such as ``user:ada``, and whether it is an administrator.

    If ``principal`` is known, it is recorded as the author of the change.
    """

    name: str
    is_admin: bool = False
    principal: Principal | None = None


def needs_admin(after: Composition, before: Composition | None) -> tuple[str, ...]:
    """Return the high-risk capabilities that a change adds to an agent, or whose use it changes.

    This includes capabilities from another capability's ``uses`` or from a block that a tool runs. A change of config
    or presets counts, because the capability may then reach something else. Dynamic ``uses`` are decided at run time;
    the risk of the capability that declares them must cover what they can add.
    """
    used_before = {} if before is None else _used(before)
    return tuple(name for name, used in _used(after).items() if used_before.get(name) != used)


def check_enabled(needed: tuple[str, ...]) -> None:
    """Raise ``PermissionDenied``, naming the capabilities in ``needed``, unless it is empty."""
    if needed:
        raise PermissionDenied(
            f"Permission denied: only an administrator can enable {', '.join(map(repr, needed))}",
            hint="leave it unchanged, or ask someone whose key has the scope capset:admin",
        )


def _used(composition: Composition) -> dict[str, list[Any]]:
    """Return the uses of each high-risk capability of an agent, at any depth."""
    uses: dict[str, list[Any]] = {}
    pending, visited = [composition], {composition}
    while pending:
        for choice in (current := pending.pop()).capability_uses:
            if choice.capability.risk == "high":
                way = (
                    choice.presets,
                    choice.config,
                    _text_of(choice.config),
                    dict(choice.names),
                    choice.prefix,
                    choice.is_base,
                )
                uses.setdefault(choice.capability.name, []).append(way)
        pending += [child for child in current.children.values() if child not in visited]
        visited.update(current.children.values())
    return uses


def _text_of(config: Any) -> str:
    """Return a config as JSON text, because Python treats 1, 1.0 and True as equal.

    Compare it in addition to the config, not instead of it: all secrets have the same text.
    """
    try:
        return json.dumps(json.loads(to_json(config, round_trip=True, serialize_unknown=True)), sort_keys=True)
    except ValueError:  # refused by the model's own serialiser
        return repr(config)
