"""Texts: those that every database can hold, and search by their words; pure."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

from capset.errors import StateError


def storable(text: str, label: str) -> str:
    """Return a text to be stored. Raises ``StateError`` for a NUL or a lone surrogate; ``label`` names it."""
    if "\0" in text:
        raise StateError(f"{label} holds the character NUL, which no database keeps", hint="remove it")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise StateError(f"{label} holds a lone surrogate, which no database keeps", hint="remove it") from None
    return text


def is_storable(text: str) -> bool:
    """Return whether every database can hold a text."""
    try:
        storable(text, "it")
    except StateError:
        return False
    return True


def gone(noun: str) -> StateError:
    """Return the error for a session that does not exist, or no longer; ``noun`` names the value it would hold."""
    return StateError(f"the session of this {noun} was deleted", status=404)


def over(turn: str) -> StateError:
    """Return the error for a turn that its session is not in, or no longer."""
    return StateError(f"the turn {turn!r} is over, or another's", status=409)


def busy(turn: str) -> StateError:
    """Return the error for what cannot be done to a session in a turn."""
    return StateError(f"the session is in the turn {turn!r}: wait for its end, or cancel it", status=409)


LONGEST: Final = 64
"""Number of characters of a word that are compared, without its marks."""
MOST: Final = 20_000
"""Number of words of a text that can be found: its first ones."""
ASKED: Final = 32
"""Number of different words of a query that are searched: its first ones."""

# Thai, Lao, Burmese, Khmer, Han with its iteration mark and zero, Kana, Bopomofo. Hangul has spaces.
_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3007\u3041-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u9fff"
    "\U0001aff0-\U0001b16f\U00020000-\U0003ffff"
)
_WORD: Final = re.compile(rf"(?=[^\W_])[{_UNSPACED}]|(?:(?![{_UNSPACED}])[^\W_])+")


def words(text: str) -> list[str]:
    """Return a text's words in order, at most ``MOST`` of at most ``LONGEST`` characters: letters and digits only."""
    folded = text.lower() if text.isascii() else _unmarked(_unmarked(text).casefold())
    return [match[0][:LONGEST] for match in islice(_WORD.finditer(folded), MOST)]


def asked(query: str) -> list[str]:
    """Return the different words of a query, at most ``ASKED``. Nothing in a query is syntax."""
    return list(dict.fromkeys(words(query)))[:ASKED]


def hits(query_words: Sequence[str], text_words: Sequence[str]) -> int:
    """Return the number of requested words that equal or begin a word of a text.

    ``text_words`` are the text's words, sorted.
    """
    places = [(word, bisect_left(text_words, word)) for word in query_words]
    return sum(place < len(text_words) and text_words[place].startswith(word) for word, place in places)


def best(query: str, texts: Mapping[str, Sequence[str]], limit: int) -> list[str]:
    """Return the ids of the texts that match a query, best first, at most ``limit``.

    ``texts`` has each text's sorted words by its id. More of the query's words are better, then a greater id.
    """
    query_words = asked(query)
    matches = [(count, text_id) for text_id, text_words in texts.items() if (count := hits(query_words, text_words))]
    return [text_id for _, text_id in sorted(matches, reverse=True)[: max(limit, 0)]]


def _unmarked(text: str) -> str:
    # Stripping before case folding too: the Greek iota below is a mark that would be folded to a letter.
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join([character for character in decomposed if not unicodedata.category(character).startswith("M")])
