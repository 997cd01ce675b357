"""Control characters: no text needs them, and a terminal or a model may be led astray by them."""

from __future__ import annotations

import re
from typing import Final

_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def without_controls(text: str) -> str:
    """Return a text without the control characters of C0 and C1, but for tabs and line ends."""
    return _CONTROLS.sub("", text) if _CONTROLS.search(text) else text
