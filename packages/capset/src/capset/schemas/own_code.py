"""Detection of the host's own code in pydantic's core schemas, and of parts that JSON data leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from functools import partial
from typing import Any, Final, NamedTuple, cast
from weakref import WeakKeyDictionary

from pydantic import BaseModel

_NO_CODE: Final = frozenset({"metadata", "default", "expected", "members"})
"""The keys whose values are data, or are used only to generate JSON Schema."""
_BY_NAME: Final = frozenset({"fields", "choices"})
"""The keys whose values map arbitrary names, of fields or tags, to schemas."""
_SAFE: Final = ("builtins", "pydantic", "pydantic_core")
"""The packages whose functions are not the host's own."""
# A memo over the few classes that definitions declare; not a registry.
_CACHE: Final[WeakKeyDictionary[type[BaseModel], bool]] = WeakKeyDictionary()


def has_own_code(model: type[BaseModel]) -> bool:
    """Whether validating or serialising a model may call the host's own functions; see ``runs_own_code``."""
    has_code = _CACHE.get(model)
    if has_code is None:
        if not model.__pydantic_complete__:
            model.model_rebuild()
        has_code = _CACHE[model] = runs_own_code(model.__pydantic_core_schema__)
    return has_code


def runs_own_code(core_schema: Any) -> bool:  # typed dicts of pydantic-core, of some sixty kinds
    """Whether validating or serialising a value by a core schema may call the host's own functions.

    Constructors, ``model_post_init`` and computed fields count; a class that only declares fields does not.
    """
    for node in _nodes(core_schema):
        if isinstance(node, Mapping):
            mapping = cast("Mapping[str, object]", node)
            if (
                mapping.get("custom_init")
                or mapping.get("post_init")
                or mapping.get("computed_fields")
                or _has_own_missing(mapping)
            ):
                return True
        elif not isinstance(node, list | tuple | type) and is_own_function(node):
            return True
    return False


def _nodes(core_schema: object) -> Iterator[object]:
    """Yield everything in a core schema that may be or contain code."""
    pending = [core_schema]
    while pending:
        yield (node := pending.pop())
        if isinstance(node, Mapping):
            for key, value in cast("Mapping[str, object]", node).items():
                if key in _BY_NAME and isinstance(value, Mapping):
                    pending += cast("Mapping[str, object]", value).values()
                elif key not in _NO_CODE:
                    pending.append(value)
        elif isinstance(node, list | tuple):
            pending += cast("list[object]", node)


class JsonForm(NamedTuple):
    """How a type's values differ from their JSON data: by sets, which have no order, and by parts left out."""

    has_sets: bool
    leaves_out: bool


EXACT: Final = JsonForm(has_sets=False, leaves_out=False)
_ANY_ORDER: Final = ("set", "frozenset", "any")
_EXCLUDED: Final = ("serialization_exclude", "serialization_exclude_if")


def json_form_of(core_schema: Any) -> JsonForm:  # as for ``runs_own_code``
    """Return how the values of a core schema differ from their JSON data.

    The parts left out are excluded fields, and all that the host's own serialisers drop.
    """
    has_sets = leaves_out = False
    for node in _nodes(core_schema):
        if isinstance(node, Mapping):
            mapping = cast("Mapping[str, object]", node)
            has_sets |= mapping.get("type") in _ANY_ORDER
            serialization = cast("Mapping[str, object]", mapping.get("serialization") or {})
            is_own = "function" in serialization and not _is_safe(serialization["function"])
            leaves_out |= is_own or any(map(mapping.get, _EXCLUDED))
    return JsonForm(has_sets, leaves_out)


def is_own_function(function: object) -> bool:
    """Whether an object is callable and runs the host's own code, unlike ``list`` or a plain model."""
    if isinstance(function, type) and issubclass(function, BaseModel):
        return has_own_code(function)
    return callable(cast("object", function)) and not _is_safe(cast("object", function))


def _has_own_missing(node: Mapping[str, object]) -> bool:
    """Whether a schema is that of an enum with its own ``_missing_``."""
    kind = node.get("cls")
    if node.get("type") != "enum" or not (isinstance(kind, type) and issubclass(kind, Enum)):
        return False
    return getattr(kind._missing_, "__func__", None) is not getattr(Enum._missing_, "__func__", None)


def _is_safe(function: object) -> bool:
    while isinstance(function, partial):
        function = cast("partial[object]", function).func
    module = getattr(function, "__module__", None)
    return isinstance(module, str) and module.partition(".")[0] in _SAFE
