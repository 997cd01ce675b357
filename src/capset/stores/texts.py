"""Which texts every database can hold."""

from __future__ import annotations

from capset.errors import StateError


def storable(text: str, what: str) -> str:
    """Return a text that is to be kept. Raises ``StateError`` for a NUL or a lone surrogate; ``what`` names it."""
    if "\0" in text:
        raise StateError(f"{what} holds the character NUL, which no database keeps", hint="remove it")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise StateError(f"{what} holds a lone surrogate, which no database keeps", hint="remove it") from None
    return text


def is_storable(text: str) -> bool:
    """Say whether every database can hold a text."""
    try:
        storable(text, "it")
    except StateError:
        return False
    return True


def gone(what: str) -> StateError:
    """Return the error for a session that there is not, or not any more; ``what`` names what would have lived in it."""
    return StateError(f"the session of this {what} was deleted", status=404)


def over(turn: str) -> StateError:
    """Return the error for a turn that its session is not in, or not any more."""
    return StateError(f"the turn {turn!r} is over, or another's", status=409)
