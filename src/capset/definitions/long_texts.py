"""Long texts in data that becomes JSON data: through JSON text and back each would be in memory five times at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from pydantic_core import from_json, to_json

LONG: Final = 262_144
"""From so many characters on a text is passed on as it is."""
_PIECE: Final = 65_536


def has_long_text(value: object) -> bool:
    """Whether one of the members of a dict is a long text."""
    if type(value) is dict:
        for member in cast("dict[Any, Any]", value).values():
            if type(member) is str and len(member) >= LONG:
                return True
    return False


def without_copies(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return members that are JSON data already as JSON data, with the very texts of ``plain`` where they are long.

    Raises ``ValueError`` for a text with half a pair of surrogates, and for what JSON text cannot carry.
    """
    texts = {name: member for name, member in plain.items() if type(member) is str and len(member) >= LONG}
    for text in texts.values():
        _refuse_surrogates(text)
    return from_json(to_json({**plain, **dict.fromkeys(texts, "")})) | texts


def _refuse_surrogates(text: str) -> None:
    if not text.isascii():
        for at in range(0, len(text), _PIECE):
            text[at : at + _PIECE].encode()
