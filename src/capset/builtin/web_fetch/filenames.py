"""What a file would be called: by ``Content-Disposition`` (RFC 6266, RFC 8187), or by its URL."""

from __future__ import annotations

import re
import unicodedata
from typing import Final
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from capset.ext import codec_named

MAX_BYTES: Final = 255
"""How long a name may be in UTF-8, as on most file systems."""
_PARAMETER: Final = re.compile(r';\s*([^\s;="]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"?|([^;]*))', re.DOTALL)
_EXTENDED: Final = re.compile(r"([^']{1,40})'[^']*'(.*)", re.DOTALL)
_FILE: Final = re.compile(r".*[^.]\.(?=[A-Za-z0-9]*[A-Za-z])[A-Za-z0-9]{1,10}", re.DOTALL)
# Control characters and invisible ones, which make a name look like another; surrogates, and ends of lines.
_INVISIBLE: Final = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))


def filename_of(disposition: str, url: str) -> str | None:
    """Return the name that the header gives, ``filename*`` first, else the URL's last segment if it looks like one.

    It is one segment of a path, without control characters, of 255 bytes at most.
    """
    return _said(disposition) or _of_path(urlsplit(url).path)


def _said(disposition: str) -> str | None:
    given: dict[str, str] = {}
    for name, quoted, bare in _PARAMETER.findall(disposition):
        given.setdefault(name.lower(), re.sub(r"\\(.)", r"\1", quoted) if quoted else bare.strip())
    extended = _extended(given.get("filename*", ""))
    return (extended and _segment(extended)) or _segment(_plain(given.get("filename", "")))


def _extended(value: str) -> str | None:
    match = _EXTENDED.fullmatch(value)
    codec = codec_named(match[1]) if match else None
    if match is None or codec is None:
        return None
    try:
        return unquote_to_bytes(match[2]).decode(codec)
    except UnicodeError:
        return None


def _plain(value: str) -> str:
    """Read what many servers write: UTF-8 as it is, where a header should be ASCII."""
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        return value


def _of_path(path: str) -> str | None:
    name = _segment(unquote(path.rpartition("/")[2]))
    return name if name and _FILE.fullmatch(name) else None


def _segment(name: str) -> str | None:
    visible = "".join(one for one in name if unicodedata.category(one) not in _INVISIBLE)
    last = re.split(r"[/\\]", visible.strip())[-1].strip()
    short = last.encode()[:MAX_BYTES].decode(errors="ignore").strip()
    return short if short.strip(". ") else None
