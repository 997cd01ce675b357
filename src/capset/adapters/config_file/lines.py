"""The lines on which the members of a file stand, by their dotted paths: ``actions.0.handler``.

YAML is read off its nodes, JSON by a scan of its own, TOML by its headers and the keys that begin a line: what is
inside an inline table or a list is looked for at the key that holds it.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from capset.errors import DefinitionError

if TYPE_CHECKING:
    from yaml import Node

MAX_VALUES: Final = 100_000
"""How many values a file may come to. YAML can say a value once and mean it very often."""
MAX_LEVELS: Final = 100
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_SCALAR: Final = json.JSONDecoder()
_KEY: Final = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_DOTTED: Final = rf"{_KEY}(?:[ \t]*\.[ \t]*{_KEY})*"
_HEADER: Final = re.compile(rf"[ \t]*(\[\[?)[ \t]*({_DOTTED})[ \t]*\]")
_MEMBER: Final = re.compile(rf"[ \t]*({_DOTTED})[ \t]*=(.*)")


class Lines:
    """Lines by path, from 1; of what has none, that of what it stands in."""

    def __init__(self, found: Mapping[str, int]) -> None:
        self._found = found

    def of(self, path: str) -> int:
        """Return the line of a member, or of the nearest one above it that is known."""
        while path and path not in self._found:
            path = path.rpartition(".")[0]
        return self._found.get(path, 1)


def lines_of(suffix: str, text: str) -> Lines:
    """Return the lines of a file that ends in ``suffix``; of one that cannot be parsed, those that could be found.

    Raises ``DefinitionError`` for YAML that means more than ``MAX_VALUES`` values, or more than ``MAX_LEVELS`` levels.
    """
    return Lines(_READERS[suffix](text))


def _of_yaml(text: str) -> dict[str, int]:
    # Only YAML files pay for the parser.
    import yaml

    found: dict[str, int] = {}
    left = [MAX_VALUES]
    with suppress(yaml.YAMLError, RecursionError):  # told when it is parsed
        root = yaml.compose(text, yaml.SafeLoader)
        if root is not None:
            _walk(root, "", found, left, 0)
    return found


def _walk(node: Node, path: str, found: dict[str, int], left: list[int], level: int) -> None:
    import yaml

    left[0] -= 1
    if left[0] < 0:
        raise DefinitionError(f"a file may say at most {MAX_VALUES:,} values, each as often as it is repeated")
    if level > MAX_LEVELS:
        raise DefinitionError(f"a file may have at most {MAX_LEVELS} levels")
    if isinstance(node, yaml.SequenceNode):
        for at, item in enumerate(node.value):
            inner = _join(path, str(at))
            found.setdefault(inner, item.start_mark.line + 1)
            _walk(item, inner, found, left, level + 1)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                for one in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    _walk(one, path, found, left, level + 1)
            elif isinstance(key, yaml.ScalarNode):
                inner = _join(path, str(key.value))
                found.setdefault(inner, key.start_mark.line + 1)
                _walk(value, inner, found, left, level + 1)


def _of_json(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    starts = [at for at, letter in enumerate(text) if letter == "\n"]

    def after(at: int) -> int:
        space = _SPACE.match(text, at)
        return space.end() if space else at

    def note(path: str, at: int) -> None:
        found[path] = bisect_right(starts, at) + 1

    def value(at: int, path: str) -> int:
        """Return where a value ends that begins at ``at``."""
        if text[at] not in "{[":
            return _SCALAR.raw_decode(text, at)[1]
        is_object, index = text[at] == "{", 0
        at = after(at + 1)
        while text[at] not in "}]":
            start = at
            name = str(index)
            if is_object:
                name, at = _SCALAR.raw_decode(text, at)
                at = after(text.index(":", at) + 1)
            note(_join(path, str(name)), start)
            at = after(value(at, _join(path, str(name))))
            at, index = after(at + 1) if text[at] == "," else at, index + 1
        return at + 1

    with suppress(ValueError, IndexError, RecursionError):  # told when it is parsed
        value(after(0), "")
    return found


def _of_toml(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    counts: dict[str, int] = {}
    table, closing = "", None
    for number, line in enumerate(text.splitlines(), start=1):
        if closing is not None:  # inside a text of several lines
            closing = None if line.count(closing) % 2 else closing
            continue
        if header := _HEADER.match(line):
            *above, last = _names(header[2])
            table = ""
            for name in above:
                table = _within(_join(table, name), counts)
            table = _join(table, last)
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                found.setdefault(table, number)
            table = _within(table, counts)
            found.setdefault(table, number)
        elif member := _MEMBER.match(line):
            path = table
            for name in _names(member[1]):
                path = _join(path, name)
                found.setdefault(path, number)
            closing = next((quotes for quotes in ('"""', "'''") if member[2].count(quotes) % 2), None)
    return found


def _within(path: str, counts: Mapping[str, int]) -> str:
    """Return the path of a table, or of the last one so far of an array of tables."""
    return _join(path, str(counts[path])) if path in counts else path


def _names(dotted: str) -> Iterator[str]:
    for name in re.findall(_KEY, dotted):
        yield name[1:-1] if name[0] in "\"'" else name


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


_READERS: Final[Mapping[str, Callable[[str], dict[str, int]]]] = {
    ".yaml": _of_yaml,
    ".yml": _of_yaml,
    ".json": _of_json,
    ".toml": _of_toml,
}
