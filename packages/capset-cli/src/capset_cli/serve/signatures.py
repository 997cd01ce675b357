"""Signing by ``capset serve``: the checkpoint key to use, and whether the log accepts it (spec 4, G41)."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from capset.errors import DefinitionError
from capset.fingerprint.checkpoints import CheckpointKey
from capset.kernel.governance.acts import Actor
from capset.kernel.governance.checkpoints import Checkpoints, Signing
from capset.kernel.kernel import Kernel
from capset_cli.common.checkpoint_keys import create_key_file, database_id, default_key_file, read_key_file

_SECRET: Final = "CAPSET_CHECKPOINT_KEY"  # noqa: S105 - the name of a variable
_log = logging.getLogger("capset.server")

CheckpointKeyFile = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint-key",
        metavar="FILE",
        envvar="CAPSET_CHECKPOINT_KEY_FILE",
        help=f"The private key that signs the log, outside the data folder; or the key itself in {_SECRET}. "
        "By default one for each database, in the user's state folder.",
    ),
]
Unsigned = Annotated[bool, typer.Option("--unsigned", help="Do not sign the log.")]


@dataclass(frozen=True, slots=True)
class SigningOptions:
    """A server's options for signing: given checkpoints, the file of a key, or neither for the default key.

    ``is_off`` turns signing off.
    """

    checkpoints: Checkpoints | None = None
    file: Path | None = None
    is_off: bool = False


def signing_options(file: Path | None, configured: Checkpoints | None, db: str, *, off: bool) -> SigningOptions:
    """Return the options for signing. Raises ``DefinitionError`` for several keys, and for an unsafe key file."""
    secret = os.environ.get(_SECRET) or None
    key_options = {"--checkpoint-key": file, _SECRET: secret, "checkpoints of the configuration file": configured}
    key_sources = [name for name, value in key_options.items() if value is not None]
    if len(key_sources) > 1 or (off and key_sources):
        raise DefinitionError(
            f"a log has one checkpoint key: leave out all but one of {', '.join(key_sources)}, --unsigned"
        )
    if configured is not None:
        return SigningOptions(configured)
    if secret is not None:
        return SigningOptions(Checkpoints(CheckpointKey.load(secret)))
    if file is not None:
        _check_location(file, db)
    return SigningOptions(file=file, is_off=off)


def _check_location(file: Path, db: str) -> None:
    scheme, _, path = db.partition(":///")
    if scheme == "sqlite" and file.resolve().is_relative_to(Path(path).resolve().parent):
        raise DefinitionError(
            f"the checkpoint key {str(file)!r} is in the folder of the database, next to the log that it protects",
            hint="keep it elsewhere, and name it with --checkpoint-key FILE",
        )


async def begin_signing(kernel: Kernel, db: str, options: SigningOptions, *, by: Actor) -> str:
    """Let a kernel sign its log with the options' key, and return the key's location, for the operator only.

    Raises ``DefinitionError`` for a key file that others may read, or that has no key.
    """
    if options.is_off:
        kernel.signing.end("it was started with --unsigned")
    elif options.checkpoints is not None:
        await kernel.sign(options.checkpoints, by=by)
    elif options.file is None and db.startswith("memory:"):
        kernel.signing.end("records in memory end with the process: name a key with --checkpoint-key to sign them")
    else:
        return await _sign_with_file(kernel, options.file, by)
    return "given"


def log_signing(signing: Signing, place: str) -> None:
    """Log whether the audit log is signed: the key and its location, or the reason why not."""
    if signing.key is None:
        _log.warning("the audit log is not signed: %s (%s)", signing.reason, place)
    else:
        _log.info("the audit log is signed with the checkpoint key %s (%s)", signing.key, place)


async def _sign_with_file(kernel: Kernel, file: Path | None, by: Actor) -> str:
    log = kernel.audit
    path = file or default_key_file(database_id(await log.digest_key()))
    if path.exists():
        key = read_key_file(path)
    elif (signer := await log.signer()) is not None or await log.checkpoints(limit=1):
        kernel.signing.end("the log's checkpoint key is not here" + (f": {signer.id}" if signer else ""))
        return str(path)
    else:
        try:
            key = create_key_file(path)
        except OSError as error:
            kernel.signing.end("no checkpoint key could be stored here: name one with --checkpoint-key")
            return f"{path}: {error.strerror}"
    await kernel.sign(Checkpoints(key), by=by)
    return str(path)
