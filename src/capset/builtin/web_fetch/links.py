"""The addresses of a page, made absolute."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

MAX_ADDRESS: Final = 2_048
"""A longer address is left out, and its text stays: in characters."""

_SCHEME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*+:")
_OPENED: Final = frozenset({"http", "https", "mailto", "tel"})
_SHOWN: Final = frozenset({"http", "https"})
_UNSAFE: Final = re.compile(r"[^!#$%&'*+,\-./0-9:;=?@A-Z_a-z~]")
_LINE_ENDS: Final = re.compile(r"[\t\n\r]")
_CONTROLS: Final = "".join(map(chr, range(33)))


class Links:
    """Makes addresses absolute against that of the page, or against what its first ``<base>`` says."""

    def __init__(self, page: str) -> None:
        self._base = page
        self._based = False

    def rebase(self, href: str) -> None:
        """Take the ``href`` of a ``<base>``; only the first that is one counts."""
        if not self._based and (base := self.resource(href)) is not None:
            self._base, self._based = base, True

    def link(self, href: str) -> str | None:
        """Return where a link goes; None for ``javascript:``, ``data:`` and whatever else is no place to go to."""
        return self._absolute(href, _OPENED)

    def resource(self, src: str) -> str | None:
        """Return where an image lies; None unless that is http or https."""
        return self._absolute(src, _SHOWN) if src else None

    def _absolute(self, raw: str, schemes: frozenset[str]) -> str | None:
        if len(raw) > MAX_ADDRESS:
            return None
        # A browser drops line ends and tabs before it looks for the scheme.
        text = _LINE_ENDS.sub("", raw).strip(_CONTROLS)
        try:
            whole = text if _SCHEME.match(text) else urljoin(self._base, text.replace("\\", "/"))
            parts = urlsplit(whole)
        except ValueError:
            return None
        if parts.scheme not in schemes or (parts.scheme in _SHOWN and not parts.netloc):
            return None
        return _UNSAFE.sub(lambda found: quote(found[0], safe="", errors="replace"), whole)
