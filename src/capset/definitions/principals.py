"""Who acts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, get_args

from capset.definitions.attributes import NO_ATTRIBUTES, Attributes
from capset.definitions.limits import Allowance, lowest_allowance
from capset.definitions.names import checked_optional, checked_permissions, checked_text, listed
from capset.errors import DefinitionError

PrincipalKind = Literal["user", "agent", "org", "anonymous"]


@dataclass(frozen=True, slots=True, init=False)
class Principal:
    """An agent, a user or an organisation, with the permissions that it holds (spec 4, G8); or nobody known.

    Equal by value. Permissions are exact ``resource:verb`` strings; roles are expanded before they get here.
    ``on_behalf_of`` is whom it acts for, as records name them: ``user:ada``; ``acting_for`` makes it. ``allowance`` is
    what its sessions and runs may use, and limits on its calls together (G13–G15). ``attributes`` are what its key, its
    token or the host says of it, such as ``{"tier": "pro"}``, for policies to read: a flat JSON object (spec 2, F34).
    ``on_behalf_of_attributes`` are those of each principal that ``on_behalf_of`` names, the nearest first, and empty
    where nothing is said of it.
    Raises ``DefinitionError`` for an empty id, an unknown kind, or a permission or an attribute of another form.
    """

    id: str
    permissions: frozenset[str]
    kind: PrincipalKind
    org: str | None
    on_behalf_of: str | None
    allowance: Allowance | None
    attributes: Attributes
    on_behalf_of_attributes: tuple[Attributes, ...]

    def __init__(
        self,
        id: str,
        *,
        permissions: Iterable[str] = (),
        kind: PrincipalKind = "user",
        org: str | None = None,
        on_behalf_of: str | None = None,
        allowance: Allowance | None = None,
        attributes: Mapping[str, Any] | None = None,  # a policy knows the types of its own attributes
        on_behalf_of_attributes: Iterable[Mapping[str, Any]] = (),  # as above
    ) -> None:
        if not checked_text("a principal's id", id).strip() or not id.isprintable():
            raise DefinitionError(f"a principal's id must be printable text, and not empty; got {id!r}")
        if kind not in get_args(PrincipalKind):
            raise DefinitionError(f"principal {id!r}: kind must be one of {get_args(PrincipalKind)}; got {kind!r}")
        store = object.__setattr__
        store(self, "id", id)
        store(self, "permissions", checked_permissions(f"principal {id!r}", permissions))
        store(self, "kind", kind)
        store(self, "org", checked_optional(f"principal {id!r}: org", org))
        store(self, "on_behalf_of", checked_optional(f"principal {id!r}: on_behalf_of", on_behalf_of))
        if allowance is not None and not isinstance(allowance, Allowance):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DefinitionError(f"principal {id!r}: allowance is an Allowance(…); got {allowance!r:.80}")
        store(self, "allowance", allowance)
        store(self, "attributes", Attributes(attributes, what=f"principal {id!r}: attributes"))
        store(self, "on_behalf_of_attributes", self._others(on_behalf_of_attributes))

    @classmethod
    def anonymous(cls, *, permissions: Iterable[str] = ()) -> Self:
        """Return the principal of somebody whom nobody has authenticated."""
        return cls("anonymous", permissions=permissions, kind="anonymous")

    def acting_for(self, other: Principal) -> Principal:
        """Return this principal as it acts for another: it may do, and use, what both may (spec 4, G9, G36).

        Raises ``DefinitionError`` where they are of different organisations.
        """
        if self.org != other.org:
            raise DefinitionError(f"{self.id!r} cannot act for {other.id!r}: they belong to different organisations")
        whom = f"{other.kind}:{other.id}" + (f" for {other.on_behalf_of}" if other.on_behalf_of else "")
        both = self.permissions & other.permissions
        theirs = (other.attributes, *other.on_behalf_of_attributes)
        allowance = lowest_allowance((self.allowance, other.allowance))
        return replace(self, permissions=both, on_behalf_of=whom, on_behalf_of_attributes=theirs, allowance=allowance)

    def with_permissions(self, more: Iterable[str]) -> Principal:
        """Return this principal with more permissions, such as those that everybody has."""
        return replace(self, permissions=self.permissions | frozenset(more))

    def _others(self, given: Iterable[Mapping[str, Any]]) -> tuple[Attributes, ...]:
        """Return the attributes of each principal that it acts for."""
        what = f"principal {self.id!r}: on_behalf_of_attributes"
        found = [Attributes(one, what=what) for one in listed(what, given)]
        named = len(self.on_behalf_of.split(" for ")) if self.on_behalf_of else 0
        if len(found) > named:
            raise DefinitionError(f"{what} are of those that on_behalf_of names: {named}; got {len(found)}")
        return (*found, *[NO_ATTRIBUTES] * (named - len(found)))
