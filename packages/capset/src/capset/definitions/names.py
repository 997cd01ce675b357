"""The grammar of names, checked when a definition is made, and support for frozen, generic dataclasses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from copy import deepcopy
from dataclasses import FrozenInstanceError
from types import MappingProxyType
from typing import Any, Final, Never, cast

from typing_extensions import TypeVar

from capset.errors import DefinitionError

TOOL: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The names that model providers accept for tools."""
MESSAGE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*([.:][A-Za-z0-9_-]+)*")
"""The type of a message."""
TOOLKIT: Final = re.compile(r"[A-Za-z][A-Za-z0-9_:-]{0,63}")
CAPABILITY: Final = re.compile(r"[a-z][a-z0-9_:-]{0,49}")
"""The name of a capability."""
PRESET: Final = re.compile(r"[a-z][a-z0-9_]{0,49}")
RESOURCE: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
"""A resource is also an attribute: ``ctx.session.resources.notes``."""
SECRET: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")
BLOCK: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")
CHANNEL: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")
ROUTE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_ .:-]{0,63}")
"""The name of a route of a router, or of a branch of a parallel step."""
AGENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.-]{0,99}")
POLICY: Final = re.compile(r"[A-Za-z0-9_.:-]{1,100}")
ATTRIBUTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,63}")
"""The name of a principal's attribute."""
PERMISSION: Final = re.compile(r"[a-z][a-z0-9_-]*:[a-z][a-z0-9_-]*")
"""``resource:verb``, matched as an exact string."""


def checked_name(label: str, name: object, grammar: re.Pattern[str]) -> str:
    """Return ``name`` if it fits ``grammar``; raise ``DefinitionError`` otherwise."""
    if not isinstance(name, str) or not grammar.fullmatch(name):
        raise DefinitionError(f"{label} must match {grammar.pattern}; got {name!r}")
    return name


def checked_permissions(owner: str, permissions: Iterable[str]) -> frozenset[str]:
    """Return the permissions as a frozen set; raise ``DefinitionError`` for one that is not ``resource:verb``."""
    if isinstance(permissions, str):
        raise DefinitionError(f"{owner}: permissions must be a set of strings, not the string {permissions!r}")
    return frozenset(checked_name(f"{owner}: a permission", permission, PERMISSION) for permission in permissions)


def checked_text(label: str, text: object) -> str:
    """Return ``text`` if it is a string without lone surrogates (which have no UTF-8 form); raise otherwise."""
    if not isinstance(text, str):
        raise DefinitionError(f"{label} must be text; got {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DefinitionError(f"{label} holds a lone surrogate at position {error.start}") from None
    return text


def checked_optional(label: str, text: object) -> str | None:
    """Check ``text`` as ``checked_text`` does; ``None`` is allowed."""
    return None if text is None else checked_text(label, text)


def checked_flag(label: str, value: object) -> bool:
    """Return ``value`` if it is a bool; raise otherwise, since other truthy values are often mistakes."""
    if not isinstance(value, bool):
        raise DefinitionError(f"{label} must be True or False; got {value!r:.80}")
    return value


def checked_texts(label: str, texts: Iterable[str]) -> tuple[str, ...]:
    """Return the texts trimmed, without empty ones, in order; a bare string counts as one text."""
    entries = [texts] if isinstance(texts, str) else checked_list(label, texts)
    trimmed = (checked_text(label, text).strip() for text in entries)
    return tuple(text for text in trimmed if text)


def checked_text_mapping(label: str, values: object) -> Mapping[str, Any]:  # values of the host's own
    """Return a frozen copy of a mapping with text keys; raise ``DefinitionError`` for anything else."""
    return MappingProxyType(
        {checked_text(f"{label}: a key", key): value for key, value in checked_mapping(label, values).items()}
    )


def checked_list(label: str, values: object) -> list[Any]:  # the caller checks the members next
    """Return the members of an ordered list; raise ``DefinitionError`` for anything else.

    A string would be split into characters, and a set has another order in every process.
    """
    if isinstance(values, str | bytes | Mapping | Set) or not isinstance(values, Iterable):
        raise DefinitionError(f"{label} must be a list; got {values!r:.80}")
    return list(cast("Iterable[Any]", values))


def checked_mapping(label: str, values: object) -> dict[Any, Any]:  # as above
    """Return the members of a mapping; raise ``DefinitionError`` for anything else."""
    if not isinstance(values, Mapping):
        raise DefinitionError(f"{label} must be a mapping; got {values!r:.80}")
    return dict(cast("Mapping[Any, Any]", values))


def one_or_several(value: object) -> tuple[Any, ...]:  # as above
    """Return the members of a list or a tuple, or any other value as the only member."""
    return tuple(cast("Iterable[Any]", value)) if isinstance(value, list | tuple) else (value,)


V = TypeVar("V")


_QUOTED: Final = re.compile(r"`([A-Za-z0-9_-]{1,64})`")


def replace_tool_names(text: str, names: Mapping[str, str]) -> str:
    """Replace the tool names in backquotes in a text, as ``names`` maps them."""
    return _QUOTED.sub(lambda match: f"`{names.get(match[1], match[1])}`", text)


def checked_copy(label: str, value: V) -> V:
    """Return a deep copy, so that the caller cannot change it later; raise ``DefinitionError`` if that fails."""
    try:
        return deepcopy(value)
    except Exception as error:  # the value's own code may raise anything
        raise DefinitionError(
            f"{label} cannot be copied, so it could change later: {type(error).__name__}: {error}",
            hint="give plain data, or a function that makes the value when it is needed",
        ) from error


K = TypeVar("K", bound=type)


def sealed(cls: K) -> K:
    """Make a frozen dataclass refuse the assignment of every attribute, not only of its fields.

    ``Capability[Helpers](…)`` makes ``typing`` set ``__orig_class__`` on the instance. The method that the dataclass
    generates for a class with slots raises ``TypeError`` there, instead of the ``AttributeError`` that ``typing``
    expects.
    """
    setattr(cls, "__setattr__", _refuse)  # noqa: B010  # a type checker would look for a field
    setattr(cls, "__delattr__", _refuse)  # noqa: B010
    return cls


def _refuse(self: object, name: str, *value: object) -> Never:
    raise FrozenInstanceError(f"cannot assign to {name!r}: a {type(self).__name__} is frozen")
