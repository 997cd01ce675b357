"""The SQLite functions that a query may call: they read their arguments, and the time, and nothing else."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Final

# Without printf and format: one call can run two thousand million steps, and cannot be interrupted.
_SCALAR: Final = (
    "abs char coalesce concat concat_ws glob hex ifnull if iif instr length like likelihood likely lower ltrim max min "
    "nullif octet_length quote random replace round rtrim sign soundex subtype substr substring trim typeof unhex "
    "unicode unlikely upper unistr"
)
_AGGREGATE: Final = (
    "avg count group_concat median percentile percentile_cont percentile_disc string_agg sum total "
    "cume_dist dense_rank first_value lag last_value lead nth_value ntile percent_rank rank row_number"
)
_TIME: Final = "current_date current_time current_timestamp date datetime julianday strftime time timediff unixepoch"
_MATHEMATICAL: Final = (
    "acos acosh asin asinh atan atan2 atanh ceil ceiling cos cosh degrees exp floor ln log log10 log2 mod pi pow power "
    "radians sin sinh sqrt tan tanh trunc"
)
# Without json_patch, whose time is quadratic in its arguments.
_JSON: Final = (
    "-> ->> json json_array json_array_length json_error_position json_extract json_group_array json_group_object "
    "json_insert json_object json_pretty json_quote json_remove json_replace json_set json_type json_valid"
)
_FULL_TEXT: Final = "bm25 highlight match matchinfo offsets snippet"
PURE: Final = frozenset(f"{_SCALAR} {_AGGREGATE} {_TIME} {_MATHEMATICAL} {_JSON} {_FULL_TEXT}".split())
"""All others are refused: ``load_extension``, ``fts3_tokenizer``, ``zeroblob`` and ``randomblob``, and new ones of
later SQLite versions, until they have been reviewed."""

Value = str | int | float | bytes | None


def add_linear(connection: sqlite3.Connection, max_bytes: int) -> None:
    """Replace the functions whose time grows with the product of their arguments: one call cannot be interrupted."""
    add = partial(connection.create_function, deterministic=True)
    add("instr", 2, _instr)
    add("replace", 3, partial(_replace, max_bytes))
    for name, side in (("trim", str.strip), ("ltrim", str.lstrip), ("rtrim", str.rstrip)):
        add(name, 2, partial(_strip, side))


def _instr(value: Value, part: Value) -> int | None:
    if value is None or part is None:
        return None
    if isinstance(value, bytes) and isinstance(part, bytes):
        return value.find(part) + 1
    return _text(value).find(_text(part)) + 1


def _replace(max_bytes: int, value: Value, old: Value, new: Value) -> str | None:
    if value is None or old is None or new is None:
        return None
    text, wanted, given = _text(value), _text(old), _text(new)
    if not wanted:
        return text
    if len(text) + text.count(wanted) * (len(given) - len(wanted)) > max_bytes:
        raise OverflowError  # SQLite reports this as "string or blob too big"
    return text.replace(wanted, given)


def _strip(side: Callable[[str, str], str], value: Value, letters: Value) -> str | None:
    if value is None or letters is None:
        return None
    # Each letter once, since each is searched for.
    return side(_text(value), "".join(dict.fromkeys(_text(letters))))


def _text(value: str | int | float | bytes) -> str:
    """Return a value as SQLite casts it to text."""
    match value:
        case bytes():
            return value.decode("utf-8", "replace")
        case float():
            text = format(value, ".15g")
            return text if any(letter in text for letter in ".en") else f"{text}.0"
        case _:
            return str(value)
