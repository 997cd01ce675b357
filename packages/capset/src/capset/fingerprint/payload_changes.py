"""Differences between two canonical payloads, field by field (spec 2, F31)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, cast

from capset.fingerprint.canonical import NotCanonical
from capset.fingerprint.changes import (
    Change,
    Compare,
    compare,
    compare_lists,
    compare_members,
    compare_named,
    compare_sets,
    join_path,
)
from capset.fingerprint.paths import word
from capset.fingerprint.payloads import Payload

_SETS: Final = frozenset({"required", "enum", "type"})
_NAMED: Final = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs"})
"""Keywords whose values map names to schemas."""
_DATA: Final = frozenset({"default", "const", "enum", "examples"})
"""Keywords whose values are data, not schemas."""
_DEFINITION_PREFIX: Final = "#/$defs/"


def compare_schemas(path: str, before: Any, after: Any) -> Iterator[Change]:
    """Compare two schemas with the ``$defs`` that they reference. Values that are not schemas are compared as data."""
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        yield from compare(path, before, after)
        return
    ours, theirs = cast("Mapping[str, Any]", before), cast("Mapping[str, Any]", after)
    renamed: dict[str, str] = {}
    _find_renames(ours, theirs, _definitions(ours), _definitions(theirs), renamed)
    for old, new in sorted(renamed.items()):
        yield Change(join_path(path, "$defs"), "renamed", old, new)
    steps = {new: f"{word(old)}→{word(new)}" for old, new in renamed.items()}

    def choose(key: str) -> Compare:
        if key == "$defs":
            return partial(
                compare_members, choose=lambda name: _schema, write=lambda name: steps.get(name) or word(name)
            )
        return _keyword(key)

    yield from compare_members(path, _renamed(ours, renamed), theirs, choose)


def _schema(path: str, before: Any, after: Any) -> Iterator[Change]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return compare_members(path, before, after, _keyword)
    return compare_lists(path, before, after, _schema)


def _keyword(key: str) -> Compare:
    """Return the comparison for the values of a keyword."""
    if key in _SETS:
        return compare_sets
    if key in _DATA:
        return compare
    if key in _NAMED:
        return partial(compare_members, choose=lambda name: _schema)
    if key == "dependentRequired":
        return partial(compare_members, choose=lambda name: compare_sets)
    return _schema


def _definitions(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    definitions = schema.get("$defs")
    return cast("Mapping[str, Any]", definitions) if isinstance(definitions, Mapping) else {}


def _find_renames(
    before: Any, after: Any, ours: Mapping[str, Any], theirs: Mapping[str, Any], renamed: dict[str, str]
) -> None:
    """Pair a definition that is only in ``ours`` with one only in ``theirs`` if one place refers to both."""
    if isinstance(before, list) and isinstance(after, list):
        for pair in zip(cast("list[Any]", before), cast("list[Any]", after), strict=False):
            _find_renames(*pair, ours, theirs, renamed)
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return
    old_node, new_node = cast("Mapping[str, Any]", before), cast("Mapping[str, Any]", after)
    old, new = _definition_name(old_node.get("$ref")), _definition_name(new_node.get("$ref"))
    is_removed = old in ours and old not in theirs and old not in renamed
    is_added = new in theirs and new not in ours and new not in renamed.values()
    if old is not None and new is not None and is_removed and is_added and _are_alike(ours[old], theirs[new]):
        renamed[old] = new
        _find_renames(ours[old], theirs[new], ours, theirs, renamed)
    for key in sorted(old_node.keys() & new_node.keys()):
        _find_renames(old_node[key], new_node[key], ours, theirs, renamed)


def _definition_name(reference: Any) -> str | None:
    if isinstance(reference, str) and reference.startswith(_DEFINITION_PREFIX):
        return reference.removeprefix(_DEFINITION_PREFIX)
    return None


def _are_alike(before: Any, after: Any) -> bool:
    """Whether two definitions may be the same one renamed: of one type, with a common property if they have any."""
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return False
    earlier, other = cast("Mapping[str, Any]", before), cast("Mapping[str, Any]", after)
    names, others = _names(earlier), _names(other)
    return earlier.get("type") == other.get("type") and (bool(names & others) or names == others)


def _names(schema: Mapping[str, Any]) -> set[str]:
    properties = schema.get("properties")
    return set(cast("Mapping[str, Any]", properties)) if isinstance(properties, Mapping) else set()


def _renamed(schema: Any, renamed: Mapping[str, str], *, is_named: bool = False) -> Any:
    """Return a schema with its definitions renamed; ``is_named`` for a mapping of names to schemas."""
    if not renamed:
        return schema
    if isinstance(schema, list):
        return [_renamed(element, renamed) for element in cast("list[Any]", schema)]
    if not isinstance(schema, Mapping):
        return schema
    renamed_schema: dict[str, Any] = {}
    for key, value in cast("Mapping[str, Any]", schema).items():
        if is_named:
            renamed_schema[key] = _renamed(value, renamed)
        elif key == "$ref":
            renamed_schema[key] = _reference(value, renamed)
        elif key == "$defs" and isinstance(value, Mapping):
            inner = cast("Mapping[str, Any]", value)
            renamed_schema[key] = {
                renamed.get(name, name): _renamed(definition, renamed) for name, definition in inner.items()
            }
        elif key == "discriminator" and isinstance(value, Mapping):
            renamed_schema[key] = _discriminator(cast("Mapping[str, Any]", value), renamed)
        elif key in _DATA:
            renamed_schema[key] = value
        else:
            renamed_schema[key] = _renamed(value, renamed, is_named=key in _NAMED)
    return renamed_schema


def _reference(value: Any, renamed: Mapping[str, str]) -> Any:
    name = _definition_name(value)
    return value if name is None else _DEFINITION_PREFIX + renamed.get(name, name)


def _discriminator(value: Mapping[str, Any], renamed: Mapping[str, str]) -> Mapping[str, Any]:
    mapping = value.get("mapping")
    if not isinstance(mapping, Mapping):
        return value
    targets = cast("Mapping[str, Any]", mapping)
    return {**value, "mapping": {tag: _reference(reference, renamed) for tag, reference in targets.items()}}


def diff_payloads(before: Payload, after: Payload) -> tuple[Change, ...]:
    """Compare two canonical payloads of one kind, field by field. Equal hashes mean no changes.

    Raises ``NotCanonical`` for anything but JSON data, and for too deep nesting.
    """
    members = (
        {**_MEMBERS, "instructions": compare_sets} if before.get("kind") == after.get("kind") == "tool" else _MEMBERS
    )
    try:
        return tuple(compare_members("", before, after, lambda key: members.get(key, compare)))
    except RecursionError:
        raise NotCanonical("$", "nested too deeply, or a cycle") from None


def _member(key: str) -> Callable[[Any], str | None]:
    return lambda item: cast("Mapping[str, Any]", item).get(key) if isinstance(item, Mapping) else None


def _scoped(item: Any) -> str | None:
    """Return a resource's name prefixed with its scope, in the form of ``Composition.explain``."""
    scope, name = _member("scope")(item), _member("name")(item)
    return f"{scope}.{name}" if isinstance(scope, str) and isinstance(name, str) else None


def _choosing(**members: Compare) -> Compare:
    return partial(compare_members, choose=lambda key: members.get(key, compare))


_REFS: Final = partial(compare_named, name=_member("name"))
# Everything else is compared as any JSON data: in data from hosts and third parties, order is always significant.
_MEMBERS: Final[Mapping[str, Compare]] = {
    "permissions": compare_sets,
    "policies": compare_sets,
    "policyBindings": partial(compare_named, name=_member("id")),
    "members": _REFS,
    "tools": _REFS,
    "capabilities": _REFS,
    "uses": _REFS,
    "children": _REFS,
    "files": partial(compare_named, name=_member("path")),
    "resources": partial(compare_named, name=_scoped, item=_choosing(schema=compare_schemas)),
    "presetPolicies": partial(
        compare_named, name=_member("preset"), item=_choosing(policies=compare_sets, tools=compare_sets)
    ),
    "state": partial(compare_members, choose=lambda scope: partial(compare_lists, item=compare_schemas)),
    "schema": compare_schemas,
    "input": compare_schemas,
    "output": compare_schemas,
}
