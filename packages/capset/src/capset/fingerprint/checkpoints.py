"""Checkpoints: signed statements of the chain's progress, each following the previous one (spec 4, G21).

Keys are Ed25519 keys of ``cryptography`` (extra ``signing``), which is imported only to sign or to verify.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from capset.errors import DefinitionError
from capset.extras import install_command
from capset.fingerprint.canonical import NotCanonical, canonical, digest

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey


_HINT: Final = "capset audit keygen FILE generates a key pair"
K = TypeVar("K")

GENESIS: Final = "0" * 64
"""The ``previous`` of the first link of a chain."""


class PublicKey:
    """The public half of a key, which verifies signatures."""

    def __init__(self, key: Ed25519PublicKey) -> None:
        self._key = key

    @classmethod
    def load(cls, text: str) -> Self:
        """Load a key from PEM text, or from the base64 text of its 32 bytes.

        Raises ``DefinitionError`` for anything else, without quoting the text, or if the extra ``signing`` is missing.
        """
        _require_cryptography()
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        if "PRIVATE KEY" in text:
            raise DefinitionError("a public key was expected; this is a private one", hint="keep private keys secret")
        return cls(_load("public", text, Ed25519PublicKey, Ed25519PublicKey.from_public_bytes, load_pem_public_key))

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Load a key from a file. Raises ``DefinitionError`` as ``load`` does, and ``OSError``."""
        return cls.load(_read_text(path))

    @cached_property
    def id(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of the key's bytes; part of every checkpoint."""
        return hashlib.sha256(self._key.public_bytes_raw()).hexdigest()[:16]

    def pem(self) -> str:
        """Return the key as PEM text (SubjectPublicKeyInfo)."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return self._key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    def verifies(self, signature: str, data: bytes) -> bool:
        """Whether a base64 signature of these bytes was made with this key."""
        from cryptography.exceptions import InvalidSignature

        try:
            self._key.verify(base64.b64decode(signature, validate=True), data)
        except (InvalidSignature, ValueError):
            return False
        return True


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """A key, trusted for checkpoints that end at records ``since`` to ``until``, or up to the end of the log."""

    key: PublicKey
    since: int = 1
    until: int | None = None

    def covers(self, seq: int) -> bool:
        """Whether a checkpoint of this key may end at a record."""
        return self.since <= seq and (self.until is None or seq <= self.until)


class CheckpointKey:
    """The private half, which signs checkpoints. With it and the database, anyone can forge the whole log."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @classmethod
    def generate(cls) -> Self:
        """Generate a new key. Raises ``DefinitionError`` if the extra ``signing`` is missing."""
        _require_cryptography()
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, text: str) -> Self:
        """Load a key from PEM text (PKCS #8), or from the base64 text of its 32 bytes.

        Raises ``DefinitionError`` for anything else, without quoting the text, or if the extra ``signing`` is missing.
        """
        _require_cryptography()
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        if "PUBLIC KEY" in text:
            raise DefinitionError("a private key was expected; this is a public one", hint=_HINT)
        load_pem = partial(load_pem_private_key, password=None)
        return cls(_load("private", text, Ed25519PrivateKey, Ed25519PrivateKey.from_private_bytes, load_pem))

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Load a key from a file. Raises ``DefinitionError`` as ``load`` does, and ``OSError``."""
        return cls.load(_read_text(path))

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


def _require_cryptography() -> None:
    try:
        import_module("cryptography")
    except ModuleNotFoundError as missing:
        raise DefinitionError(
            "checkpoint keys need the package cryptography", hint=install_command("signing")
        ) from missing


def _load(
    half: str, text: str, kind: type[K], load_raw: Callable[[bytes], K], load_pem: Callable[[bytes], object]
) -> K:
    """Load a key with the loaders of cryptography, which only the methods above import."""
    from cryptography.exceptions import UnsupportedAlgorithm

    if "-----BEGIN" not in text:
        try:
            raw = base64.b64decode(text.strip(), validate=True)
        except ValueError:
            raw = b""
        if len(raw) != 32:
            raise DefinitionError(f"a {half} key must be PEM, or 32 bytes in base64", hint=_HINT)
        return load_raw(raw)
    try:
        key = load_pem(text.encode())
    except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: it is encrypted
        raise DefinitionError("the key cannot be read: it is damaged, or needs a password", hint=_HINT) from None
    if not isinstance(key, kind):
        raise DefinitionError(f"a {half} key must be an Ed25519 key, as PEM or in base64", hint=_HINT)
    return key


def _read_text(path: str | Path) -> str:
    with Path(path).open("rb") as file:
        data = file.read(10_000)  # bytes; a key is shorter
    try:
        return data.decode("ascii")
    except UnicodeDecodeError:
        raise DefinitionError(f"there is no key in {str(path)!r}", hint=_HINT) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A signed statement: at ``time`` (ISO 8601 UTC) the log ran from record ``since`` to ``seq``, which had ``hash``.

    ``number`` counts checkpoints from 1, ``previous`` is the SHA-256 of the previous one. ``key`` is the id of the key,
    ``signature`` its Ed25519 signature, in base64, of the canonical bytes of all other columns.
    """

    number: int
    seq: int
    hash: str
    since: int
    time: str
    previous: str
    key: str
    signature: str


CHECKPOINT_COLUMNS: Final = tuple(Checkpoint.__slots__)
"""The column names, in order."""
_NUMBERS: Final = frozenset({"number", "seq", "since"})


