"""Roles: names for permissions, expanded before a principal is made (spec 4, G8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import cast

from capset.definitions.names import PERMISSION, checked_text, listed, mapped
from capset.errors import DefinitionError, unknown


@dataclass(frozen=True, slots=True, init=False)
class Roles:
    """Permissions by role: ``Roles({"reader": ["notes:read"], "editor": ["reader", "notes:write"]})``.

    What a role has is a permission if it has a colon, else another role. Raises ``DefinitionError`` for a role that is
    not there, one that has itself, and a permission of another form.
    """

    permissions: Mapping[str, frozenset[str]]

    def __init__(self, roles: Mapping[str, Iterable[str]] | None = None) -> None:
        given = {
            _role(name): _members(name, members)
            for name, members in mapped("roles", {} if roles is None else roles).items()
        }
        found = {name: _expanded(name, given, ()) for name in given}
        object.__setattr__(self, "permissions", MappingProxyType(found))

    def expand(self, *names: str) -> frozenset[str]:
        """Return the permissions of some roles. Raises ``DefinitionError`` for one that is not there."""
        if wrong := [name for name in names if name not in self.permissions]:
            raise DefinitionError(unknown("role", wrong[0], self.permissions))
        return frozenset[str]().union(*(self.permissions[name] for name in names))


def _role(name: object) -> str:
    text = checked_text("a role's name", name)
    if not text or ":" in text or not text.isprintable():
        raise DefinitionError(f"a role's name is printable text without a colon, and not empty; got {name!r}")
    return text


def _members(name: object, members: object) -> list[str]:
    given: Iterable[object] = (
        cast("Set[object]", members) if isinstance(members, Set) else listed(f"role {name!r}", members)
    )
    found: list[str] = []
    for one in given:
        if not isinstance(one, str) or (":" in one and not PERMISSION.fullmatch(one)):
            raise DefinitionError(f"role {name!r}: a permission is resource:verb; got {one!r}")
        found.append(one)
    return found


def _expanded(name: str, given: Mapping[str, list[str]], above: tuple[str, ...]) -> frozenset[str]:
    if name in above:
        raise DefinitionError(f"the role {name!r} has itself: {' → '.join((*above, name))}")
    if name not in given:
        raise DefinitionError(f"role {above[-1]!r}: {unknown('role', name, given)}")
    found: set[str] = set()
    for one in given[name]:
        found |= {one} if ":" in one else _expanded(one, given, (*above, name))
    return frozenset(found)
