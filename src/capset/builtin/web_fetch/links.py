"""Absolute addresses for the links of a page."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

MAX_ADDRESS: Final = 2_048
"""Maximum characters of an address; a longer one is left out, and its text stays."""

_SCHEME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*+:")
_OPENED: Final = frozenset({"http", "https", "mailto", "tel"})
_SHOWN: Final = frozenset({"http", "https"})
_UNSAFE: Final = re.compile(r"[^!#$%&'*+,\-./0-9:;=?@A-Z_a-z~]")
_SAFE: Final = re.compile(r"[A-Za-z0-9\-._~:/?#@!$&'*+,;=%]++")
_WHOLE: Final = re.compile(r"https?://[A-Za-z0-9]")
_LINE_ENDS: Final = re.compile(r"[\t\n\r]")
_CONTROLS: Final = "".join(map(chr, range(33)))


class PageLinks:
    """Makes addresses absolute, based on that of the page, or on its first ``<base>``."""

    def __init__(self, page: str) -> None:
        self._based = False
        self._set(page)

    def rebase(self, href: str) -> None:
        """Apply the ``href`` of a ``<base>``; only the first valid one counts."""
        if not self._based and (base := self.resource(href)) is not None:
            self._based = True
            self._set(base)

    def link(self, href: str) -> str | None:
        """Return the target of a link; ``None`` for ``javascript:``, ``data:`` and others that cannot be visited."""
        return self._absolute(href, _OPENED)

    def resource(self, src: str) -> str | None:
        """Return the address of an image; ``None`` unless it is http or https."""
        return self._absolute(src, _SHOWN) if src else None

    def _set(self, base: str) -> None:
        self._base, self._page = base, base.partition("#")[0]
        parts = urlsplit(base)
        self._origin = f"{parts.scheme}://{parts.netloc}"

    def _absolute(self, raw: str, schemes: frozenset[str]) -> str | None:
        if len(raw) > MAX_ADDRESS:
            return None
        if _SAFE.fullmatch(raw) and "/." not in raw:  # already normal; urljoin would take a while to find that out
            if raw[0] == "/" and not raw.startswith("//"):
                return self._origin + raw
            if raw[0] == "#":
                return self._page + raw
            if _WHOLE.match(raw):
                return raw
        # Browsers drop line ends and tabs before they look for the scheme.
        text = _LINE_ENDS.sub("", raw).strip(_CONTROLS)
        try:
            whole = text if _SCHEME.match(text) else urljoin(self._base, text.replace("\\", "/"))
            parts = urlsplit(whole)
        except ValueError:
            return None
        if parts.scheme not in schemes or (parts.scheme in _SHOWN and not parts.netloc):
            return None
        return _UNSAFE.sub(lambda found: quote(found[0], safe="", errors="replace"), whole)
