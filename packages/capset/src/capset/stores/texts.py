"""Pure functions for texts: those that every database can store, and search by words."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import islice
from string import ascii_lowercase, ascii_uppercase
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


_LOWER: Final = str.maketrans(ascii_uppercase, ascii_lowercase)


def ascii_lower(text: str) -> str:
    """Return a text with its ASCII letters in lower case, as every database can do it."""
    return text.translate(_LOWER)


def is_storable(text: str) -> bool:
    """Return whether every database can store a text."""
    try:
        storable(text, "it")
    except StateError:
        return False
    return True


def missing_session_error(noun: str) -> StateError:
    """Return the error for a value (``noun``) of a session that does not exist, or no longer exists."""
    return StateError(f"the session of this {noun} was deleted", status=404)


def ended_turn_error(turn: str) -> StateError:
    """Return the error for a turn that is not, or no longer, the caller's current turn of its session."""
    return StateError(f"the turn {turn!r} has ended, or belongs to another process", status=409)


def running_turn_error(turn: str) -> StateError:
    """Return the error for an operation that is impossible during a turn of the session."""
    return StateError(f"the session is in the turn {turn!r}: wait for its end, or cancel it", status=409)


MAX_WORD_CHARACTERS: Final = 64
"""Number of characters of a word that are compared, after removing diacritics."""
MAX_WORDS: Final = 20_000
"""Number of words of a text that are indexed: its first ones."""
MAX_QUERY_WORDS: Final = 32
"""Number of distinct words of a query that are searched: its first ones."""

# Thai, Lao, Burmese, Khmer, Han with its iteration mark and zero, Kana, Bopomofo. Hangul has spaces.
_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3007\u3041-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u9fff"
    "\U0001aff0-\U0001b16f\U00020000-\U0003ffff"
)
_WORD: Final = re.compile(rf"(?=[^\W_])[{_UNSPACED}]|(?:(?![{_UNSPACED}])[^\W_])+")


def words(text: str) -> list[str]:
    """Return a text's words in order: at most ``MAX_WORDS``, each cut to ``MAX_WORD_CHARACTERS`` letters and digits."""
    folded = text.lower() if text.isascii() else _strip_marks(_strip_marks(text).casefold())
    return [match[0][:MAX_WORD_CHARACTERS] for match in islice(_WORD.finditer(folded), MAX_WORDS)]


def query_terms(query: str) -> list[str]:
    """Return the distinct words of a query, at most ``MAX_QUERY_WORDS``. Queries have no syntax."""
    return list(dict.fromkeys(words(query)))[:MAX_QUERY_WORDS]


def count_matches(terms: Sequence[str], text_words: Sequence[str]) -> int:
    """Return how many words of a query equal a word of a text or are a prefix of one.

    ``text_words`` are the text's words, sorted.
    """
    positions = [(word, bisect_left(text_words, word)) for word in terms]
    return sum(position < len(text_words) and text_words[position].startswith(word) for word, position in positions)


def rank(query: str, texts: Mapping[str, Sequence[str]], limit: int) -> list[str]:
    """Return the ids of the texts that match a query, best first, at most ``limit``.

    ``texts`` maps ids to sorted words. Texts with more of the query's words come first, then those with greater ids.
    """
    terms = query_terms(query)
    matches = [(count, text_id) for text_id, text_words in texts.items() if (count := count_matches(terms, text_words))]
    return [text_id for _, text_id in sorted(matches, reverse=True)[: max(limit, 0)]]


def _strip_marks(text: str) -> str:
    # Marks are removed before case folding too, which would turn the Greek iota subscript into a letter.
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join([character for character in decomposed if not unicodedata.category(character).startswith("M")])