class VerificationError(ValueError):
    """A verification failed. The message gives the problem, ``seq`` the first affected record."""

    def __init__(self, problem: str, seq: int | None = None) -> None:
        super().__init__(problem)
        self.seq = seq


def sign_checkpoint(
    key: CheckpointKey, before: Checkpoint | None, *, seq: int, hash: str, since: int, now: str
) -> Checkpoint:
    """Return the signed checkpoint that follows ``before``."""
    columns: dict[str, Any] = {
        "number": before.number + 1 if before else 1,
        "seq": seq,
        "hash": hash,
        "since": since,
        "time": now,
        "previous": digest_of(before) if before else GENESIS,
        "key": key.public.id,
    }
    return Checkpoint(**columns, signature=key.sign(_signed_bytes(columns)))


def digest_of(checkpoint: Checkpoint) -> str:
    """Return the hash of a checkpoint, which is the ``previous`` of the next one."""
    return digest(asdict(checkpoint))


def checkpoint_of(row: Mapping[str, Any]) -> Checkpoint:
    """Return the checkpoint in a row. Raises ``VerificationError`` for invalid columns."""
    for name in CHECKPOINT_COLUMNS:
        if type(row.get(name)) is not (int if name in _NUMBERS else str):
            raise VerificationError(f"checkpoint {row.get('number')!r} has an invalid {name!r}")
    checkpoint = Checkpoint(**{name: row[name] for name in CHECKPOINT_COLUMNS})
    try:
        digest_of(checkpoint)
    except NotCanonical as error:
        raise VerificationError(f"checkpoint {checkpoint.number} is invalid: {error}") from None
    return checkpoint


def succession(key: PublicKey, before: str, old: CheckpointKey | None) -> dict[str, str | None]:
    """Return the statement that ``key`` replaces the key with the id ``before``, signed with ``old`` if it is given."""
    claims = {"id": key.id, "public": key.pem(), "before": before}
    return {**claims, "signature": None if old is None else old.sign(_succession_bytes(claims))}


def successor_of(statement: Mapping[str, Any], before: PublicKey) -> PublicKey | None:
    """Return the key that replaces ``before``, or ``None`` unless ``before`` has signed this statement."""
    claims = {name: statement.get(name) for name in ("id", "public", "before")}
    signature = statement.get("signature")
    if not all(isinstance(text, str) for text in (*claims.values(), signature)):
        return None
    if claims["before"] != before.id or not before.verifies(str(signature), _succession_bytes(claims)):
        return None
    try:
        key = PublicKey.load(str(claims["public"]))
    except DefinitionError:
        return None
    return key if key.id == claims["id"] else None


def check_signature(checkpoint: Checkpoint, keys: Sequence[TrustedKey]) -> None:
    """Raise ``VerificationError`` unless a key that is trusted at the checkpoint's record has signed it.

    Without keys, checks nothing.
    """
    if not keys:
        return
    signer = next((trusted_key for trusted_key in keys if trusted_key.key.id == checkpoint.key), None)
    if signer is None:
        raise VerificationError(f"checkpoint {checkpoint.number} is signed by another key: {checkpoint.key[:16]!r}")
    if signer.until is not None and checkpoint.seq > signer.until:
        raise VerificationError(f"{_misplaced(checkpoint)} handed over at record {signer.until}", signer.until + 1)
    if checkpoint.seq < signer.since:
        raise VerificationError(f"{_misplaced(checkpoint)} took over at record {signer.since}", checkpoint.seq)
    columns = asdict(checkpoint)
    del columns["signature"]
    if not signer.key.verifies(checkpoint.signature, _signed_bytes(columns)):
        raise VerificationError(f"checkpoint {checkpoint.number} was changed: its signature is invalid")


def _misplaced(checkpoint: Checkpoint) -> str:
    return f"checkpoint {checkpoint.number} covers record {checkpoint.seq}, but its key {checkpoint.key}"


def checked_checkpoints(rows: Iterable[Mapping[str, Any]], since: int) -> Generator[Checkpoint]:
    """Yield a log's own checkpoints in order, after checking that each follows the previous one.

    Does not check signatures. ``since`` is the first record of the log. Raises ``VerificationError`` at the first
    invalid one.
    """
    before: Checkpoint | None = None
    for row in rows:
        checkpoint = checkpoint_of(row)
        number = checkpoint.number
        if before is not None:
            check_follows(before, checkpoint)
        elif number != 1 and checkpoint.seq != since - 1:  # retention also deletes the checkpoints before its own
            raise VerificationError(f"checkpoint 1 is missing; found {number} in its place")
        elif number == 1 and checkpoint.previous != GENESIS:
            raise VerificationError("checkpoint 1 does not begin a chain: its 'previous' is a hash")
        yield checkpoint
        before = checkpoint


def check_follows(before: Checkpoint, after: Checkpoint) -> None:
    """Raise ``VerificationError`` unless a checkpoint is the next one after ``before``."""
    if after.number != before.number + 1:
        raise VerificationError(f"checkpoint {before.number + 1} is missing; found {after.number} in its place")
    if after.previous != digest_of(before):
        raise VerificationError(
            f"checkpoint {after.number} does not follow the one before it: its 'previous' is another hash"
        )
    if after.seq < before.seq or after.since < before.since:
        raise VerificationError(f"checkpoint {after.number} goes back to earlier records than the one before it")


def _succession_bytes(claims: Mapping[str, Any]) -> bytes:
    return canonical({**claims, "kind": "succession"})


def _signed_bytes(columns: Mapping[str, Any]) -> bytes:
    return canonical({**columns, "kind": "checkpoint"})
