"""The keys of checkpoints: Ed25519 by ``cryptography``, which is loaded only to sign or to check."""

from __future__ import annotations

import base64
import hashlib
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from capset.errors import DefinitionError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_HINT: Final = "capset audit keygen makes a pair of them"
_LARGEST: Final = 10_000
"""The largest size of a file that may still hold a key, in bytes."""


class PublicKey:
    """The half of a key that checks signatures, and that may be public."""

    def __init__(self, key: Ed25519PublicKey) -> None:
        self._key = key

    @classmethod
    def load(cls, text: str) -> Self:
        """Load a key from PEM text, or from the base64 text of its 32 bytes.

        Raises ``DefinitionError`` for anything else; it does not repeat the text.
        """
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        if "PRIVATE KEY" in text:
            raise DefinitionError("a public key was expected; this is a private one", hint="keep it to yourself")
        if "-----BEGIN" not in text:
            return cls(Ed25519PublicKey.from_public_bytes(_raw("public", text)))
        key = _parsed(load_pem_public_key, text)
        if not isinstance(key, Ed25519PublicKey):
            raise DefinitionError("a public key must be one of Ed25519, as PEM or in base64", hint=_HINT)
        return cls(key)

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Load a key from a file. Raises ``DefinitionError`` as ``load`` does, and ``OSError``."""
        return cls.load(_text(path))

    @cached_property
    def id(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of the key's bytes; part of every checkpoint."""
        return hashlib.sha256(self._key.public_bytes_raw()).hexdigest()[:16]

    def pem(self) -> str:
        """Return the key as PEM text (SubjectPublicKeyInfo)."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return self._key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    def holds(self, signature: str, data: bytes) -> bool:
        """Whether a base64 signature of these bytes was made with this key."""
        from cryptography.exceptions import InvalidSignature

        try:
            self._key.verify(base64.b64decode(signature, validate=True), data)
        except (InvalidSignature, ValueError):
            return False
        return True


class CheckpointKey:
    """The private half, which signs checkpoints. With it and the database, anyone can forge the whole log."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @classmethod
    def generate(cls) -> Self:
        """Generate a new key."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, text: str) -> Self:
        """Load a key from PEM text (PKCS #8), or from the base64 text of its 32 bytes.

        Raises ``DefinitionError`` for anything else; it does not repeat the text.
        """
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        if "PUBLIC KEY" in text:
            raise DefinitionError("a private key was expected; this is a public one", hint=_HINT)
        if "-----BEGIN" not in text:
            return cls(Ed25519PrivateKey.from_private_bytes(_raw("private", text)))
        key = _parsed(partial(load_pem_private_key, password=None), text)
        if not isinstance(key, Ed25519PrivateKey):
            raise DefinitionError("a private key must be one of Ed25519, as PEM or in base64", hint=_HINT)
        return cls(key)

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Load a key from a file. Raises ``DefinitionError`` as ``load`` does, and ``OSError``."""
        return cls.load(_text(path))

    @cached_property
    def public(self) -> PublicKey:
        """The public half."""
        return PublicKey(self._key.public_key())

    def pem(self) -> str:
        """Return the key as PEM text (PKCS #8), without a password."""
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

    def sign(self, data: bytes) -> str:
        """Return the signature of these bytes, in base64."""
        return base64.b64encode(self._key.sign(data)).decode()


def _raw(half: str, text: str) -> bytes:
    try:
        raw = base64.b64decode(text.strip(), validate=True)
    except ValueError:
        raw = b""
    if len(raw) != 32:
        raise DefinitionError(f"a {half} key must be PEM, or 32 bytes in base64", hint=_HINT)
    return raw


def _parsed(load: Any, text: str) -> object:  # a loader from cryptography, which is not imported here
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        return load(text.encode())
    except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: it is encrypted
        raise DefinitionError("the key cannot be read: it is damaged, or needs a password", hint=_HINT) from None


def _text(path: str | Path) -> str:
    with Path(path).open("rb") as file:
        data = file.read(_LARGEST)
    try:
        return data.decode("ascii")
    except UnicodeDecodeError:
        raise DefinitionError(f"there is no key in {str(path)!r}", hint=_HINT) from None
