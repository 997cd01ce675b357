"""Tools as servers and API documents describe them, and their problems (spec 7, M4)."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, cast

from capset.definitions.names import TOOL
from capset.errors import DefinitionError
from capset.fingerprint.canonical import NotCanonical, digest
from capset.schemas.json_schema import compile_json_schema

MAX_TOOLS: Final = 1_000
"""The maximum number of tools of one server or API."""
MAX_SHAPE: Final = 256 * 1024
"""The maximum size of a tool's shape, as JSON in bytes."""
_HIDDEN: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})
"""The Unicode categories of characters that are invisible or change the order of others."""
_IGNORABLE: Final = (
    *((0x034F, 0x034F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x2800, 0x2800), (0x3164, 0x3164)),
    *((0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0xE0000, 0xE0FFF)),
)
"""Ranges of invisible characters whose category does not show it (Default_Ignorable_Code_Point)."""
_PLAIN: Final = frozenset("\n\t\r")
_TEXTS: Final = ("name", "title", "description")
"""The keys of a tool that are shown first."""
_WORD: Final = re.compile(r"\w+|[^\w\s]")
_DATA: Final = frozenset({"const", "default", "enum", "examples", "_meta"})
"""The members of tools and schemas whose values are data: a ``description`` in them does not describe the tool."""
_UNREAD: Final = frozenset({"_meta", "execution"})
"""The keys of a tool that are for clients, and that no model reads."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool as its server, or the document of its API, currently describes it.

    ``shape`` is the JSON that the hash covers (``hash_of``). Its members ``name``, ``title``, ``description``,
    ``inputSchema`` and ``outputSchema`` are those of MCP, if given; others depend on where the tool comes from.
    ``problems`` are reasons not to use the tool as it is. ``notes`` say which parts of it are not enforced although it
    is used.
    """

    name: str
    shape: Mapping[str, Any]
    hash: str
    problems: tuple[str, ...] = ()
    is_unusable: bool = False
    """Whether nothing can call it: its name or its schemas are not supported."""
    notes: tuple[str, ...] = ()

    def with_problems(self, *problems: str) -> Offer:
        """Return the offer with reasons why nothing can call it; unchanged without reasons."""
        return replace(self, problems=(*self.problems, *problems), is_unusable=True) if problems else self


def unusable(name: str, problem: str) -> Offer:
    """Return the offer of a tool that nothing can call, with its name only."""
    return Offer(name, {"name": name}, "", (problem,), is_unusable=True)


def examined(name: str, local_name: str, shape: Mapping[str, Any], *, ignores_word_order: bool = False) -> Offer:
    """Return the offer of a tool, with its problems; ``local_name`` is the name that the tool would have here."""
    size = len(json.dumps(shape, ensure_ascii=False).encode(errors="replace"))
    if size > MAX_SHAPE:  # nothing else is checked: that would take long
        return unusable(name, f"its description and schemas have {size:,} bytes, more than {MAX_SHAPE:,}")
    try:
        shape_hash = hash_of(shape, ignores_word_order=ignores_word_order)
    except NotCanonical as error:
        return unusable(name, f"it has no canonical form: {error}")
    notes: list[str] = []
    faults = tuple(_faults(local_name, name, shape, notes))
    problems = (*faults, *_suspicions(shape))
    return Offer(name, shape, shape_hash, problems, is_unusable=bool(faults), notes=tuple(notes))


def hash_of(shape: Mapping[str, Any], *, ignores_word_order: bool = False) -> str:
    """Return the hash of a tool's shape. Raises ``NotCanonical``.

    With ``ignores_word_order``, descriptions with the same words in another order have the same hash, which never
    equals a hash without this option. The order of everything else counts.
    """
    return digest(["words in any order", _with_sorted_words(shape)]) if ignores_word_order else digest(shape)


