"""Transport sessions that are kept nowhere: an id that proves by itself whose it is."""

from __future__ import annotations

import hmac
import secrets
from hashlib import sha256


class Tickets:
    """Makes and checks ``Mcp-Session-Id``: a random number, and a keyed hash of it and of its owner."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes | None = None) -> None:
        if key is not None and len(key) < 32:
            raise ValueError(f"a key has at least 32 bytes; got {len(key)}")
        self._key = secrets.token_bytes(32) if key is None else key

    def issue(self, identity: str) -> str:
        """Return a new id, for this identity alone."""
        number = secrets.token_hex(16)
        return f"{number}.{self._seal(number, identity)}"

    def is_of(self, ticket: str, identity: str) -> bool:
        """Return whether an id was issued to this identity."""
        number, _, seal = ticket.partition(".")
        return hmac.compare_digest(seal.encode(), self._seal(number, identity).encode())

    def _seal(self, number: str, identity: str) -> str:
        text = f"{number} {identity}".encode(errors="surrogatepass")
        return hmac.digest(self._key, text, sha256).hex()
