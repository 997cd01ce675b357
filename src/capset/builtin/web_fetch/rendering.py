"""From the bytes of a body to the text that a model reads. It may take a while: it is run in a thread."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from capset.builtin.web_fetch.charsets import text_in
from capset.builtin.web_fetch.converting import CUT
from capset.builtin.web_fetch.markdown import markdown_of
from capset.builtin.web_fetch.page import Format
from capset.builtin.web_fetch.reading import Reading
from capset.builtin.web_fetch.text import text_of

_MARKED_UP: Final = re.compile(r"text/html|[^/]+/(?:[^/]+\+)?xml")


@dataclass(frozen=True, slots=True)
class Rendered:
    """A text, and whether it is the beginning of one only."""

    text: str
    format: Format
    is_cut: bool


def rendered(reading: Reading, content_type: str, media_type: str, base: str, wanted: Format, ending: str) -> Rendered:
    """Return the text, and what it is now; only HTML is converted. The bytes of ``reading`` are used up.

    Args:
        reading: what was read, and no binary.
        content_type: the header's value.
        media_type: the type in it.
        base: the URL that it came from, after redirects, by which links are made absolute.
        wanted: what HTML is converted to.
        ending: ASCII that the text ends with, where it was cut.
    """
    is_marked_up = reading.kind == "html" or _MARKED_UP.fullmatch(media_type) is not None
    converts = reading.kind == "html" and wanted != "raw"
    text = text_in(
        reading.data,
        content_type,
        is_marked_up=is_marked_up,
        is_cut=reading.cut is not None,
        ending="" if converts else ending,
    )
    if not converts:
        return Rendered(text, "raw", bool(ending))
    text = markdown_of(text, base) if wanted == "markdown" else text_of(text, base)
    return Rendered(text + ending, wanted, bool(ending) or text.endswith(CUT))
