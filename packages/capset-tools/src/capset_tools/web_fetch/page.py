"""The result of ``web_fetch`` (spec 5, P26)."""

from __future__ import annotations

import asyncio
import re
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from capset import ToolError
from capset.ext import HttpResponse, is_text
from capset_tools.web_fetch.conversion import CUT

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
"""Bytes that do not occur in text (mimesniff.spec.whatwg.org, binary data byte)."""

Format = Literal["markdown", "text", "raw"]


def kind_by_type(media_type: str) -> Kind | None:
    """Return the kind of a media type, or ``None`` if unspecific, like ``text/plain``, the default of many servers."""
    if media_type in _HTML:
        return "html"
    if media_type == "text/plain" or media_type in _SAYS_NOTHING:
        return None
    return "text" if is_text(media_type) else "binary"


def kind_by_look(sample: bytes, media_type: str) -> Kind:
    """Detect the kind of a body from its first ``SAMPLE`` bytes."""
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
"""Number of chunks between two yields to the event loop: tiny chunks come by the thousand."""


@dataclass(slots=True)
class BodyReading:
    """A body, with its content coding undone. A binary one is empty, unless it ended before that was detected."""

    kind: Kind
    data: bytearray = field(default_factory=bytearray)
    cut: Cut | None = None
    is_whole: bool = True


async def read_body(response: HttpResponse, media_type: str, *, limit: int, seconds: float) -> BodyReading:
    """Read at most ``limit`` bytes within ``seconds``. A truncated body is not an error.

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


_SUFFIXES: Final[dict[Cut, str]] = {
    "time": "[..more content timed out...]",
    "size": "[..more content was cut off at {limit} bytes...]",
    "broken": "[..more content did not arrive...]",
    "coding": "[..more content could not be decoded...]",
}
_ANY_SUFFIX: Final = "|".join(re.escape(suffix).replace(r"\{limit\}", "[0-9]+") for suffix in _SUFFIXES.values())
_ENDING: Final = re.compile(rf"(?:{_ANY_SUFFIX})\Z")
_LONGEST: Final = 100


class WebPage(TypedDict):
    """An answer of the Web; 4xx and 5xx are answers too."""

    url: Annotated[str, Field(description="The URL that was asked for.")]
    status_code: Annotated[int, Field(description="The status: 200 to 299 is success, 400 and more are failures.")]
    content_type: Annotated[str | None, Field(description="The type of the content, if the server says one.")]
    size: Annotated[
        int | None,
        Field(description="Bytes received; for HEAD and binary content, what the server says, if it does."),
    ]
    last_modified: NotRequired[Annotated[str, Field(description="When it was last modified, as the server says.")]]
    filename: NotRequired[Annotated[str, Field(description="What a file of it would be called.")]]
    format: Annotated[Format, Field(description="What the content was converted to; raw where it was not.")]
    content: NotRequired[Annotated[str, Field(description="The content; not there for HEAD and binary content.")]]
    truncated: Annotated[bool, Field(description="Whether the content ends before its end; its last words say why.")]
    error: NotRequired[Annotated[str, Field(description="Why binary content is not shown.")]]


def suffix_of(cut: Cut | None, limit: int) -> str:
    """Return the note to append to truncated content, or an empty string if it is complete."""
    return "" if cut is None else _SUFFIXES[cut].format(limit=limit)


def own_text_of(page: WebPage) -> str:
    """Return a page's content without the note about its truncation."""
    text = page.get("content", "")
    if not page["truncated"]:
        return text
    if match := _ENDING.search(text, max(len(text) - _LONGEST, 0)):
        text = text[: match.start()]
    return "" if text == CUT.lstrip() else text.removesuffix(CUT)
