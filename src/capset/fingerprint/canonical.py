"""Canonical JSON: RFC 8785 (JCS), with a written form for integers that JSON readers would round (spec 2, F1).

Profile ``jcs-1``: keys sorted by their UTF-16 code units, no white space, strings escaped as in RFC 8785 §3.2.2.2,
numbers written as ECMAScript does. An integer beyond ±2^53 is written ``{"$int": "…"}``.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from capset.fingerprint.shortcut import encoded
from capset.fingerprint.walk import Refused, written

PROFILE: Final = "jcs-1"
"""The name of these rules, stored beside every hash (spec 2, F2)."""


class NotCanonical(ValueError):
    """A value has no canonical form. ``path`` says where it stands, such as ``$.tools[2].name``."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path


def canonical(value: Any) -> bytes:
    """Return the canonical UTF-8 bytes of plain JSON data (mappings, lists, tuples, text, numbers, booleans, None).

    Raises ``NotCanonical`` for NaN, infinities, keys that are not text, lone surrogates, cycles and anything else.
    """
    # Always the walk's bytes: the shortcut only spares the walk where it is not needed.
    data = encoded(value)
    return walked(value) if data is None else data


def walked(value: Any) -> bytes:
    """Return what ``canonical`` does, without the shortcut."""
    try:
        return written(value).encode()
    except Refused as refused:
        raise NotCanonical("$" + "".join(reversed(refused.steps)), str(refused)) from None
    except UnicodeEncodeError:
        raise NotCanonical("$", "text holds a lone surrogate, which has no UTF-8") from None
    except RecursionError:
        raise NotCanonical("$", "nested too deeply, or a cycle") from None


def digest(payload: Any) -> str:
    """Return the lower-case hexadecimal SHA-256 of a payload's canonical bytes."""
    return hashlib.sha256(canonical(payload)).hexdigest()
