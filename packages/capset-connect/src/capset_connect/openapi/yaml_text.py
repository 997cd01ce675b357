"""YAML as OpenAPI defines it: version 1.2, with text as keys, and only JSON data (spec 7, M8, M107).

PyYAML constructs YAML 1.1, which reads ``on`` and ``no`` as booleans, ``010`` as 8, and dates as objects. So the data
is built from the parser's events, which also takes a fraction of the memory that PyYAML's nodes would.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import isfinite
from sys import intern
from typing import TYPE_CHECKING, Any, Final, cast

from capset.errors import DefinitionError
from capset.schemas.strict_json import MAX_LEVELS

if TYPE_CHECKING:
    import yaml

_MAX_VALUES: Final = 5_000_000
"""The maximum number of values. Those that aliases repeat count each time."""
_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_INTEGER: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT: Final = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+")
_TEXT: Final = "tag:yaml.org,2002:str"
_OTHER_SCALARS: Final = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("bool", "null", "int", "float"))
_COLLECTIONS: Final = frozenset({None, "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"})


def parse_yaml(data: bytes, where: str) -> Any:  # JSON
    """Return the data of a YAML text. Raises ``DefinitionError``, starting with ``where`` and the line."""
    import yaml

    loader = cast("type[yaml.SafeLoader]", getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    tree = _YamlData(where)
    try:
        for event in yaml.parse(data, loader):
            if isinstance(event, yaml.ScalarEvent):
                tree.add_scalar(event)
            elif isinstance(event, yaml.MappingStartEvent):
                tree.begin({}, event)
            elif isinstance(event, yaml.SequenceStartEvent):
                tree.begin([], event)
            elif isinstance(event, yaml.CollectionEndEvent):
                tree.end()
            elif isinstance(event, yaml.AliasEvent):
                tree.repeat(event)
    except yaml.YAMLError as error:
        mark = cast("Any", getattr(error, "problem_mark", None))
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "unreadable"
        raise DefinitionError(f"{where}{line}: not YAML: {problem}") from None
    return tree.document


@dataclass(slots=True)
class _YamlBranch:
    """An open list or object, with the number of its values, including itself, and of its levels."""

    data: list[Any] | dict[str, Any]
    anchor: str | None = None
    size: int = 1
    levels: int = 1
    key: str | None = None
    """The key whose value comes next."""
    merges: bool = False
    """Whether the next value is merged: it is that of ``<<``."""
    merged: list[Any] = field(default_factory=list[Any])


class _YamlData:
    """The data of a document, built from the events of a YAML parser."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._open = [_YamlBranch([])]
        self._anchors: dict[str, tuple[Any, int, int] | None] = {}
        self._size = 0

    @property
    def document(self) -> Any:  # JSON
        """The only document, or ``None`` if there is none. Raises ``DefinitionError`` if there are several."""
        documents = self._open[0].data
        if len(documents) > 1:
            raise DefinitionError(f"{self._where} has several documents; one was expected")
        return documents[0] if isinstance(documents, list) and documents else None

    def begin(self, data: list[Any] | dict[str, Any], event: yaml.CollectionStartEvent) -> None:
        """Begin a list or an object."""
        if event.tag not in _COLLECTIONS:
            raise self._refused(event, f"the tag {event.tag!r:.80} is not supported")
        self._check_key(event)
        if len(self._open) > MAX_LEVELS:
            raise self._too_deep()
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._open.append(_YamlBranch(data, event.anchor))

    def end(self) -> None:
        """End the innermost open list or object."""
        branch = self._open.pop()
        for source in branch.merged:
            for name, value in source.items():
                cast("dict[str, Any]", branch.data).setdefault(name, value)
        if branch.anchor is not None:
            self._anchors[branch.anchor] = (branch.data, branch.size, branch.levels)
        self._size += 1
        self._add(branch.data, branch.size, branch.levels)

    def repeat(self, event: yaml.AliasEvent) -> None:
        """Add the value of an alias. It is not copied, since nothing modifies it."""
        self._check_key(event)
        anchored = self._anchors.get(event.anchor or "")
        if anchored is None:
            raise self._refused(event, f"the alias {event.anchor!r:.80} is undefined, or within its own value")
        data, size, levels = anchored
        if len(self._open) - 1 + levels > MAX_LEVELS:
            raise self._too_deep()
        self._size += size
        self._add(data, size, levels)

    def add_scalar(self, event: yaml.ScalarEvent) -> None:
        """Add a scalar, or use it as the next key."""
        branch = self._open[-1]
        if isinstance(branch.data, dict) and branch.key is None:
            value = branch.key = intern(self._text(event))
            branch.merges = value == "<<" and event.implicit[0]
            if value in branch.data and not branch.merges:
                raise self._refused(event, "a key is repeated")
        else:
            value = self._scalar(event)
            self._size += 1
            self._add(value, 1, 0)
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, 1, 0)

    def _add(self, value: object, size: int, levels: int) -> None:
        if self._size > _MAX_VALUES:
            raise DefinitionError(f"{self._where} has more than {_MAX_VALUES:,} values")
        branch = self._open[-1]
        branch.size += size
        branch.levels = max(branch.levels, levels + 1)
        if isinstance(branch.data, list):
            branch.data.append(value)
        elif not branch.merges:
            branch.data[cast("str", branch.key)] = value
        else:
            sources = cast("list[object]", value if isinstance(value, list) else [value])
            if not all(isinstance(source, dict) for source in sources):
                raise DefinitionError(f"{self._where}: not YAML: '<<' can merge objects only")
            branch.merged += sources
        branch.key = None

    def _scalar(self, event: yaml.ScalarEvent) -> str | float | bool | None:
        is_plain, is_quoted = event.implicit
        if not is_plain and (is_quoted or event.tag == _TEXT):
            return self._text(event)
        if not is_plain and event.tag not in _OTHER_SCALARS:
            raise self._refused(event, f"the tag {event.tag!r:.80} is not supported")
        try:
            value = _plain(event.value)
        except ValueError:  # Python refuses integers of more than 4,300 digits
            raise self._refused(event, "a number has too many digits") from None
        if isinstance(value, float) and not isfinite(value):
            raise self._refused(event, "a number is too large")
        if isinstance(value, str):
            if not is_plain:
                raise self._refused(event, f"a value is not of its type {event.tag!r:.80}")
            return self._text(event)
        return value

    def _text(self, event: yaml.ScalarEvent) -> str:
        text = event.value
        if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
            raise self._refused(event, "a text has a lone surrogate, which is not allowed")
        return text

    def _check_key(self, event: yaml.Event) -> None:
        branch = self._open[-1]
        if isinstance(branch.data, dict) and branch.key is None:
            raise self._refused(event, "a key is not text")

    def _too_deep(self) -> DefinitionError:
        return DefinitionError(f"{self._where} is nested more than {MAX_LEVELS} levels deep")

    def _refused(self, event: yaml.Event, problem: str) -> DefinitionError:
        line = f", line {event.start_mark.line + 1}" if event.start_mark is not None else ""
        return DefinitionError(f"{self._where}{line}: not YAML: {problem}")


def _plain(text: str) -> str | float | bool | None:
    """Return the value of an unquoted scalar, by the rules of YAML 1.2."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in "-+.0123456789":
        if _INTEGER.fullmatch(text):
            return int(text)
        if _FLOAT.fullmatch(text):
            return float(text)
    return text
