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
    that would be longer than 64, that has no letters or digits left, or that two would have ends in ``_`` and eight
    digits of the SHA-256 of the original. So a name does not depend on the order of the others.

    Raises ``DefinitionError`` for two equal originals, and for two names that are one in spite of their digits.
    """
    given = list(originals)
    for name, count in Counter(given).items():
        if count > 1:
            raise DefinitionError(f"{count} tools are called {name!r:.80}: give each a name of its own")
    found, clashes = distinct_names(given)
    for reason in clashes.values():
        raise DefinitionError(reason)
    return MappingProxyType({here: name for name, here in found.items()})


def distinct_names(originals: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the names here by their originals, and of those that could only have another's name the reason.

    The originals differ. Of two that are one in spite of their digits, only an original that is that name has it.
    """
    plain = {name: _OTHER.sub("_", name) for name in originals}
    counts = Counter(plain.values())
    by_name: dict[str, list[str]] = {}
    for name, here in plain.items():
        is_taken = TOOL.fullmatch(name) is not None
        is_clear = is_taken or (counts[here] == 1 and len(here) <= _MAX and bool(here.strip("_-")))
        by_name.setdefault(here if is_clear else _marked(here, name), []).append(name)
    found: dict[str, str] = {}
    clashes: dict[str, str] = {}
    for name, here in ((name, here) for here, names in by_name.items() for name in names):
        others = [one for one in by_name[here] if one != name]
        if others and name != here:
            clashes[name] = f"{name!r:.80} and {others[0]!r:.80} would both be called {here!r}: rename one"
        else:
            found[name] = here
    order = {name: at for at, name in enumerate(plain)}
    return dict(sorted(found.items(), key=lambda item: order[item[0]])), clashes


def _marked(here: str, original: str) -> str:
    """Return a name that ends in digits of the original's hash."""
    digits = hashlib.sha256(original.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    start = here[: _MAX - _DIGITS - 1].strip("_-") or "tool"
    return f"{start}_{digits}"
