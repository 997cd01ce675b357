"""YAML as OpenAPI has it: that of version 1.2, with texts as keys, and nothing but JSON data (spec 7, M8).

YAML 1.1, which the parser speaks by itself, takes ``on`` and ``no`` for booleans, ``010`` for 8, and dates for objects.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

from capset.errors import DefinitionError
from capset.schemas.strict_json import MAX_LEVELS

if TYPE_CHECKING:
    import yaml

_MAX_VALUES: Final = 1_000_000
"""The maximum number of values: aliases can repeat one very often."""
_SCALARS: Final = {
    "tag:yaml.org,2002:bool": (re.compile("true|True|TRUE|false|False|FALSE"), "tTfF"),
    "tag:yaml.org,2002:null": (re.compile("~|null|Null|NULL|"), ["~", "n", "N", ""]),
    "tag:yaml.org,2002:int": (re.compile(r"[-+]?(?:0|[1-9][0-9]*)"), "-+0123456789"),
    "tag:yaml.org,2002:float": (
        re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+"),
        "-+.0123456789",
    ),
}
"""The scalars without quotes that are no texts: by tag, their grammar and first letters."""


def parse_yaml(text: str, where: str) -> Any:  # JSON
    """Return the data of a text. Raises ``DefinitionError``, starting with ``where``, with the line."""
    import yaml

    try:
        _check_depth(text, where)
        return _Copier(where).copied(yaml.load(text, _loader()))  # noqa: S506 - it is a SafeLoader
    except yaml.YAMLError as error:
        mark = cast("Any", getattr(error, "problem_mark", None))
        at = f", line {mark.line + 1}" if mark else ""
        raise DefinitionError(f"{where}{at}: not YAML: {getattr(error, 'problem', None) or 'unreadable'}") from None
    except RecursionError:
        raise DefinitionError(f"{where} is nested too deeply") from None
    except (ValueError, LookupError, AttributeError):  # what a value with a tag of its own may raise
        raise DefinitionError(f"{where}: not YAML: a number or a tagged value cannot be read") from None


def _check_depth(text: str, where: str) -> None:
    """Refuse what is nested too deeply by its events: the parser in C would overflow the stack of the process."""
    import yaml

    depth = 0
    for event in yaml.parse(text, _loader()):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_LEVELS:
                raise DefinitionError(f"{where} is nested more than {MAX_LEVELS} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


@cache
def _loader() -> type[yaml.SafeLoader]:
    import yaml

    base = cast("type[yaml.SafeLoader]", getattr(yaml, "CSafeLoader", yaml.SafeLoader))

    class Loader(base):
        """A loader whose keys are the texts that are written, each once in a mapping."""

        yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  # filled below

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # as it is there
            found: dict[Any, Any] = {}
            for key, value in node.value:
                text = cast("str", key.value) if isinstance(key, yaml.ScalarNode) else None
                if text is None or text in found:
                    said = "a key is no text" if text is None else "a key stands there twice"
                    raise yaml.MarkedYAMLError(problem=said, problem_mark=key.start_mark)
                if text == "<<" and key.style not in ("'", '"'):  # a few of them can repeat each other without end
                    raise yaml.MarkedYAMLError(problem="merge keys are not supported", problem_mark=key.start_mark)
                found[text] = cast("Any", self).construct_object(value, deep=deep)
            return found

    for tag, (grammar, first) in _SCALARS.items():
        cast("Any", Loader).add_implicit_resolver(tag, re.compile(f"(?:{grammar.pattern})$"), list(first))
    return Loader


class _Copier:
    """Copies data, so that what aliases repeat is counted each time."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._left = _MAX_VALUES

    def copied(self, value: object, level: int = 0) -> Any:  # JSON
        self._left -= 1
        if self._left < 0:
            raise DefinitionError(f"{self._where} has more than {_MAX_VALUES:,} values")
        if level > MAX_LEVELS:
            raise DefinitionError(f"{self._where} is nested more than {MAX_LEVELS} levels deep")
        match value:
            case None | bool() | int() | float():
                return value
            case str():
                return self._text(value)
            case list():
                return [self.copied(one, level + 1) for one in cast("list[object]", value)]
            case dict():
                members = cast("dict[str, object]", value)
                return {self._text(key): self.copied(one, level + 1) for key, one in members.items()}
            case _:
                raise DefinitionError(f"{self._where} has a value of the type {type(value).__name__}")

    def _text(self, text: str) -> str:
        if not text.isascii() and any("\ud800" <= one <= "\udfff" for one in text):
            raise DefinitionError(f"{self._where} has a lone surrogate, which no text can have")
        return text
