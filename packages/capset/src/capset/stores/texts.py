"""Pure functions for texts: those that every database can store, and search by words."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

from capset.errors import StateError


def storable(text: str, label: str) -> str:
    """Return a text unchanged. Raises ``StateError``, with its ``label``, if it contains NUL or a lone surrogate."""
    if "\0" in text:
        raise StateError(f"{label} contains the character NUL, which databases cannot store", hint="remove it")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise StateError(f"{label} contains a lone surrogate, which databases cannot store", hint="remove it") from None
    return text


def is_storable(text: str) -> bool:
    """Return whether every database can store a text."""
    try:
        storable(text, "it")
    except StateError:
        return False
    return True


def gone(noun: str) -> StateError:
    """Return the error for a value (``noun``) of a session that does not exist, or no longer exists."""
    return StateError(f"the session of this {noun} was deleted", status=404)


def over(turn: str) -> StateError:
    """Return the error for a turn that is not, or no longer, the caller's current turn of its session."""
    return StateError(f"the turn {turn!r} has ended, or belongs to another process", status=409)


def busy(turn: str) -> StateError:
    """Return the error for an operation that is impossible during a turn of the session."""
    return StateError(f"the session is in the turn {turn!r}: wait for its end, or cancel it", status=409)


LONGEST: Final = 64
"""Number of characters of a word that are compared, after removing diacritics."""
MOST: Final = 20_000
"""Number of words of a text that are indexed: its first ones."""
ASKED: Final = 32
"""Number of distinct words of a query that are searched: its first ones."""

# Thai, Lao, Burmese, Khmer, Han with its iteration mark and zero, Kana, Bopomofo. Hangul has spaces.
_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3007\u3041-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u9fff"
    "\U0001aff0-\U0001b16f\U00020000-\U0003ffff"
)
_WORD: Final = re.compile(rf"(?=[^\W_])[{_UNSPACED}]|(?:(?![{_UNSPACED}])[^\W_])+")


def words(text: str) -> list[str]:
    """Return a text's words (letters and digits) in order: at most ``MOST``, each cut to ``LONGEST`` characters."""
    folded = text.lower() if text.isascii() else _unmarked(_unmarked(text).casefold())
    return [match[0][:LONGEST] for match in islice(_WORD.finditer(folded), MOST)]


def asked(query: str) -> list[str]:
    """Return the distinct words of a query, at most ``ASKED``. Queries have no syntax."""
    return list(dict.fromkeys(words(query)))[:ASKED]


def hits(query_words: Sequence[str], text_words: Sequence[str]) -> int:
    """Return how many words of a query equal a word of a text or are a prefix of one.

    ``text_words`` are the text's words, sorted.
    """
    places = [(word, bisect_left(text_words, word)) for word in query_words]
    return sum(place < len(text_words) and text_words[place].startswith(word) for word, place in places)


def best(query: str, texts: Mapping[str, Sequence[str]], limit: int) -> list[str]:
    """Return the ids of the texts that match a query, best first, at most ``limit``.

    ``texts`` maps ids to sorted words. Texts with more of the query's words come first, then those with greater ids.
    """
    query_words = asked(query)
    matches = [(count, text_id) for text_id, text_words in texts.items() if (count := hits(query_words, text_words))]
    return [text_id for _, text_id in sorted(matches, reverse=True)[: max(limit, 0)]]


def _unmarked(text: str) -> str:
    # Marks are removed before case folding too, which would turn the Greek iota subscript into a letter.
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join([character for character in decomposed if not unicodedata.category(character).startswith("M")])
