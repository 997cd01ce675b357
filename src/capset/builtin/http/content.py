"""The content of a body: a JSON value, text, or binary."""

from __future__ import annotations

import codecs
import json
import re
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue
from pydantic_core import from_json

from capset.ext import codec_of, decoded, is_text, media_type_of, of_type

_JSON: Final = re.compile(r"application/json|[^/]+/[^/]+\+json")
_UNKNOWN: Final = frozenset({"", "application/octet-stream", "text/plain"})
"""Unspecific types: a body that looks like JSON is treated as JSON."""
_UTF_8: Final = "utf-8-sig"


@dataclass(frozen=True, slots=True)
class Content:
    """``body`` in the form of the result; ``error`` is the reason if there is none."""

    body: JsonValue
    error: str | None = None


def content_of(data: bytes, content_type: str, *, is_cut: bool) -> Content:
    """Read a body by the type that its server declares, or by its look if that type is unspecific.

    A body that is declared as JSON and is not, or was cut, is treated as text.
    """
    media_type = media_type_of(content_type)
    text = _text(data, media_type, content_type, is_cut=is_cut)
    if text is None:
        return Content(
            None, f"The body is binary, {of_type(media_type)}, {len(data)} bytes of it were read; it cannot be shown."
        )
    looks_like_json = media_type in _UNKNOWN and text.lstrip()[:1] in ("{", "[")
    if not is_cut and (_JSON.fullmatch(media_type) or looks_like_json):
        return Content(_value(text))
    return Content(text)


def _text(data: bytes, media_type: str, content_type: str, *, is_cut: bool) -> str | None:
    if is_text(media_type):
        return decoded(bytearray(data), codec_of(content_type, data[:4]) or _UTF_8, is_cut=is_cut)
    if media_type not in _UNKNOWN or b"\0" in data:
        return None
    try:
        return codecs.getincrementaldecoder(_UTF_8)().decode(data, final=not is_cut)
    except UnicodeDecodeError:
        return None


def _value(text: str) -> JsonValue:
    try:
        value = from_json(text, allow_inf_nan=False)
        json.dumps(value, allow_nan=False)  # numbers too large for a float are read as infinite
    except (ValueError, RecursionError):
        return text
    return value
