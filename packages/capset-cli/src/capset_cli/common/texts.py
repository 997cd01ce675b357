"""Untrusted text for a terminal, with control and format characters escaped."""

from __future__ import annotations

import unicodedata
from typing import Final

_HIDDEN: Final = ("Cc", "Cf", "Zl", "Zp")
"""Unicode categories that could move a terminal's cursor or change its display: controls, formats, separators."""


class _Escapes(dict[int, str]):
    """A table for ``str.translate`` that escapes hidden characters. An entry is added when it is first needed."""

    def __missing__(self, code: int) -> str:
        escape = chr(code)
        if escape not in "\n\t" and unicodedata.category(escape) in _HIDDEN:
            escape = f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
        self[code] = escape
        return escape


_ESCAPES: Final = _Escapes()


def visible(text: str) -> str:
    """Return text with control and format characters escaped, except for newlines and tabs."""
    return text.translate(_ESCAPES)


def one_line(text: str) -> str:
    """Return text as ``visible`` does, with newlines escaped, too."""
    return visible(text).replace("\n", "\\n")
