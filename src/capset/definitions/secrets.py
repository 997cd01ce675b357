"""Secrets: their source, and the names whose values are never recorded (spec 4, G20)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Protocol


class Secrets(Protocol):
    """A source of secrets by name. Its values are never hashed, stored or logged."""

    async def get(self, name: str) -> str | None:
        """Return a secret, or ``None`` if none has this name."""
        ...


MASK: Final = "[redacted]"
"""Replaces a secret."""
SECRET_NAMES: Final = frozenset(
    {"authorization", "bearer", "cookie", "credential", "passphrase", "passwd", "password", "pwd", "secret"}
)
"""A value is a secret if a word of its name is one of these or its plural; ``is_secret_name`` has the whole rule."""
_OWNERS: Final = frozenset(
    {"access", "api", "auth", "client", "encryption", "private", "refresh", "secret", "session", "signing"}
)
_JOINED: Final = frozenset({"accesskey", "accesstoken", "apikey", "authtoken", "privatekey", "secretkey"})
_MEASURES: Final = frozenset(
    {"budget", "count", "length", "limit", "max", "maximum", "min", "minimum", "total", "usage"}
)
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
"""A word of a name in any usual style: ``apiKey``, ``api-key``, ``X-API-Key``, ``OPENAI_API_KEY``."""


@lru_cache(4096)
def is_secret_name(name: str) -> bool:
    """Whether the words of a name are those of a secret, in the singular or the plural.

    One of ``SECRET_NAMES`` always is, and so is a name that ends in ``auth``. A ``token`` is one; ``tokens`` and keys
    are only with the word of an owner, such as ``api_keys``, since models count tokens and mappings have keys. If a
    name is a count (``max_tokens``, ``page_token_limit``), neither is one.
    """
    words = [word.lower() for word in _WORD.findall(name)]
    singulars = {word.removesuffix("s") for word in words}
    if not singulars.isdisjoint(SECRET_NAMES) or words[-1:] == ["auth"]:
        return True
    if not _MEASURES.isdisjoint(words):
        return False
    is_owned = not _OWNERS.isdisjoint(words) and not singulars.isdisjoint({"key", "token"})
    return is_owned or "token" in words or not singulars.isdisjoint(_JOINED)
