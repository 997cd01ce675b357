"""Control characters: no text needs them, and a terminal or a model may be led astray by them."""

from __future__ import annotations

import re
from typing import Final

_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_IN_BYTES: Final = bytes(one for one in (*range(0x20), 0x7F) if one not in b"\t\n\r") + b"\xc2"
"""What UTF-8 has of them; C1, and some letters, begin with the last."""


def without_controls(text: str) -> str:
    """Return a text without the control characters of C0 and C1, but for tabs and line ends."""
    data = text.encode(errors="replace")
    if len(data) == len(data.translate(None, _IN_BYTES)):  # quicker than the expression, and mostly so
        return text
    return _CONTROLS.sub("", text) if _CONTROLS.search(text) else text