def _with_sorted_words(value: Any) -> Any:  # JSON
    """Return a tool's shape, or a part of it, with the words of each description sorted."""
    if isinstance(value, list):
        return [_with_sorted_words(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    members = cast("dict[str, Any]", value)
    return {name: member if name in _DATA else _sorted_member(name, member) for name, member in members.items()}


def _sorted_member(name: str, member: Any) -> Any:  # JSON
    is_text = name == "description" and isinstance(member, str)
    return sorted(_WORD.findall(member)) if is_text else _with_sorted_words(member)


def distinct(offers: Sequence[Offer], local_name_of: Callable[[str], str]) -> Sequence[Offer]:
    """Return the offers in order. Of several with the same local name, all but the first become unusable."""
    first: dict[str, str] = {}
    distinct_offers: list[Offer] = []
    for offer in offers:
        name = local_name_of(offer.name)
        other = first.setdefault(name, offer.name)
        same = () if other == offer.name else (f"here it would be called {name}, as {other!r} is",)
        distinct_offers.append(offer.with_problems(*same))
    return distinct_offers


def _faults(local_name: str, name: str, shape: Mapping[str, Any], notes: list[str]) -> Iterator[str]:
    """Yield the reasons why a tool cannot be used; add to ``notes`` which parts of its schemas are not checked."""
    if not TOOL.fullmatch(local_name):
        yield f"its name {shown(name)} is too long, or has characters other than letters, digits, _, -, . and /"
    if cast("dict[str, Any]", shape.get("inputSchema", {})).get("type") != "object":
        yield "the schema of its arguments is not of type object"
    for member in ("inputSchema", "outputSchema"):
        if member in shape:
            try:
                schema = compile_json_schema(member, shape[member])
            except DefinitionError as error:
                yield shown(error.message)
                continue
            notes += [
                shown(f"{member}: this pattern does not take linear time, so it is not checked: {pattern}")
                for pattern in schema.unchecked_patterns
            ]


def _suspicions(shape: Mapping[str, Any]) -> Iterator[str]:
    """Yield warnings about text that a model reads and a person may not see."""
    read = {name: member for name, member in shape.items() if name not in _UNREAD}
    texts = [text for text in _texts(read) if not (text.isascii() and text.isprintable())]
    for text in texts:
        if (hidden := _hidden_in(text)) is not None:
            yield f"its texts contain the invisible character {_named(hidden)}: {shown(text)}"
            break
    for text in texts:
        if (mixed := next((word for word in text.split() if _is_mixed(word)), None)) is not None:
            yield f"its texts mix letters that look alike: {shown(mixed)}"
            break


def _texts(value: Any) -> Iterator[str]:  # JSON
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in cast("dict[str, Any]", value).items():
            yield name
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from _texts(inner)


@lru_cache(4_096)
def is_hidden(letter: str) -> bool:
    """Return whether a character is invisible, or changes the order of others."""
    if letter in _PLAIN:
        return False
    return unicodedata.category(letter) in _HIDDEN or any(low <= ord(letter) <= high for low, high in _IGNORABLE)


def _hidden_in(text: str) -> str | None:
    """Return the first invisible character of a text, apart from selectors of the style of a preceding symbol."""
    before = ""
    for letter in text:
        is_choice = letter in "\ufe0e\ufe0f" and (unicodedata.category(before)[0] == "S" if before else False)
        if is_hidden(letter) and not is_choice:
            return letter
        before = letter
    return None


def _is_mixed(word: str) -> bool:
    """Return whether a word mixes letters of several alphabets that look alike."""
    return not word.isascii() and len({script for letter in word if (script := _script(letter))}) > 1


@lru_cache(4_096)
def _script(letter: str) -> str:
    """Return the alphabet of a letter if it has look-alikes in other alphabets, else ``""``."""
    if not letter.isalpha():
        return ""
    script = unicodedata.name(letter, "").partition(" ")[0]
    return script if script in ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "FULLWIDTH") else ""


def _named(letter: str) -> str:
    return f"U+{ord(letter):04X} {unicodedata.name(letter, '')}".rstrip()


def shown(text: str) -> str:
    """Return a text, cut to 200 characters, with all but printable ASCII escaped."""
    cut = text if len(text) <= 200 else f"{text[:200]}…"
    return "".join(
        character if character.isascii() and character.isprintable() else f"\\u{{{ord(character):x}}}"
        for character in cut
    )


def described(shape: Mapping[str, Any]) -> list[str]:
    """Return a tool's shape as lines: texts verbatim, schemas as JSON, and hidden characters escaped."""
    lines: list[str] = []
    for name, value in sorted(shape.items(), key=lambda member: (member[0] not in _TEXTS, member[0])):
        text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)
        lines += [f"{name}:", *(f"  {line}" for line in _visible(text).split("\n"))]
    return lines


def look_alikes(text: str) -> dict[str, str]:
    """Return the letters of a text from alphabets with look-alikes of Latin letters, each with its escape."""
    return {letter: f"\\u{{{ord(letter):x}}}" for letter in set(text) if _script(letter) not in ("", "LATIN")}


def _visible(text: str) -> str:
    return "".join(f"\\u{{{ord(character):x}}}" if is_hidden(character) else character for character in text)
