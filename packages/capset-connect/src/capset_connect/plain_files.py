"""Files of plain data: YAML, JSON or TOML."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, cast

from capset.errors import DefinitionError

MAX_BYTES: Final = 1_048_576
MAX_BITS: Final = 13_287
"""4,000 decimal digits. Python does not print longer integers, which YAML and TOML may have in hexadecimal."""
_TOO_LONG: Final = "an integer has at most 4,000 digits"
_TOML_LINE: Final = re.compile(r"\(at line (\d+),")


class Unparsable(DefinitionError):
    """Raised for a file that cannot be parsed. ``line`` is set if known; ``told`` is the reason without the path."""

    def __init__(self, where: str, reason: str, line: int | None = None, column: int | None = None) -> None:
        place = f", line {line}, column {column}" if line is not None and column is not None else ""
        super().__init__(f"{where}{place}: {reason}")
        self.line = line
        self.told = reason


def read_text(path: Path, kind: str) -> str:
    """Return the text of a file to be parsed; ``kind`` describes it in errors: ``a configuration file``.

    Raises ``DefinitionError`` for a file with an unsupported suffix, and for one that cannot be read, is too large or
    is not UTF-8.
    """
    if path.suffix.lower() not in _PARSERS:
        raise DefinitionError(f"{path}: {kind} ends in {', '.join(_PARSERS)}")
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise DefinitionError(f"{path}: {kind} has at most {MAX_BYTES} bytes")
        return content.decode("utf-8-sig")
    except OSError as error:
        raise DefinitionError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise DefinitionError(f"{path}: is not UTF-8 text, at byte {error.start}") from None


def parse(path: Path, text: str) -> Any:  # any value from a file
    """Return the data of a text, in the format of the file's suffix. Raises ``Unparsable``."""
    try:
        return _PARSERS[path.suffix.lower()](text, str(path))
    except RecursionError:
        raise Unparsable(str(path), "is nested too deeply") from None


def yaml_text(data: Any) -> str:  # plain data
    """Return plain data as YAML that reads back as the same data, with multi-line texts as blocks if possible."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """A dumper that writes multi-line texts as blocks."""

    def represent(_: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        return yaml.ScalarNode("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)

    Dumper.add_representer(str, represent)
    text = yaml.dump(data, Dumper=Dumper, sort_keys=False, allow_unicode=True)
    # With allow_unicode, characters such as NEL are written as line breaks.
    return text if _is_same(data, text) else yaml.safe_dump(data, sort_keys=False)


def _is_same(data: Any, text: str) -> bool:  # plain data
    try:
        return _parse_yaml(text, "") == data
    except Unparsable:
        return False


def _parse_yaml(text: str, where: str) -> Any:
    # Only YAML files pay for the import of the parser.
    import yaml

    class Loader(yaml.SafeLoader):
        """A loader that refuses duplicate keys; by default, the last would win."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # keys of any type
            keys: set[str] = set()
            for key in [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]:
                if key.value in keys:
                    raise yaml.MarkedYAMLError(problem=f"{key.value!r} is repeated", problem_mark=key.start_mark)
                keys.add(key.value)
            return super().construct_mapping(node, deep)

        def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
            if _is_too_long(value := super().construct_yaml_int(node)):
                raise yaml.MarkedYAMLError(problem=_TOO_LONG, problem_mark=node.start_mark)
            return value

    Loader.add_constructor("tag:yaml.org,2002:int", Loader.construct_yaml_int)
    try:
        return yaml.load(text, Loader)  # noqa: S506 - it is a SafeLoader
    except yaml.YAMLError as error:
        mark = cast("Any", getattr(error, "problem_mark", None))
        problem = getattr(error, "problem", None) or "cannot be parsed"
        at = (mark.line + 1, mark.column + 1) if mark else (None, None)
        raise Unparsable(where, f"not YAML: {problem}", *at) from None
    except (ValueError, LookupError, AttributeError):
        # The parser lets through errors that Python raises for values such as the date 2024-13-45.
        raise Unparsable(where, "not YAML: a number, a date or a tagged value cannot be read") from None


def _parse_json(text: str, where: str) -> Any:
    def distinct(members: list[tuple[str, Any]]) -> dict[str, Any]:
        if twice := [name for name, count in Counter(name for name, _ in members).items() if count > 1]:
            raise Unparsable(where, f"not JSON: {twice[0]!r} is repeated")
        return dict(members)

    try:
        return json.loads(text, object_pairs_hook=distinct)
    except json.JSONDecodeError as error:
        raise Unparsable(where, f"not JSON: {error.msg}", error.lineno, error.colno) from None
    except ValueError as error:
        raise Unparsable(where, f"not JSON: {error}") from None


def _parse_toml(text: str, where: str) -> Any:
    try:
        data = tomllib.loads(text)
        if any(map(_is_too_long, _values_in(data))):
            raise ValueError(_TOO_LONG)
        return data
    except ValueError as error:  # a TOMLDecodeError, or the error for an integer that is too long
        match = _TOML_LINE.search(str(error))
        raise Unparsable(where, f"not TOML: {error}", int(match[1]) if match else None) from None


def _values_in(data: object) -> Iterator[object]:
    """Yield all values of data without cycles."""
    pending = [data]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, dict):
            pending += cast("dict[str, object]", node).values()
        elif isinstance(node, list):
            pending += cast("list[object]", node)


def _is_too_long(value: object) -> bool:
    return isinstance(value, int) and value.bit_length() > MAX_BITS


_PARSERS: Final[dict[str, Callable[[str, str], Any]]] = {
    ".yaml": _parse_yaml,
    ".yml": _parse_yaml,
    ".json": _parse_json,
    ".toml": _parse_toml,
}
ENDINGS: Final = tuple(_PARSERS)
"""The suffixes of such files, in lower case."""
