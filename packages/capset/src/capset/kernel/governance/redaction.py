"""Masking of a host's own patterns in records, results, events and errors (spec 4, G23, G26)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from capset.definitions.secrets import MASK
from capset.errors import DefinitionError
from capset.schemas.plain_data import distinct

Redactor = Callable[[Any], Any]
"""Returns JSON data with every match of a pattern masked, in keys too."""


def redactor_of(patterns: Sequence[str]) -> Redactor | None:
    """Return the function that masks matches of the patterns, or ``None`` without patterns.

    They are RE2, whose time is linear in the text. Raises ``DefinitionError`` for an invalid pattern, and for one that
    matches the empty string, which occurs in every text.
    """
    if not patterns:
        return None
    import re2  # pyright: ignore[reportMissingTypeStubs]

    untyped = cast("Any", re2)
    options = untyped.Options()
    options.log_errors = False
    compiled: list[Any] = []
    for pattern in patterns:
        try:
            one = untyped.compile(pattern, options)
        except untyped.error as error:
            why = error.args[0].decode(errors="replace")
            raise DefinitionError(f"redact: {pattern!r} is no regular expression of RE2: {why}") from None
        if one.search("") is not None:
            raise DefinitionError(f"redact: {pattern!r} matches the empty text, so it would match everywhere")
        compiled.append(one)

    def text(value: str) -> str:
        value = value.encode(errors="replace").decode()  # RE2 accepts no lone surrogates
        for one in compiled:
            value = one.sub(MASK, value)
        return value

    def redact(value: Any) -> Any:
        if isinstance(value, str):
            return text(value)
        if isinstance(value, Mapping):
            members = cast("Mapping[str, Any]", value)
            return distinct((text(key), redact(member)) for key, member in members.items())
        if isinstance(value, list | tuple):
            return [redact(item) for item in cast("Sequence[Any]", value)]
        return value

    return redact
