"""Names of arguments: derived from parameters, accepted by models, distinct and stable (spec 7, M105)."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection
from typing import Final

from capset_connect.openapi.paths import Key

BODY: Final = "body"
"""The argument that is the whole body of a request."""
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_MAX_NAME: Final = 64
_DIGITS: Final = 8


def argument_names(parameters: Collection[Key], *, has_body: bool) -> dict[Key, str]:
    """Return the argument name of each parameter: its own, with ``_`` for characters that model providers refuse.

    Parameters of the same name in several places are prefixed with the place: ``path_id`` and ``query_id``. A name that
    would be empty, too long, or equal to another one ends with a part of its hash: beside ``ids``, ``ids[]`` becomes
    ``ids_6e89b5f4``. No name depends on the order of the parameters.
    """
    sources: dict[str, set[str]] = {}
    for _, name in parameters:
        sources.setdefault(_clean(name), set()).add(name)
    names: dict[Key, str] = {}
    for where, name in parameters:
        clean = _clean(name)
        is_own = bool(clean) and (clean == name or len(sources[clean]) == 1)
        names[where, name] = clean if is_own else _hashed(clean or where, name)
    count = Counter([*names.values(), *([BODY] if has_body else [])])
    names = {key: name if count[name] == 1 else f"{key[0]}_{name}" for key, name in names.items()}
    count = Counter(names.values())
    return {
        key: name if len(name) <= _MAX_NAME and (count[name] == 1 or name == key[1]) else _hashed(name, " ".join(key))
        for key, name in names.items()
    }


def is_recognisable(argument: str, parameter: Key) -> bool:
    """Whether the name of an argument is that of its parameter, apart from replaced characters and the place."""
    where, name = parameter
    return argument in (_clean(name), f"{where}_{_clean(name)}")


def _clean(name: str) -> str:
    clean = _NO_NAME.sub("_", name)
    return clean if clean == name else clean.strip("_")


def _hashed(name: str, source: str) -> str:
    digits = hashlib.sha256(source.encode(errors="surrogatepass")).hexdigest()[:_DIGITS]
    return f"{name[: _MAX_NAME - _DIGITS - 1]}_{digits}"
