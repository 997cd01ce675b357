"""Text with NUL, which PostgreSQL cannot store: it is escaped when stored, and returned unchanged.

The audit log stores any text (spec 4, G11), and SQLite stores NUL. The escape character is SUBSTITUTE (U+001A), which
few texts contain. It is itself escaped, so that different texts stay different.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

SUBSTITUTE: Final = "\x1a"
_ESCAPED: Final = {SUBSTITUTE: SUBSTITUTE + "1", "\0": SUBSTITUTE + "0"}
_UNESCAPED: Final = {escape: text for text, escape in _ESCAPED.items()}
_TO_ESCAPE: Final = re.compile("[\0\x1a]")
_ESCAPE: Final = re.compile("\x1a(.?)", re.DOTALL)


def escaped(text: str) -> str:
    """Escape a text so that PostgreSQL can store it."""
    return _TO_ESCAPE.sub(lambda match: _ESCAPED[match[0]], text) if "\0" in text or SUBSTITUTE in text else text


def unescaped(text: str) -> str | bytes:
    """Return the original of an ``escaped`` text. Text with an invalid escape becomes bytes, so that it is noticed."""
    if SUBSTITUTE not in text:
        return text
    try:
        return _ESCAPE.sub(lambda match: _UNESCAPED[match[0]], text)
    except KeyError:
        return text.encode()


def adapt(raw: Any) -> None:
    """Make a psycopg connection store any text, including NUL, and return it unchanged."""
    dumper, loader = _adapters()
    raw.adapters.register_dumper(str, dumper)
    raw.adapters.register_loader("text", loader)


@cache
def _adapters() -> tuple[type, type]:
    from psycopg.adapt import Dumper, Loader

    class TextDumper(Dumper):
        """Sends text without a type, as psycopg does by default: the server infers the type."""

        def dump(self, obj: str) -> bytes:
            return escaped(obj).encode()

    class TextLoader(Loader):
        def load(self, data: bytes | bytearray | memoryview) -> str | bytes:
            return unescaped(str(data, "utf-8"))

    return TextDumper, TextLoader
