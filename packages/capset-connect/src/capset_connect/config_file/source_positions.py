"""The line of each member of a file, by its dotted path: ``actions.0.handler``.

The YAML parser provides the lines of YAML and JSON. TOML parsers provide none, so the lines are taken from table
headers and from keys at the start of a line: members of inline tables and arrays have the line of the enclosing key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final, cast

from capset.errors import DefinitionError

if TYPE_CHECKING:
    from yaml import Node

MAX_VALUES: Final = 100_000
"""The maximum number of values in a file. YAML aliases can repeat a value many times."""
MAX_LEVELS: Final = 100
MAX_NAME: Final = 1_000
"""The maximum length of a member's name in characters. The path of every problem below it repeats the name."""
MAX_LETTERS: Final = 4_194_304
"""The maximum total length, in characters, of the paths whose lines are stored."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_KEY: Final = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_DOTTED: Final = rf"{_KEY}(?:[ \t]*\.[ \t]*{_KEY})*"
_HEADER: Final = re.compile(rf"[ \t]*(\[\[?)[ \t]*({_DOTTED})[ \t]*\]")
_MEMBER: Final = re.compile(rf"[ \t]*({_DOTTED})[ \t]*=(.*)")
_PART: Final = r"""(?:[A-Za-z0-9_-]++|"(?>(?:[^"\\\n]++|\\.)*)"?|'[^'\n]*+'?)"""
_TOKEN: Final = re.compile(
    r'''"""(?>(?:[^"\\]++|\\.|"(?!""))*)"{0,5}'''
    r"""|'''(?>(?:[^']++|'(?!''))*)'{0,5}"""
    r"|\#[^\n]*+"
    rf"|(?P<key>{_PART}(?>(?:[ \t]*+\.[ \t]*+{_PART})*))"
    r"|[\[\]{},\n]",
    re.DOTALL,
)
"""Multi-line strings, comments, keys (and values that look like keys), brackets, separators and line breaks. None
backtracks. Groups are atomic, because Python before 3.11.5 matches possessive ones incorrectly (gh-106052)."""


class Lines:
    """Line numbers by path, from 1. A path without a line has the line of its parent."""

    def __init__(self) -> None:
        self._found: dict[str, int] = {}
        self._left = MAX_LETTERS

    def note(self, above: str | None, name: str, line: int) -> str | None:
        """Store the first line of a member; return its path, or ``None`` if it or ``above`` exceeds the limits."""
        path = self.join(above, name)
        if path is None or path in self._found:
            return path
        if len(path) > self._left:
            return None
        self._left -= len(path)
        self._found[path] = line
        return path

    def join(self, above: str | None, name: str) -> str | None:
        """Return the path of a member, or ``None`` if its line could not be stored."""
        if above is None or len(above) + len(name) >= self._left:
            return None
        return f"{above}.{name}" if above else name

    def of(self, path: str) -> int:
        """Return the line of a member or of its nearest known parent."""
        while path and path not in self._found:
            path = path.rpartition(".")[0]
        return self._found.get(path, 1)


def lines_of(suffix: str, text: str) -> Lines:
    """Return the lines of a file with this ``suffix``. If the text cannot be parsed, the lines are incomplete.

    Raises ``DefinitionError`` for YAML or JSON with more than ``MAX_VALUES`` values, and for more than ``MAX_LEVELS``
    levels.
    """
    lines = Lines()
    _READERS[suffix](text, lines)
    return lines


def check_members(data: object) -> None:
    """Check the depth of a file's data, and its members' names. Raises ``DefinitionError``.

    For YAML, call ``lines_of`` first: it limits the number of values, which aliases could multiply exponentially.
    """
    level: list[object] = [data]
    for _ in range(MAX_LEVELS + 1):
        inner: list[object] = []
        for node in level:
            if isinstance(node, dict):
                members = cast("dict[object, object]", node)
                names = [name for name in members if isinstance(name, str)]
                if any(len(name) > MAX_NAME for name in names):
                    raise DefinitionError(f"the name of a member may have at most {MAX_NAME:,} characters")
                if (odd := next((name for name in names if _SURROGATE.search(name)), None)) is not None:
                    raise DefinitionError(f"the name of a member must not contain lone surrogates; got {odd!r:.80}")
                inner.extend(members.values())
            elif isinstance(node, list):
                inner.extend(cast("list[object]", node))
        level = inner
    if level:
        raise _too_deep()


