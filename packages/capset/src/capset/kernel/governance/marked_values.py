"""The values in arguments that their schema marks: secrets, and paths of session files (spec 4, G51, G52)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from capset.definitions.secrets import MASK
from capset.schemas.json_schema import may_match
from capset.schemas.json_schema_graph import Data, SchemaNode
from capset.schemas.schema import SESSION_FILE
from capset.schemas.unchecked_patterns import regex_options

if TYPE_CHECKING:
    from jsonschema_rs import Validator

Path: TypeAlias = tuple[str | int, ...]
"""The path to a value in JSON data: the names of members and the numbers of items."""
_NO_PATH: Final[Path] = ()


def without_secrets(root: SchemaNode, arguments: Any) -> Any:  # JSON data, as the schema has it
    """Return arguments with every value masked that the schema says is secret (``writeOnly``), at any depth."""
    paths = _marked_paths(root, arguments, _is_secret)
    if not paths:
        return arguments
    if _NO_PATH in paths and isinstance(arguments, dict):
        return dict.fromkeys(cast("dict[str, Any]", arguments), MASK)
    return _masked(arguments, _NO_PATH, paths)


def marked_files(root: SchemaNode, arguments: Any) -> list[tuple[Path, str, bool]]:  # JSON data
    """Return the session files that arguments name: the place, the path, and whether it is within a secret."""
    secrets = _marked_paths(root, arguments, _is_secret)
    files: list[tuple[Path, str, bool]] = []
    for place in sorted(_marked_paths(root, arguments, _is_file), key=repr):
        value = _value_at(arguments, place)
        if isinstance(value, str):
            files.append((place, value, any(place[:length] in secrets for length in range(len(place) + 1))))
    return files


def _is_secret(schema: Data) -> bool:
    return schema.get("writeOnly") is True


def _is_file(schema: Data) -> bool:
    return SESSION_FILE in schema.items()


def _marked_paths(root: SchemaNode, value: Any, is_marked: Callable[[Data], bool]) -> set[Path]:
    """Return the paths to the values that a marked schema applies to.

    An option does not apply to a value if its type or its constants exclude it, or the value has members that it lacks.
    """
    paths: set[Path] = set()
    visited: set[tuple[SchemaNode, Path]] = set()
    waiting: list[tuple[SchemaNode, Any, Path]] = [(root, value, _NO_PATH)]
    while waiting:
        node, current, path = waiting.pop()
        if (node, path) in visited or not may_match(node, current):
            continue
        visited.add((node, path))
        if is_marked(node.schema):
            paths.add(path)
        waiting += [(inner, current, path) for inner in (*node.always, *_options(node, current), *node.tests)]
        waiting += [(inner, member, (*path, step)) for step, member, inner in _children(node, current)]
    return paths


def _options(node: SchemaNode, value: Any) -> Iterator[SchemaNode]:
    """Yield the options that may apply to a value: those with all of its members, or every option if there are none."""
    for options in node.choices:
        yield from [option for option in options if _has_all_members(option, value)] or options


def _has_all_members(option: SchemaNode, value: Any) -> bool:
    if not isinstance(value, dict):
        return True
    if option.schema.get("additionalProperties") is False:
        fields = {_bare(field) for field in option.fields}
        for name in cast("dict[str, Any]", value):
            if _bare(name) not in fields and not any(
                _matcher(pattern).is_valid(name) for pattern, _ in _patterns(option)
            ):
                return False
    return all(_has_all_members(inner, value) for inner in option.always)


def _children(node: SchemaNode, value: Any) -> Iterator[tuple[str | int, Any, SchemaNode]]:
    """Yield each member or item of a value with each schema that ``node`` applies to it."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        for name, member in members.items():
            child = node.fields.get(name)
            applied = [inner for pattern, inner in _patterns(node) if _matcher(pattern).is_valid(name)]
            if child is not None:
                applied.append(child)
            elif not applied and node.schema.get("additionalProperties") is False:
                # The data is valid, so this is a field under its name, and the schema has the alias instead.
                others = {field: inner for field, inner in node.fields.items() if field not in members}
                alike = [inner for field, inner in others.items() if _bare(field) == _bare(name)]
                applied += alike or others.values()
            elif not applied and node.additional is not None:
                applied.append(node.additional)
            yield from ((name, member, inner) for inner in (*applied, *node.members))
    elif isinstance(value, list):
        for number, item in enumerate(cast("list[Any]", value)):
            child = node.prefix[number] if number < len(node.prefix) else node.items
            yield from ((number, item, inner) for inner in (child, *node.members) if inner is not None)


def _bare(name: str) -> str:
    """Return a name without its naming style: ``articleName`` and ``article-name`` become ``articlename``."""
    return name.replace("_", "").replace("-", "").lower()


def _patterns(node: SchemaNode) -> Iterator[tuple[str, SchemaNode]]:
    if node.patterns:
        yield from zip(node.schema["patternProperties"], node.patterns, strict=True)


@lru_cache(256)
def _matcher(pattern: str) -> Validator:
    """Return the validator of names for a pattern, which matches as it does in the whole schema.

    A pattern that is not checked there matches any name here, so that nothing secret is shown.
    """
    import jsonschema_rs as rs

    try:
        return rs.validator_for({"pattern": pattern}, pattern_options=regex_options(), offline=True)
    except rs.ValidationError:
        return rs.validator_for({})


def _value_at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def _masked(value: Any, path: Path, paths: Collection[Path]) -> Any:
    if path in paths:
        return MASK
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {name: _masked(member, (*path, name), paths) for name, member in members.items()}
    if isinstance(value, list):
        return [_masked(item, (*path, number), paths) for number, item in enumerate(cast("list[Any]", value))]
    return value
