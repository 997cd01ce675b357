"""Charset detection, and removal of control characters, which can mislead terminals and models."""

from __future__ import annotations

import codecs
import re
from typing import Final

from capset.ext import all_codecs, codec_named, codec_of

_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_IN_BYTES: Final = bytes(byte for byte in (*range(0x20), 0x7F) if byte not in b"\t\n\r") + b"\xc2"
"""The bytes of control characters in UTF-8; the last one begins C1 characters, but also some letters."""


def without_controls(text: str) -> str:
    """Remove the control characters of C0 and C1, except tabs and line ends."""
    data = text.encode(errors="replace")
    if len(data) == len(data.translate(None, _IN_BYTES)):  # faster than the expression, and usually true
        return text
    return _CONTROLS.sub("", text) if _CONTROLS.search(text) else text


MARKED_UP: Final = re.compile(r"text/html|[^/]+/(?:[^/]+\+)?xml")
"""Media types of markup, which may declare its own charset."""
_PRESCAN: Final = 1_024
_LOOKED_AT: Final = 65_536
"""How many bytes are sampled to detect UTF-8, and decoded at once."""
_GUESSED_BY: Final = 6_144
"""Maximum bytes for guessing a charset, taken from runs that contain non-ASCII bytes."""
_FEW: Final = 10
"""With fewer non-ASCII characters, guessing is pointless."""
_OF_TWO_BYTES: Final = frozenset(("cp932", "euc_jp", "iso2022_jp", "iso2022_kr", "cp949", "gb18030", "big5hkscs"))
_FALLBACK: Final = "cp1252"
_UTF_8: Final = "utf-8-sig"
_MARKS: Final = (
    (b"\xef\xbb\xbf", _UTF_8),
    (b"\xff\xfe", "utf-16"),  # also UTF-32, which decodes to the same characters with NULs in between
    (b"\xfe\xff", "utf-16"),
)
_XML_16: Final = ((b"<\0?\0x\0", "utf-16-le"), (b"\0<\0?\0x", "utf-16-be"))
_TAG: Final = re.compile(r"<!--(?:.*?-->|.*)|<(/?[A-Za-z][^\s>/]*)|<[!/?][^>]*>?", re.DOTALL)
_ATTRIBUTE: Final = re.compile(r"""[\s/]*([^\s/>=][^\s/>=]*)(?:\s*=\s*(?:"([^"]*)"?|'([^']*)'?|([^\s>"'][^\s>]*)))?""")
_IN_CONTENT: Final = re.compile(r"""charset\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s;"']+))""", re.IGNORECASE)
_IN_XML: Final = re.compile(r"""<\?xml\s[^>]*?\bencoding\s*=\s*["']([^"']*)["']""")
_NOT_ASCII: Final = re.compile(rb"[\x80-\xff]")
_RUN: Final = re.compile(rb"[\x80-\xff][^<>]{0,%d}" % (_GUESSED_BY - 1))


def text_in(data: bytearray, content_type: str, *, is_marked_up: bool, is_cut: bool, ending: str = "") -> str:
    """Decode a text and remove its control characters. Empties ``data`` in the process.

    The charset is that of a byte order mark, else of ``Content-Type``, else the one that the markup declares in its
    first 1,024 bytes, else UTF-8 if the bytes are valid, else a guess. Undecodable bytes become U+FFFD. Never raises.

    Args:
        data: the bytes.
        content_type: the header's value, or an empty string.
        is_marked_up: whether it is HTML or XML, which may declare its charset itself.
        is_cut: whether the bytes may end within a character.
        ending: ASCII to append to the text; appending it here saves the memory of a second text.
    """
    codec = codec_in(data, content_type, is_marked_up=is_marked_up, is_cut=is_cut)
    if codec == _UTF_8:
        codec = "utf-8"
        if data.startswith(codecs.BOM_UTF8):
            del data[: len(codecs.BOM_UTF8)]
    decoder = codecs.getincrementaldecoder(codec)("replace")
    decoded = bytearray()  # UTF-8, chunk by chunk: a second text with wide characters would take too much memory
    for at in range(0, len(data), _LOOKED_AT):
        decoded += without_controls(decoder.decode(bytes(data[at : at + _LOOKED_AT]))).encode()
    decoded += without_controls(decoder.decode(b"", final=not is_cut)).encode()
    data.clear()
    decoded += ending.encode()
    return decoded.decode()