def _too_deep() -> DefinitionError:
    return DefinitionError(f"a file may have at most {MAX_LEVELS} levels")


def _of_yaml(text: str, lines: Lines) -> None:
    # Imported here so that TOML files do not pay for it.
    import yaml

    with suppress(yaml.YAMLError, RecursionError):  # the parser reports it later
        root = yaml.compose(text, yaml.SafeLoader)
        if root is not None:
            _walk(root, "", lines, [MAX_VALUES], 0)


def _walk(node: Node, path: str | None, lines: Lines, remaining: list[int], level: int) -> None:
    import yaml

    remaining[0] -= 1
    if remaining[0] < 0:
        raise DefinitionError(f"a file may have at most {MAX_VALUES:,} values, counting each repetition")
    if level > MAX_LEVELS:
        raise _too_deep()
    if isinstance(node, yaml.SequenceNode):
        for at, item in enumerate(node.value):
            _walk(item, lines.note(path, str(at), item.start_mark.line + 1), lines, remaining, level + 1)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                for merged in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    _walk(merged, path, lines, remaining, level + 1)
            elif isinstance(key, yaml.ScalarNode):
                inner = lines.note(path, str(key.value), key.start_mark.line + 1)
                _walk(value, inner, lines, remaining, level + 1)


def _of_json(text: str, lines: Lines) -> None:
    _of_yaml(text.replace("\t", " "), lines)  # apart from tabs, JSON is valid YAML


def _of_toml(text: str, lines: Lines) -> None:
    _check_toml_levels(text)
    counts: dict[str, int] = {}
    table: str | None = ""
    closing = None
    for number, line in enumerate(text.split("\n"), start=1):
        if closing is not None:  # inside a multi-line string
            closing = None if line.count(closing) % 2 else closing
            continue
        if header := _HEADER.match(line):
            *above, last = _names(header[2])
            table = "" if len(above) < MAX_LEVELS else None  # deeper tables occur only after invalid TOML
            for name in above:
                table = _within(lines.join(table, name), counts, lines)
            table = lines.join(table, last)
            if header[1] == "[[" and table is not None:
                counts[table] = counts.get(table, -1) + 1
                lines.note("", table, number)
            table = _within(table, counts, lines)
            table = None if table is None else lines.note("", table, number)
        elif member := _MEMBER.match(line):
            path = table
            for name in _names(member[1]):
                path = lines.note(path, name, number)
            closing = next((quotes for quotes in ('"""', "'''") if member[2].count(quotes) % 2), None)


def _check_toml_levels(text: str) -> None:
    """Refuse deeply nested keys and tables, because the parser takes quadratic time in the number of levels."""
    above: list[int] = []
    levels = key = 0
    for token in _TOKEN.finditer(text):
        first = token[0][0]
        if token["key"] is not None:
            key = sum(1 for _ in re.finditer(_PART, token[0]))
        elif first in "[{":
            above.append(max(key, 1))
            levels, key = levels + above[-1], 0
        elif first in "]}" and above:
            levels -= above.pop()
        elif first in ",\n":
            key = 0
        if levels + key > MAX_LEVELS + 2:  # the header's own brackets count, too
            raise _too_deep()


def _within(path: str | None, counts: Mapping[str, int], lines: Lines) -> str | None:
    """Return the path of a table, or of the latest element of an array of tables."""
    return lines.join(path, str(counts[path])) if path is not None and path in counts else path


def _names(dotted: str) -> Iterator[str]:
    for name in re.findall(_KEY, dotted):
        yield name[1:-1] if name[0] in "\"'" else name


_READERS: Final[Mapping[str, Callable[[str, Lines], None]]] = {
    ".yaml": _of_yaml,
    ".yml": _of_yaml,
    ".json": _of_json,
    ".toml": _of_toml,
}
