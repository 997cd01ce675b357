"""Who acts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from capset.definitions.names import checked_optional, checked_permissions, checked_text
from capset.errors import DefinitionError

PrincipalKind = Literal["user", "agent", "org"]


@dataclass(frozen=True, slots=True, init=False)
class Principal:
    """An agent, a user or an organisation, with the permissions that it holds (spec 4, G8).

    Equal by value. Permissions are exact ``resource:verb`` strings; roles are expanded before they get here.
    Raises ``DefinitionError`` for an empty id, an unknown kind or a permission of another form.
    """

    id: str
    permissions: frozenset[str]
    kind: PrincipalKind
    org: str | None

    def __init__(
        self,
        id: str,
        *,
        permissions: Iterable[str] = (),
        kind: PrincipalKind = "user",
        org: str | None = None,
    ) -> None:
        if not checked_text("a principal's id", id).strip() or not id.isprintable():
            raise DefinitionError(f"a principal's id must be printable text, and not empty; got {id!r}")
        if kind not in get_args(PrincipalKind):
            raise DefinitionError(f"principal {id!r}: kind must be user, agent or org; got {kind!r}")
        store = object.__setattr__
        store(self, "id", id)
        store(self, "permissions", checked_permissions(f"principal {id!r}", permissions))
        store(self, "kind", kind)
        store(self, "org", checked_optional(f"principal {id!r}: org", org))
