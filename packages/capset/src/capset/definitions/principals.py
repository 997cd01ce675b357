"""Principals, and their attributes: facts such as a tier, for policies to read (spec 2, F34)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Final, Literal, Self, cast, get_args

from capset.definitions.environments import MissingValue
from capset.definitions.governance.allowances import Allowance, lowest_allowance
from capset.definitions.names import ATTRIBUTE, checked_list, checked_optional, checked_permissions, checked_text
from capset.definitions.secrets import MASK, is_secret_name
from capset.errors import DefinitionError

MAX_ATTRIBUTES: Final = 32
MAX_VALUE_CHARACTERS: Final = 1_000
"""The maximum length of one value, in characters."""
MAX_ATTRIBUTE_BYTES: Final = 4_096
"""The maximum size of all attributes as JSON, in bytes."""


class Attributes(Mapping[str, Any]):  # a policy knows the types of its own attributes
    """A frozen, flat JSON object: strings, numbers, booleans and nulls by name, copied on construction.

    Equal by value and by type: ``True``, ``1`` and ``1.0`` are three different values. ``what`` names it in errors,
    which never contain a value. Raises ``DefinitionError`` for more than ``MAX_ATTRIBUTES`` names or
    ``MAX_ATTRIBUTE_BYTES`` bytes, and for a malformed name or value.
    """

    __slots__ = ("_json", "_values")

    def __init__(self, values: Mapping[str, Any] | None = None, *, what: str = "attributes") -> None:
        if isinstance(values, Attributes):
            self._values, self._json = values._values, values._json
            return
        self._values = _checked({} if values is None else values, what)
        self._json = json.dumps(self._values, ensure_ascii=False, separators=(",", ":"))
        if (size := len(self._json.encode())) > MAX_ATTRIBUTE_BYTES:
            raise DefinitionError(f"{what} have {size:,} bytes as JSON, and may have {MAX_ATTRIBUTE_BYTES:,}")

    def __getitem__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise MissingValue(name, "--attribute") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        try:
            return self._json == Attributes(cast("Mapping[str, Any]", other))._json
        except DefinitionError:
            return False

    def __hash__(self) -> int:
        return hash(self._json)

    def __repr__(self) -> str:
        return f"Attributes({self.masked()!r})"

    def masked(self) -> dict[str, Any]:
        """Return a copy that may be shown: values of secret-looking names are masked."""
        return {
            name: MASK if value is not None and is_secret_name(name) else value for name, value in self._values.items()
        }

    def to_json(self) -> str:
        """Return the attributes as JSON text, sorted by name; equal ones have the same text."""
        return self._json


def _checked(values: object, label: str) -> dict[str, Any]:
    """Return a copy, sorted by name. A value may be a secret, so errors give only its type or its length."""
    if not isinstance(values, Mapping):
        raise DefinitionError(f"{label} must be a mapping of names to values; got {type(values).__name__:.80}")
    attributes = dict(cast("Mapping[Any, Any]", values))
    if len(attributes) > MAX_ATTRIBUTES:
        raise DefinitionError(f"{label} are at most {MAX_ATTRIBUTES}; got {len(attributes):,}")
    for name, value in attributes.items():
        if type(name) is not str or not ATTRIBUTE.fullmatch(name):
            raise DefinitionError(f"{label}: a name must match {ATTRIBUTE.pattern}; got {name!r:.80}")
        _check(f"{label}: {name}", value)
    return dict(sorted(attributes.items()))


def _check(label: str, value: object) -> None:
    if type(value) not in (str, int, float, bool, type(None)):
        raise DefinitionError(f"{label} must be text, a number, true, false or null; got {_describe_type(value)}")
    if isinstance(value, str) and len(checked_text(label, value)) > MAX_VALUE_CHARACTERS:
        raise DefinitionError(f"{label} has {len(value):,} characters, and may have {MAX_VALUE_CHARACTERS:,}")
    if isinstance(value, float) and not isfinite(value):
        raise DefinitionError(f"{label} must be a finite number")
    if isinstance(value, int) and abs(value) > 2**53:  # JSON parsers read integers up to here exactly
        raise DefinitionError(f"{label} is beyond ±2^53, where JSON parsers round: write it as text, in quotes")


def _describe_type(value: object) -> str:
    """Return the name of a value's type, with advice if it is a container."""
    name = type(value).__name__[:80]
    return f"{name} (attributes are flat)" if name in ("dict", "list", "tuple") else name