def codec_in(data: bytearray, content_type: str, *, is_marked_up: bool, is_cut: bool) -> str:
    """Return the codec of a text as ``text_in`` determines it, from the same arguments. Leaves ``data`` unchanged."""
    for mark, codec in _MARKS:
        if data.startswith(mark):
            return codec
    declared = codec_of(content_type, bytes(data[:4]))
    if declared is not None and (declared != _UTF_8 or _may_be_utf8(data, is_cut=is_cut)):
        return declared
    declared = said_inside(bytes(data[:_PRESCAN])) if is_marked_up else None
    if declared is not None and (declared != _UTF_8 or _may_be_utf8(data, is_cut=is_cut)):
        return declared
    return _UTF_8 if _is_utf8(data, is_cut=is_cut) else _guessed(data)


def said_inside(beginning: bytes) -> str | None:
    """Return the codec that HTML or XML declares at its beginning (html.spec.whatwg.org, prescan a byte stream)."""
    for mark, codec in _XML_16:
        if beginning.startswith(mark):
            return codec
    text, at = beginning.decode("latin-1"), 0
    while match := _TAG.search(text, at):
        at = match.end()
        if match[1] is None:
            continue
        attributes: dict[str, str] = {}
        while attribute := _ATTRIBUTE.match(text, at):
            at = attribute.end()
            attributes.setdefault(attribute[1].lower(), attribute[2] or attribute[3] or attribute[4] or "")
        codec = _of_meta(attributes) if match[1].lower() == "meta" else None
        if codec is not None:
            return codec
    declared = _IN_XML.match(text)
    return _possible(declared[1]) if declared else None


def _of_meta(attributes: dict[str, str]) -> str | None:
    if "charset" in attributes:
        return _possible(attributes["charset"])
    if attributes.get("http-equiv", "").lower() != "content-type":
        return None
    match = _IN_CONTENT.search(attributes.get("content", ""))
    return _possible(match[1] or match[2] or match[3] or "") if match else None


def _possible(label: str) -> str | None:
    """Return the codec of a label; never UTF-16, since the label itself was readable as ASCII."""
    codec = codec_named(label)
    return _UTF_8 if codec and codec.startswith(("utf-16", "utf-32")) else codec


def _may_be_utf8(data: bytearray, *, is_cut: bool) -> bool:
    """Whether at least half of the non-ASCII characters are valid UTF-8: one wrong byte does not rule it out."""
    first = _NOT_ASCII.search(data)
    if first is None:
        return True
    end = first.start() + _LOOKED_AT
    sample = bytes(data[first.start() : end])
    text, _ = codecs.utf_8_decode(sample, "replace", end >= len(data) and not is_cut)
    wrong = text.count("\ufffd") - sample.count("\ufffd".encode())
    beyond = len(text) - len(text.encode("ascii", "ignore"))
    return wrong <= beyond - wrong


def _is_utf8(data: bytearray, *, is_cut: bool) -> bool:
    """Whether all bytes are valid UTF-8; checked chunk by chunk, so that the text is not in memory twice."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for at in range(0, len(data), _LOOKED_AT):
            decoder.decode(bytes(data[at : at + _LOOKED_AT]))
        decoder.decode(b"", final=not is_cut)
    except UnicodeDecodeError:
        return False
    return True


def _guessed(data: bytearray) -> str:
    from charset_normalizer import from_bytes

    runs, length = list[bytes](), 0
    for run in _RUN.finditer(data):
        runs.append(_whole_words(run[0]))
        length += len(runs[-1])
        if length >= _GUESSED_BY:
            break
    sample = b"\n".join(runs)
    beyond = len(_NOT_ASCII.findall(sample))
    is_mostly_ascii = beyond < len(sample) / 2  # typical of Latin-based alphabets
    if is_mostly_ascii and beyond < _FEW:
        return _FALLBACK
    left_out = _OF_TWO_BYTES if is_mostly_ascii else frozenset[str]()
    possible = [codec for codec in all_codecs() if not codec.startswith("utf") and codec not in left_out]
    best = from_bytes(sample, cp_isolation=possible).best()
    return best.encoding if best is not None else _FALLBACK


def _whole_words(run: bytes) -> bytes:
    """Shorten a run that was cut off to its last white space, which is certainly not within a character."""
    end = max(run.rfind(b" "), run.rfind(b"\n"))
    return run[:end] if len(run) >= _GUESSED_BY and end > 0 else run
