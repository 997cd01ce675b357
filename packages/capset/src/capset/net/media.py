"""Media types and charsets of a ``Content-Type``."""

from __future__ import annotations

import codecs
import re
from functools import cache
from typing import Final

_TYPE: Final = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]{1,127}/[!#$%&'*+.^_`|~0-9a-z-]{1,127}")
_TEXT: Final = re.compile(
    r"text/.*|[^/]+/[^/]+\+(?:json(?:-seq)?|xml|yaml|(?:x-)?ndjson)"
    r"|application/(?:json(?:-seq)?|xml|csv|(?:x-)?(?:javascript|ndjson|json(?:l|lines)|yaml)|ecmascript|toml|sql|graphql"
    r"|x-www-form-urlencoded"
    r"|rtf|typescript|x-(?:httpd-php|latex|perl|python|ruby|sh|subrip|tex))"
)
_CHARSET: Final = re.compile(r';\s*charset\s*=\s*["\']?\s*([^\s;"\']{1,40})', re.IGNORECASE)
UTF_8: Final = "utf-8-sig"
"""The codec of UTF-8, with or without a byte order mark."""
# The Web's encoding labels (encoding.spec.whatwg.org), reduced to letters and digits. As there, Latin 1 means
# windows-1252, and GB 2312 all of GB 18030. Python's other codecs are excluded: they are not charsets, or are slow.
_LABELS: Final = {
    UTF_8: "utf8 unicode11utf8 unicode20utf8",
    "utf-16": "utf16 unicode ucs2 csunicode iso10646ucs2",
    "utf-16-le": "utf16le unicodefeff",
    "utf-16-be": "utf16be unicodefffe",
    "utf-32": "utf32",
    "utf-32-le": "utf32le",
    "utf-32-be": "utf32be",
    "cp1252": "iso88591 iso885911987 latin1 l1 isoir100 csisolatin1 ibm819 cp819 ascii usascii ansix341968",
    "cp1254": "iso88599 iso885991989 latin5 l5 isoir148 csisolatin5",
    "cp866": "ibm866 cp866 866 csibm866",
    "cp874": "windows874 dos874 cp874 tis620 iso885911",
    "iso8859-2": "latin2 l2 isoir101 csisolatin2 iso885921987",
    "iso8859-3": "latin3 l3 isoir109 csisolatin3",
    "iso8859-4": "latin4 l4 isoir110 csisolatin4",
    "iso8859-5": "cyrillic isoir144 csisolatincyrillic",
    "iso8859-6": "arabic asmo708 ecma114 isoir127 csisolatinarabic iso88596e iso88596i",
    "iso8859-7": "greek greek8 ecma118 elot928 isoir126 csisolatingreek suneugreek iso885971987",
    "iso8859-8": "hebrew visual logical isoir138 csisolatinhebrew iso88598e iso88598i",
    "iso8859-10": "latin6 l6 isoir157 csisolatin6",
    "iso8859-15": "latin9 l9 csisolatin9",
    "koi8-r": "koi8r koi8 koi cskoi8r",
    "koi8-u": "koi8u koi8ru",
    "mac_roman": "macintosh mac xmacroman csmacintosh",
    "mac_cyrillic": "xmaccyrillic xmacukrainian",
    "cp932": "shiftjis xsjis sjis mskanji windows31j ms932 csshiftjis",
    "euc_jp": "eucjp xeucjp cseucpkdfmtjapanese",
    "iso2022_jp": "iso2022jp csiso2022jp",
    "iso2022_kr": "iso2022kr",
    "cp949": "euckr cseuckr korean ksc56011987 ksc56011989 ksc5601 windows949 cp949 isoir149",
    "gb18030": "gb18030 gbk xgbk gb2312 gb231280 csgb2312 chinese csiso58gb231280 isoir58 cp936",
    "big5hkscs": "big5 big5hkscs cnbig5 csbig5 xxbig5 cp950",
}


def media_type_of(content_type: str) -> str:
    """Return the type and subtype of a ``Content-Type`` in lower case, or an empty string if it has none."""
    media_type = content_type.partition(";")[0].strip().lower()
    return media_type if _TYPE.fullmatch(media_type) else ""


def describe_media_type(media_type: str) -> str:
    """Return a phrase for a media type, which may be an empty string, for use in messages."""
    return f"of the type {media_type}" if media_type else "of no known type"


def is_text(media_type: str) -> bool:
    """Whether a media type, in lower case, is a text type."""
    return _TEXT.fullmatch(media_type) is not None


def codec_named(label: str) -> str | None:
    """Return Python's codec for one of the Web's charset labels, or ``None`` if the label is unknown."""
    return _codecs().get(re.sub("[^a-z0-9]", "", label[:40].lower()))


def codec_of(content_type: str, beginning: bytes = b"") -> str | None:
    """Return the codec for the ``charset`` of a ``Content-Type``, if it has a known one.

    For UTF-16 and UTF-32, the ``beginning`` of the text determines the byte order: without a byte order mark, it is
    little-endian.
    """
    charset = _CHARSET.search(content_type)
    codec = codec_named(charset[1]) if charset else None
    if codec in ("utf-16", "utf-32") and not beginning.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")):
        return f"{codec}-le"
    return codec


def decode(data: bytearray, codec: str, *, is_cut: bool) -> str:
    """Decode bytes to text, with U+FFFD for invalid ones. ``data`` is emptied in the process.

    Decodes in pieces: a single call would block all other threads, for seconds if most of the data is invalid.
    ``is_cut`` is whether the bytes may end within a character.
    """
    decoder, pieces = codecs.getincrementaldecoder(codec)("replace"), list[str]()
    size = 65_536  # bytes
    while data:
        pieces.append(decoder.decode(bytes(data[:size])))
        del data[:size]
    if not is_cut:
        pieces.append(decoder.decode(b"", final=True))
    return "".join(pieces)


def all_codecs() -> tuple[str, ...]:
    """Return the codecs that ``codec_named`` can return."""
    return tuple(dict.fromkeys(_codecs().values()))


@cache
def _codecs() -> dict[str, str]:
    by_label = {label: codec for codec, labels in _LABELS.items() for label in labels.split()}
    by_label |= {f"iso8859{part}": f"iso8859-{part}" for part in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)}
    by_label |= {f"{maker}{page}": f"cp{page}" for page in range(1250, 1259) for maker in ("windows", "cp", "xcp")}
    return by_label
