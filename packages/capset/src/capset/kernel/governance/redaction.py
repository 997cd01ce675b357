"""Masking of secrets in records, and of the host's own patterns there and elsewhere (spec 4, G23, G26)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from pydantic_core import from_json

from capset.definitions.secrets import MASK, is_secret_name, mask_urls
from capset.errors import DefinitionError
from capset.schemas.plain_data import unique_members

MAX_RECORDED_TEXT: Final = 2_000
"""Maximum characters of one text in a record; the digest always covers the whole text."""
MAX_RECORDED_BYTES: Final = 16_384
"""Maximum bytes of a record's arguments as JSON."""
_MAX_PARSED_TEXT: Final = 1024 * 1024
"""Maximum characters of a text that is parsed as JSON to mask secrets in it."""
Redactor = Callable[[Any], Any]
"""Returns JSON data with every match of a pattern masked, in keys too."""


def redactor_of(patterns: Sequence[str]) -> Redactor | None:
    """Return the function that masks matches of the patterns, or ``None`` without patterns.

    Patterns are in RE2 syntax, which matches in linear time. Raises ``DefinitionError`` for an invalid pattern, and for
    one that matches the empty string, which occurs in every text.
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
            expression = untyped.compile(pattern, options)
        except untyped.error as error:
            reason = error.args[0].decode(errors="replace")
            raise DefinitionError(f"redact: {pattern!r} is not a valid RE2 regular expression: {reason}") from None
        if expression.search("") is not None:
            raise DefinitionError(f"redact: {pattern!r} matches the empty text, so it would match everywhere")
        compiled.append(expression)

    def text(value: str) -> str:
        value = value.encode(errors="replace").decode()  # RE2 accepts no lone surrogates
        for regex in compiled:
            value = regex.sub(MASK, value)
        return value

    def redact(value: Any) -> Any:
        if isinstance(value, str):
            return text(value)
        if isinstance(value, Mapping):
            members = cast("Mapping[str, Any]", value)
            return unique_members((text(key), redact(member)) for key, member in members.items())
        if isinstance(value, list | tuple):
            return [redact(item) for item in cast("Sequence[Any]", value)]
        return value

    return redact


def redacted(value: Any, name: str = "", *, longest: int | None = MAX_RECORDED_TEXT) -> Any:
    """Return plain JSON data with values of secret-looking names and secrets in URLs masked, and long texts cut."""
    if value is not None and is_secret_name(name):
        return MASK
    if isinstance(value, str):
        value = mask_urls(value)
        remaining = 0 if longest is None else len(value) - longest
        return f"{value[:longest]}… [{remaining} more characters]" if remaining > 0 else value
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return unique_members(
            (mask_urls(key), redacted(member, key, longest=longest)) for key, member in members.items()
        )
    if isinstance(value, list):
        return [redacted(item, longest=longest) for item in cast("list[Any]", value)]
    return value


def fully_redacted(value: Any, redact: Redactor | None, *, longest: int | None = MAX_RECORDED_TEXT) -> Any:
    """Return JSON data for readers who did not make the call: masked by ``redact`` and as ``redacted`` does.

    So is the JSON within its texts. A text that begins like JSON and is too long to be parsed is left out.
    """
    value = _with_masked_texts(value, redact)
    return redacted(value if redact is None else redact(value), longest=longest)


def _with_masked_texts(value: Any, redact: Redactor | None) -> Any:
    """Return JSON data with secrets masked in the texts that are JSON objects or lists themselves."""
    if isinstance(value, str):
        return _masked_json_text(value, redact) if value.lstrip()[:1] in ("{", "[") else value
    if isinstance(value, Mapping):
        members = cast("Mapping[str, Any]", value)
        return {name: _with_masked_texts(member, redact) for name, member in members.items()}
    if isinstance(value, list | tuple):
        return [_with_masked_texts(item, redact) for item in cast("Sequence[Any]", value)]
    return value


def _masked_json_text(text: str, redact: Redactor | None) -> str:
    if len(text) > _MAX_PARSED_TEXT:
        return f"[{len(text):,} characters]"
    try:
        data = from_json(text)
    except ValueError as error:
        return MASK if "recursion limit" in str(error) else text  # it only begins like JSON
    try:
        return json.dumps(redacted(data if redact is None else redact(data), longest=None), ensure_ascii=False)
    except RecursionError:  # nested too deeply within data that is nested deeply itself
        return MASK


def storable_text(text: str | None) -> str | None:
    """Return text that every database accepts: bounded, and without NUL or lone surrogates."""
    if text is None or (len(text) <= MAX_RECORDED_TEXT and text.isascii() and "\0" not in text):
        return text
    return text[:MAX_RECORDED_TEXT].replace("\0", "\ufffd").encode(errors="replace").decode()
