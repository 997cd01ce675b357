"""What a body is: HTML, other text, or binary; by its type, and by its look where the type says nothing."""

from __future__ import annotations

import re
from typing import Final, Literal

from capset.ext import is_text

Kind = Literal["html", "text", "binary"]

SAMPLE: Final = 1_024
"""How many bytes show what a body is; WHATWG's algorithms look at about as many."""
_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_SAYS_NOTHING: Final = frozenset(
    ("", "*/*", "application/octet-stream", "binary/octet-stream", "application/unknown", "unknown/unknown")
)
_LOOKS_LIKE_HTML: Final = re.compile(
    rb"\s*(?:<!--|(?:<!doctype\s+html|<(?:html|head|body|title|meta|script|style|iframe|table|div|font|h1|p|a|b|br))[\s>/])",
    re.IGNORECASE,
)
_MARKS: Final = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")
"""Byte order marks: what begins with one is text."""
_MAGIC: Final = re.compile(
    rb"\x89PNG\r\n|\xff\xd8\xff|GIF8[79]a|RIFF.{4}(?:WEBP|WAVE|AVI )|II\*\0|MM\0\*|\x00\x00\x01\x00"  # pictures
    rb"|OggS\0|ID3[\x02-\x04]|fLaC\0|.{4}ftyp|\x1aE\xdf\xa3"  # sound, film
    rb"|%PDF-|\xd0\xcf\x11\xe0|SQLite format 3\0|wOF[F2]\0"
    rb"|PK\x03\x04|PK\x05\x06|\x1f\x8b\x08|BZh[1-9]1AY|\xfd7zXZ\0|7z\xbc\xaf|Rar!\x1a\x07|\x28\xb5\x2f\xfd"  # archives
    rb"|\x7fELF|\0asm|\xca\xfe\xba\xbe|\xcf\xfa\xed\xfe",  # programs
    re.DOTALL,
)
_NO_TEXT: Final = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
"""The bytes that are in no text (mimesniff.spec.whatwg.org, binary data byte)."""


def kind_by_type(media_type: str) -> Kind | None:
    """Say what a type means; ``None`` where it means nothing, and for ``text/plain``, which many servers say then."""
    if media_type in _HTML:
        return "html"
    if media_type == "text/plain" or media_type in _SAYS_NOTHING:
        return None
    return "text" if is_text(media_type) else "binary"


def kind_by_look(sample: bytes, media_type: str) -> Kind:
    """Return what the first ``SAMPLE`` bytes of a body look like."""
    if sample.startswith(_MARKS):
        return "text"
    if _MAGIC.match(sample):
        return "binary"
    if media_type == "text/plain":  # believed, as far as it can be
        return "binary" if b"\0" in sample and not _is_utf8(sample) else "text"
    if _NO_TEXT.search(sample):
        return "binary"
    return "html" if _LOOKS_LIKE_HTML.match(sample) else "text"


def _is_utf8(sample: bytes) -> bool:
    try:
        sample[:-3].decode()  # a letter may go on behind the sample
    except UnicodeDecodeError as error:
        return error.end == len(sample) - 3 and error.reason == "unexpected end of data"
    return True
