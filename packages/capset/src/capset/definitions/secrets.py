"""Secrets: their source, the names whose values are never recorded, and secrets in URLs (spec 4, G20)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Protocol
from urllib.parse import unquote_plus


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
"""A value is a secret if a word of its name is one of these or its plural; ``is_secret_name`` has the full rule."""
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
    """Whether a name is that of a secret, in the singular or the plural.

    A name with a word of ``SECRET_NAMES`` always is, and so is one that ends in ``auth``. ``token`` counts by itself;
    ``tokens`` and keys only together with an owner, as in ``api_keys``, since models count tokens and mappings have
    keys. Neither counts in the name of a measure (``max_tokens``, ``page_token_limit``).
    """
    words = [word.lower() for word in _WORD.findall(name)]
    singulars = {word.removesuffix("s") for word in words}
    if not singulars.isdisjoint(SECRET_NAMES) or words[-1:] == ["auth"]:
        return True
    if not _MEASURES.isdisjoint(words):
        return False
    is_owned = not _OWNERS.isdisjoint(words) and not singulars.isdisjoint({"key", "token"})
    return is_owned or "token" in words or not singulars.isdisjoint(_JOINED)


_CHUNK: Final = re.compile(r'[^\s"<>]+')
"""A run of characters that may contain a URL."""
# A secret in a URL ends where a shell, SQL or code could continue, so that nothing executable is masked.
_USER: Final = re.compile(r"//([^/?#\\;'`$(){}|]*)(?:@|(?=[;'`$(){}|][^/?#\\]*@))")
_PARAMETER: Final = re.compile(r"[?&;#]([^=?&;#\s]{1,100})=")
_VALUE: Final = re.compile(r"[^&#;'`\\$(){}|*,]*")
_IN_QUERIES: Final = frozenset({"jwt", "key", "pass", "sig", "signature"})
"""Words that name a secret only in a query, where APIs have their keys and signed URLs their signatures."""


def mask_urls(text: str) -> str:
    """Mask the secrets in the URLs of a text.

    These are user names and passwords, and the values of parameters with secret names in the query and the fragment. A
    user name without a password stays in URLs of other schemes than http and https, where it is usual. A secret ends at
    the first character that a shell, SQL or code could interpret, such as a quote, a bracket or a semicolon; the rest
    stays legible.
    """
    if "//" not in text and not text.startswith("/"):
        return text
    return _CHUNK.sub(_masked_chunk, text)


def _masked_chunk(match: re.Match[str]) -> str:
    chunk = match[0]
    if "//" not in chunk and not chunk.startswith("/"):
        return chunk
    chunk = _USER.sub(_masked_user, chunk) if "@" in chunk else chunk
    parts, at = list[str](), 0
    while name := _PARAMETER.search(chunk, at):
        parts.append(chunk[at : name.end()])
        at = name.end()
        if _is_secret_in_query(name[1]):
            parts.append(MASK)
            at = _VALUE.match(chunk, at).end()  # pyright: ignore[reportOptionalMemberAccess]  # it matches anything
    return "".join([*parts, chunk[at:]])


def _masked_user(match: re.Match[str]) -> str:
    scheme = match.string[max(match.start() - 6, 0) : match.start()].lower()
    is_plain = ":" not in match[1] and scheme.endswith(":") and not scheme.endswith(("http:", "https:"))
    if is_plain:
        return match[0]
    if match[0].endswith("@"):
        return f"//{MASK}@"
    return f"//{MASK}" if match[1] and MASK not in match[1] else match[0]  # masked already, as the value of a parameter


def _is_secret_in_query(name: str) -> bool:
    words = _WORD.findall(decoded := unquote_plus(name))
    return is_secret_name(decoded) or not _IN_QUERIES.isdisjoint(word.lower() for word in words)
