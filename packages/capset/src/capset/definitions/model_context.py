"""Context for the model: entries from capabilities and blocks, resolved before every model step (C22)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from capset.definitions.identity import Definition
from capset.definitions.names import checked_list, checked_text
from capset.errors import DefinitionError

if TYPE_CHECKING:
    from capset.definitions.calls.contexts import Context


MAX_CONTEXT_LEVELS: Final = 20
"""The maximum nesting depth of mappings and lists in context."""
_MESSAGE_KEYS: Final = frozenset({"role", "content"})
_ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool"})


@dataclass(frozen=True, slots=True)
class ContextMessage:
    """A message that is passed to the model unchanged, in addition to the system text."""

    role: Literal["user", "assistant"]
    content: str

    def __post_init__(self) -> None:
        """Raise ``DefinitionError`` for another role, or content that is not text."""
        if self.role not in ("user", "assistant"):
            raise DefinitionError(f"a context message has the role user or assistant; got {self.role!r}")
        checked_text("a context message's content", self.content)


ContextValue = str | Mapping[str, Any] | ContextMessage | None | Sequence["ContextValue"]
"""Text, a mapping whose keys become tags (its values are texts, mappings, lists of those or ``None``), or several."""

ContextFunction = (
    Callable[["Context"], ContextValue | Awaitable[ContextValue]]
    | Callable[[Any, "Context"], ContextValue | Awaitable[ContextValue]]
    | Callable[[], ContextValue | Awaitable[ContextValue]]
)
"""A function of the context, of the block's input (of any type) and the context, or without arguments."""

ContextDeclaration = ContextValue | ContextFunction | Sequence["ContextDeclaration"]
"""One entry as declared: a value, a function that returns one, or a list of those.

A mapping may contain functions, too, as a value or in a list, at any depth.
"""


@dataclass(frozen=True, eq=False, slots=True)
class ContextEntry(Definition):
    """One declared entry: a ``value``, or a ``function`` of ``takes`` arguments, under its declared name.

    ``keys`` are those of the mappings around the function, outermost first; its result is placed under them.
    """

    name: str
    value: ContextValue
    function: Callable[..., Any] | None
    takes: int
    keys: tuple[Any, ...] = ()  # of any type: composition refuses those that cannot be tags

    def nest_under_keys(self, value: ContextValue) -> ContextValue:
        """Nest a result of the function under the keys of the entry."""
        return _nest(self.keys, value)


def checked_context(owner: str, entries: object) -> tuple[ContextEntry, ...]:
    """Return the entries, ready to be resolved. Raises ``DefinitionError`` for an invalid entry.

    Static values are copied, so that they cannot change later; empty entries are left out.
    """
    is_single = isinstance(entries, str | Mapping | ContextMessage) or callable(entries)
    declarations: list[object] = [entries] if is_single else checked_list(f"{owner}: context", cast("object", entries))
    return tuple(chain.from_iterable(_entries(owner, declaration, (), 0) for declaration in declarations))


def provider_message_error(value: Mapping[Any, Any]) -> tuple[str, str] | None:
    """Return an error and a hint for a mapping that looks like a message of a provider; ``None`` for others.

    Such a mapping would be rendered as tags in the system text, instead of being sent.
    """
    if not _MESSAGE_KEYS.issubset(value) or (len(value) > len(_MESSAGE_KEYS) and str(value["role"]) not in _ROLES):
        return None
    return (
        "a mapping of role and content, which looks like a message and would be shown as tags",
        "for a message of the user or the assistant, use ContextMessage('user', …)",
    )


def _entries(owner: str, declared: object, keys: tuple[Any, ...], level: int) -> Iterator[ContextEntry]:
    """Yield the entries of a declaration: each function in a list or a mapping is an entry of its own."""
    _check_level(owner, level)
    if callable(declared):
        name = str(getattr(declared, "__name__", type(declared).__name__))
        yield ContextEntry(name, None, declared, _arity(f"{owner}: context {name!r}", declared), keys)
    elif not _has_function(declared, level):
        if keys or (declared is not None and declared != ""):
            yield ContextEntry("static", _freeze(owner, _nest(keys, declared), 0), None, 0)
    elif isinstance(declared, Mapping):
        mapping = cast("Mapping[Any, object]", declared)
        if not keys:
            _check_no_message(owner, mapping)
        for key, member in mapping.items():
            yield from _entries(owner, member, (*keys, key), level + 1)
    else:
        for member in cast("Sequence[object]", declared):
            yield from _entries(owner, member, keys, level + 1)


def _nest(keys: Sequence[Any], value: Any) -> Any:
    """Nest a value in mappings of one key each, the first outermost."""
    for key in reversed(keys):
        value = {key: value}
    return value


def _check_level(owner: str, level: int) -> None:
    if level > MAX_CONTEXT_LEVELS:
        raise DefinitionError(f"{owner}: context must not be nested more than {MAX_CONTEXT_LEVELS} levels deep")


def _has_function(declared: object, level: int) -> bool:
    """Whether a list or a mapping contains a function, at any depth."""
    if level > MAX_CONTEXT_LEVELS or not isinstance(declared, list | tuple | Mapping):
        return callable(declared)
    if isinstance(declared, Mapping):
        declared = list(cast("Mapping[Any, object]", declared).values())
    return any(_has_function(member, level + 1) for member in cast("Sequence[object]", declared))


def _check_no_message(owner: str, value: Mapping[Any, Any]) -> None:
    if (mistake := provider_message_error(value)) is not None:
        raise DefinitionError(f"{owner}: context has {mistake[0]}", hint=mistake[1])


def _freeze(owner: str, value: object, level: int, *, in_tag: bool = False) -> ContextValue:
    _check_level(owner, level)
    match value:
        case None | ContextMessage():
            return value
        case str():
            return checked_text(f"{owner}: context", value)
        case Mapping():
            members = cast("Mapping[Any, object]", value)
            if not in_tag:
                _check_no_message(owner, members)
            return MappingProxyType(
                {key: _freeze(owner, member, level + 1, in_tag=True) for key, member in members.items()}
            )
        case list() | tuple():
            return tuple(_freeze(owner, member, level + 1, in_tag=in_tag) for member in cast("Sequence[object]", value))
        case _:
            raise DefinitionError(
                f"{owner}: context is text, a mapping, a ContextMessage, a list of those or a function; "
                f"got {value!r:.80}",
                hint="write it as text, as the model should read it",
            )


def _arity(label: str, function: Callable[..., Any]) -> int:
    if inspect.isclass(function):
        raise DefinitionError(f"{label} is a class; give a function (context), or (input, context)")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise DefinitionError(f"{label}: {error}") from None
    required = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if len(required) > 2 or any(parameter.kind is parameter.KEYWORD_ONLY for parameter in required):
        raise DefinitionError(f"{label} must take (context), (input, context) or nothing; it takes {signature}")
    return len(required)
