"""The body of a page: its kind, and as much of it as time and size allow (spec 5, P26, P27)."""

from __future__ import annotations

import asyncio
import re
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final, Literal

from capset import ToolError
from capset.ext import HttpResponse, is_text

Kind = Literal["html", "text", "binary"]

SAMPLE: Final = 1_024
"""How many bytes are inspected to detect the kind; WHATWG's algorithms use about as many."""
_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_SAYS_NOTHING: Final = frozenset(
    ("", "*/*", "application/octet-stream", "binary/octet-stream", "application/unknown", "unknown/unknown")
)
_LOOKS_LIKE_HTML: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<!--|(?:<!doctype\s+html|<(?:html|head|body|title|meta|script|style|iframe|table|div|font|h1|p|a|b|br))[\s>/])",
    re.IGNORECASE,
)
_MARKS: Final = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
"""Byte order marks: a body that begins with one is text."""
_MAGIC: Final = re.compile(
    rb"\x89PNG\r\n|\xff\xd8\xff|GIF8[79]a|RIFF.{4}(?:WEBP|WAVE|AVI )|II\*\0|MM\0\*|\x00\x00\x01\x00"  # pictures
    rb"|OggS\0|ID3[\x02-\x04]|fLaC\0|.{4}ftyp|\x1aE\xdf\xa3"  # sound, film
    rb"|%PDF-|\xd0\xcf\x11\xe0|SQLite format 3\0|wOF[F2]\0"
    rb"|PK\x03\x04|PK\x05\x06|\x1f\x8b\x08|BZh[1-9]1AY|\xfd7zXZ\0|7z\xbc\xaf|Rar!\x1a\x07|\x28\xb5\x2f\xfd"  # archives
    rb"|\x7fELF|\0asm|\xca\xfe\xba\xbe|\xcf\xfa\xed\xfe",  # programs
    re.DOTALL,
)
_NO_TEXT: Final = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
"""The bytes that occur in no text (mimesniff.spec.whatwg.org, binary data byte)."""


def kind_by_type(media_type: str) -> Kind | None:
    """Return the kind of a media type; ``None`` if unspecific, also for ``text/plain``, which many servers use then."""
    if media_type in _HTML:
        return "html"
    if media_type == "text/plain" or media_type in _SAYS_NOTHING:
        return None
    return "text" if is_text(media_type) else "binary"


def kind_by_look(sample: bytes, media_type: str) -> Kind:
    """Return the kind of a body by its first ``SAMPLE`` bytes."""
    if not sample.startswith(_MARKS):
        if _MAGIC.match(sample):
            return "binary"
        if media_type == "text/plain":  # trusted, as far as possible
            return "binary" if b"\0" in sample and not _is_utf8(sample) else "text"
        if _NO_TEXT.search(sample):
            return "binary"
    return "html" if media_type != "text/plain" and _LOOKS_LIKE_HTML.match(sample) else "text"


def _is_utf8(sample: bytes) -> bool:
    try:
        sample[:-3].decode()  # the last character may continue after the sample
    except UnicodeDecodeError as error:
        return error.end == len(sample) - 3 and error.reason == "unexpected end of data"
    return True


Cut = Literal["time", "size", "broken", "coding"]
"""Why a body is incomplete: its time was up, it is too large, its connection broke off, or its coding is broken."""
_AT_ONCE: Final = 256
"""Number of chunks between two yields and deadline checks: tiny chunks come by the thousand."""


@dataclass(slots=True)
class BodyReading:
    """The body read, with its content coding undone; empty for binary, unless it ended before that was detected."""

    kind: Kind
    data: bytearray = field(default_factory=bytearray)
    cut: Cut | None = None
    is_whole: bool = True


async def read_body(response: HttpResponse, media_type: str, *, limit: int, seconds: float) -> BodyReading:
    """Read at most ``limit`` bytes, in at most so many seconds; a truncated body is no error.

    Raises ``ToolError`` (``bad_encoding``) if nothing of the body can be decoded.
    """
    data, kind, cut, pieces = bytearray(), kind_by_type(media_type), None, 0
    if kind == "binary":
        return BodyReading("binary", is_whole=False)
    scope = asyncio.timeout(seconds)
    try:
        async with scope, aclosing(response.chunks()) as chunks:
            async for piece in chunks:
                data += piece
                if kind is None and len(data) >= SAMPLE:
                    kind = kind_by_look(bytes(data[:SAMPLE]), media_type)
                    if kind == "binary":
                        return BodyReading("binary", is_whole=False)
                if len(data) > limit:
                    del data[limit:]
                    cut = "size"
                    break
                pieces += 1
                if pieces % _AT_ONCE == 0:
                    await asyncio.sleep(0)
    except TimeoutError:
        if not scope.expired():
            raise
        cut = "time"
    except ToolError as error:
        if error.code == "bad_encoding" and not data:
            raise
        cut = "coding" if error.code == "bad_encoding" else "broken"
    return BodyReading(kind or kind_by_look(bytes(data[:SAMPLE]), media_type), data, cut, is_whole=cut is None)
