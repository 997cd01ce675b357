"""Names of others as names that models take for tools, by rules that can be followed back (spec 8, W20)."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from capset.definitions.names import TOOL
from capset.errors import DefinitionError

_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]")
_MAX: Final = 64
_DIGITS: Final = 8


def names_here(originals: Iterable[str]) -> Mapping[str, str]:
    """Return each original name by its name here, in order.

    A name that models take stays as it is. Of any other, each character that they do not take is ``_`` here. A name
    that would be longer than 64, that says nothing any more, or that two would have ends in ``_`` and eight digits of
    the SHA-256 of the original. So a name does not depend on the order of the others.

    Raises ``DefinitionError`` for two equal originals, and for two names that are one in spite of their digits.
    """
    given = list(originals)
    for name, count in Counter(given).items():
        if count > 1:
            raise DefinitionError(f"{count} tools are called {name!r:.80}: give each a name of its own")
    plain = {name: _OTHER.sub("_", name) for name in given}
    counts = Counter(plain.values())
    found: dict[str, str] = {}
    for name in given:
        here = name if TOOL.fullmatch(name) else plain[name]
        is_clear = here == name or (counts[here] == 1 and len(here) <= _MAX and bool(here.strip("_-")))
        here = here if is_clear else _marked(here, name)
        if here in found:
            raise DefinitionError(f"{name!r:.80} and {found[here]!r:.80} would both be called {here!r}: rename one")
        found[here] = name
    return MappingProxyType(found)


def _marked(here: str, original: str) -> str:
    """Return a name that ends in digits of the original's hash."""
    digits = hashlib.sha256(original.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    start = here[: _MAX - _DIGITS - 1].strip("_-") or "tool"
    return f"{start}_{digits}"