NO_ATTRIBUTES: Final = Attributes()


PrincipalKind = Literal["user", "agent", "org", "anonymous"]


@dataclass(frozen=True, slots=True, init=False)
class Principal:
    """An agent, a user or an organisation, with its permissions; or an anonymous caller.

    Compared by value. Permissions are exact ``resource:verb`` strings; roles are expanded beforehand. ``on_behalf_of``
    is the principal that it acts for, as in records: ``user:ada``; ``acting_for`` sets it. ``allowance`` limits what
    its sessions and runs may use, and all its calls together. ``attributes`` is a flat JSON object for policies, such
    as ``{"tier": "pro"}``, from its key, its token or the host. ``on_behalf_of_attributes`` has those of each principal
    that ``on_behalf_of`` names, nearest first, empty if they are unknown. ``makers`` are the principals who made its
    key or added it, and their makers in turn, as in records: for approvals, a principal and any of its makers count as
    the same.

    Raises ``DefinitionError`` for an empty id, an unknown kind, or a malformed permission or attribute.
    """

    id: str
    permissions: frozenset[str]
    kind: PrincipalKind
    org: str | None
    on_behalf_of: str | None
    allowance: Allowance | None
    attributes: Attributes
    on_behalf_of_attributes: tuple[Attributes, ...]
    makers: tuple[str, ...]

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
        makers: Iterable[str] = (),
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
        store(self, "on_behalf_of_attributes", self._checked_others(on_behalf_of_attributes))
        label = f"principal {id!r}: makers"
        store(self, "makers", tuple(checked_text(label, maker) for maker in checked_list(label, makers)))

    @classmethod
    def anonymous(cls, *, permissions: Iterable[str] = ()) -> Self:
        """Return an unauthenticated principal."""
        return cls("anonymous", permissions=permissions, kind="anonymous")

    @property
    def qualified_id(self) -> str:
        """The id with its kind: ``kind:id``."""
        return f"{self.kind}:{self.id}"

    def acting_for(self, other: Principal) -> Principal:
        """Return this principal acting for another: it may do, and use, only what both may.

        Raises ``DefinitionError`` if they belong to different organisations, or an id contains " for ".
        """
        if self.org != other.org:
            raise DefinitionError(f"{self.id!r} cannot act for {other.id!r}: they belong to different organisations")
        for name in (self.id, other.id):
            if " for " in name:  # the chain is one text
                raise DefinitionError(f'{self.id!r} cannot act for {other.id!r}: an id must not contain " for " then')
        on_behalf_of = other.qualified_id + (f" for {other.on_behalf_of}" if other.on_behalf_of else "")
        allowance = lowest_allowance((self.allowance, other.allowance))
        makers = tuple(dict.fromkeys((*self.makers, *other.makers)))
        return replace(
            self,
            permissions=self.permissions & other.permissions,
            on_behalf_of=on_behalf_of,
            on_behalf_of_attributes=(other.attributes, *other.on_behalf_of_attributes),
            allowance=allowance,
            makers=makers,
        )

    def with_permissions(self, more: Iterable[str]) -> Principal:
        """Return this principal with more permissions, such as the default ones."""
        return replace(self, permissions=self.permissions | frozenset(more))

    def _checked_others(self, attribute_sets: Iterable[Mapping[str, Any]]) -> tuple[Attributes, ...]:
        """Return the attributes of each principal that it acts for."""
        label = f"principal {self.id!r}: on_behalf_of_attributes"
        attributes = [Attributes(mapping, what=label) for mapping in checked_list(label, attribute_sets)]
        count = len(self.on_behalf_of.split(" for ")) if self.on_behalf_of else 0
        if len(attributes) > count:
            raise DefinitionError(f"{label} are of those that on_behalf_of names: {count}; got {len(attributes)}")
        return (*attributes, *[NO_ATTRIBUTES] * (count - len(attributes)))
