"""Rendering of a body's bytes as text for a model. It may be slow: run it in a thread."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from capset.builtin.web_fetch.body import BodyReading
from capset.builtin.web_fetch.charsets import text_in
from capset.builtin.web_fetch.conversion import CUT, markdown_of, text_of
from capset.builtin.web_fetch.page import Format

_WIDE: Final = re.compile(rb"[\xf0-\xf4]")
_MOST_WIDE: Final = 6_000_000
"""Maximum bytes of HTML to convert if one wide character quadruples the memory of the text."""
_MARKED_UP: Final = re.compile(r"text/html|[^/]+/(?:[^/]+\+)?xml")


@dataclass(frozen=True, slots=True)
class RenderedText:
    """A text, and whether it is only the beginning of one."""

    text: str
    format: Format
    is_cut: bool


def rendered(
    reading: BodyReading, content_type: str, media_type: str, base: str, wanted: Format, ending: str
) -> RenderedText:
    """Return the text, and its format; only HTML is converted. The bytes of ``reading`` are consumed.

    Args:
        reading: the body, which is not binary.
        content_type: the header's value.
        media_type: the type in it.
        base: the final URL, after redirects, for making links absolute.
        wanted: the target format for HTML.
        ending: ASCII to append to a truncated text.
    """
    is_marked_up = reading.kind == "html" or _MARKED_UP.fullmatch(media_type) is not None
    converts = reading.kind == "html" and wanted != "raw"
    is_too_wide = converts and len(reading.data) > _MOST_WIDE and _WIDE.search(reading.data) is not None
    if is_too_wide:
        del reading.data[_MOST_WIDE:]
    text = text_in(
        reading.data,
        content_type,
        is_marked_up=is_marked_up,
        is_cut=is_too_wide or reading.cut is not None,
        ending="" if converts else ending,
    )
    if not converts:
        return RenderedText(text, "raw", bool(ending))
    text = markdown_of(text, base) if wanted == "markdown" else text_of(text, base)
    if is_too_wide and not text.endswith(CUT):
        text += CUT
    return RenderedText(text + ending, wanted, bool(ending) or text.endswith(CUT))
