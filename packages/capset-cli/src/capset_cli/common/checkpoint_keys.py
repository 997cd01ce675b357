"""Checkpoint keys on this machine: a private key file for each database, and the pins of those who verify logs."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Final, cast

from capset.errors import DefinitionError
from capset.fingerprint.checkpoints import (
    Checkpoint,
    CheckpointKey,
    PublicKey,
    TrustedKey,
    VerificationError,
    checkpoint_of,
)


def database_id(digest_key: bytes) -> str:
    """Return the id of a database. It is derived from the database's secret, so a copy has the same id."""
    return hashlib.sha256(b"capset database\0" + digest_key).hexdigest()[:32]


def default_key_file(database: str) -> Path:
    """Return the path of a database's key file, in the user's state folder (XDG)."""
    return _capset_folder("XDG_STATE_HOME", ".local/state") / "keys" / f"{database}.pem"


def read_key_file(path: Path) -> CheckpointKey:
    """Read the key in a file. Raises ``DefinitionError`` if anyone but the owner may access the file."""
    mode = path.stat().st_mode & 0o777
    if os.name == "posix" and mode & 0o077:
        raise DefinitionError(
            f"the checkpoint key {str(path)!r} has mode {mode:04o}: others may use it", hint=f"chmod 600 {path}"
        )
    return CheckpointKey.read(path)


def create_key_file(path: Path) -> CheckpointKey:
    """Create a key in a new file, or return the key that another process has just created. Raises ``OSError``."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    key = CheckpointKey.generate()
    # Written under a temporary name first, so that no other process reads an incomplete file.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    write_new_file(temporary, key.pem(), 0o600)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return read_key_file(path)
    finally:
        temporary.unlink()
    return key


def write_new_file(path: Path, text: str, mode: int) -> None:
    """Write a new file that never has more permissions than ``mode``. Raises ``DefinitionError`` if it exists."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise DefinitionError(f"the file {str(path)!r} already exists", hint="name another, or remove it") from None
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)


_SOURCE: Final = "Source: "


def sourced_key(key: PublicKey, source: str) -> str:
    """Return the text of a key file whose first line says that the key comes from ``source``, which has the log.

    Readers of PEM skip that line. ``capset audit verify`` says that such a key shows integrity, not origin.
    """
    return f"{_SOURCE}{source.encode('ascii', 'backslashreplace').decode()}\n{key.pem()}"


def key_source(path: Path) -> str | None:
    """Return the source that a file of a public key names in its first line, or ``None``."""
    with path.open(encoding="ascii") as file:
        line = file.readline(2_000)
    return line.removeprefix(_SOURCE).strip() if line.startswith(_SOURCE) else None


@dataclass(frozen=True, slots=True)
class Pin:
    """The keys that a caller trusts for a database, and the newest checkpoint that the caller has seen.

    The keys are the first one and its successors, newest last, each with the records for which it is trusted.
    """

    keys: tuple[TrustedKey, ...]
    checkpoint: Checkpoint | None


def default_pins_file() -> Path:
    """Return the path of the caller's pins file, in the user's configuration folder (XDG)."""
    return _capset_folder("XDG_CONFIG_HOME", ".config") / "pins.json"


def read_pin(path: Path, database: str) -> Pin | None:
    """Return the pin of the database at a URL, if there is one. Raises ``DefinitionError`` for a damaged file."""
    entry = _read_pins(path).get(pin_name(database))
    if entry is None:
        return None
    try:
        checkpoint = entry["kept"]
        keys = tuple([_trusted_key(key) for key in entry["keys"]])
        return Pin(keys, None if checkpoint is None else checkpoint_of(checkpoint))
    except (KeyError, TypeError, AttributeError, VerificationError, DefinitionError):
        raise _damaged_pins(path) from None


def write_pin(path: Path, database: str, pin: Pin) -> None:
    """Set the pin of the database at a URL."""
    keys = [{"public": key.key.pem(), "since": key.since, "until": key.until} for key in pin.keys]
    entry = {"keys": keys, "kept": pin.checkpoint and asdict(pin.checkpoint)}
    _write_pins(path, {**_read_pins(path), pin_name(database): entry})


def _trusted_key(entry: Mapping[str, Any]) -> TrustedKey:  # JSON
    since, until = entry["since"], entry["until"]
    if type(since) is not int or type(until) not in (int, NoneType):
        raise TypeError
    return TrustedKey(PublicKey.load(entry["public"]), since, until)


def remove_pin(path: Path, database: str) -> None:
    """Remove the pin of the database at a URL, if there is one."""
    pins = _read_pins(path)
    if pins.pop(pin_name(database), None) is not None:
        _write_pins(path, pins)


def _write_pins(path: Path, pins: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    write_new_file(new, json.dumps(pins, indent=2, sort_keys=True) + "\n", 0o600)
    new.replace(path)


def pin_name(database: str) -> str:
    """Return the name of a database in the pins file: its URL, without user, password and query.

    This is the caller's name for the database. A name stored in the database could be chosen by an attacker who
    replaces it.
    """
    scheme, _, rest = database.partition("://")
    if scheme == "sqlite":
        return f"sqlite:///{Path(rest.removeprefix('/')).resolve()}"
    return f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}"


def _read_pins(path: Path) -> dict[str, Any]:
    try:
        pins: object = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError):  # including text that is not UTF-8
        pins = None
    if not isinstance(pins, dict):
        raise _damaged_pins(path)
    return cast("dict[str, Any]", pins)


def _damaged_pins(path: Path) -> DefinitionError:
    return DefinitionError(
        f"the pins in {str(path)!r} cannot be read", hint="restore them: without them nothing vouches for the log"
    )


def _capset_folder(variable: str, default: str) -> Path:
    """Return capset's folder in an XDG base directory; ``variable`` is ignored unless it has an absolute path."""
    base = os.environ.get(variable, "")
    if Path(base).is_absolute():
        return Path(base) / "capset"
    try:
        home = Path.home()
    except RuntimeError:  # a user without a home, as in a container
        home = Path("/")
    return home / default / "capset"
