"""``capset audit key|keygen|pin|succeed``: the keys that sign the log, and those that a caller trusts (G41, G42)."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from capset.clock import iso
from capset.errors import Conflict, DefinitionError
from capset.fingerprint.checkpoints import Checkpoint, CheckpointKey, PublicKey, TrustedKey
from capset.ids import Ids
from capset.kernel.governance.acts import Actor
from capset.kernel.governance.checkpoints import adoption_act, succession_act
from capset.stores.base import AuditLog
from capset.wire.audit import KeyPairShape, LogKeyShape, PinShape, SuccessionShape
from capset_cli.common.actors import local_actor
from capset_cli.common.checkpoint_keys import (
    Pin,
    create_key_file,
    database_id,
    default_key_file,
    default_pins_file,
    read_key_file,
    read_pin,
    remove_pin,
    sourced_key,
    write_new_file,
    write_pin,
)
from capset_cli.common.exits import Exit, guarded
from capset_cli.common.options import AsJson, Db
from capset_cli.common.output import cell, err, escaped, print_json
from capset_cli.common.remote import Url, run_on_server, select_server
from capset_cli.common.settings import Settings, load_settings, require_db
from capset_cli.common.targets import open_store

Pins = Annotated[
    Path | None,
    typer.Option("--pins", metavar="FILE", help="The file with your pins; by default in your configuration folder."),
]


@guarded
def keygen_command(
    to: Annotated[
        Path, typer.Argument(metavar="FILE", help="A new file for the private key; the public key is in FILE.pub.")
    ],
    as_json: AsJson = False,
) -> Exit:
    """Create a pair of keys: the private one signs checkpoints, the public one verifies them."""
    key = CheckpointKey.generate()
    public = to.with_name(f"{to.name}.pub")
    write_new_file(to, key.pem(), 0o600)
    write_new_file(public, key.public.pem(), 0o644)
    if as_json:
        print_json(KeyPairShape(id=key.public.id, private=str(to), public=str(public)).plain())
    else:
        print(key.public.id, flush=True)
        err().print(f"[dim]{cell(str(to))} signs: keep it secret; {cell(str(public))} verifies[/]", soft_wrap=True)
    return Exit.DONE


@guarded
def key_command(db: Db = None, url: Url = None, as_json: AsJson = False) -> Exit:
    """Print the public key that signs the log, for capset audit verify --key. A server names its own with --url.

    The key comes from the holder of the log: it shows integrity, not origin. A first line in the file tells verify so;
    remove that line once the operator has confirmed the key's id over another channel.
    """
    server = select_server(url, db=db)
    if server is not None:
        shape = run_on_server(server, lambda client: client.records.key())
        key, source = PublicKey.load(shape.public), f"the server of the log, {server.url}"
    else:
        key, source = asyncio.run(_log_key(require_db(load_settings(db=db).db))), "the database of the log"
    text = sourced_key(key, source)
    if as_json:
        print_json(LogKeyShape(id=key.id, public=text).plain())
        return Exit.DONE
    print(text, end="", flush=True)
    err().print(f"[dim]its id is {key.id}: ask the operator over another channel whether that is right[/]")
    return Exit.DONE


async def _log_key(url: str) -> PublicKey:
    async with open_store(url) as store:
        key = await store.audit.signer()
    if key is None:
        raise DefinitionError(
            "the log has no checkpoint key", hint="capset serve and capset audit export sign it, and set its key"
        )
    return key


@guarded
def pin_command(
    key: Annotated[
        Path | None, typer.Option(metavar="PUBLIC", help="The public key to trust; by default the log's own.")
    ] = None,
    forget: Annotated[
        bool,
        typer.Option("--forget", help="Remove the pin of this database, if its log was replaced on purpose."),
    ] = False,
    pins: Pins = None,
    db: Db = None,
    as_json: AsJson = False,
) -> Exit:
    """Trust a log's key from now on, and keep its newest checkpoint. capset audit verify checks the log against both.

    Compare the key's id with the one that the server's operator gives you. A log that contradicts its existing pin is
    not pinned again: the exit code is 3.
    """
    url, file = require_db(load_settings(db=db).db), pins or default_pins_file()
    if forget:
        return _remove_pin(url, file, key, as_json=as_json)
    trusted_key = None if key is None else read_public_key(key)
    pin, problem = asyncio.run(_make_pin(url, read_pin(file, url), trusted_key))
    if pin is None:
        err().print(f"[red]not pinned:[/] {escaped(problem)}", soft_wrap=True)
        print_pin_hint(url, file)
        return Exit.REFUSED
    write_pin(file, url, pin)
    seq = None if pin.checkpoint is None else pin.checkpoint.seq
    if as_json:
        print_json(PinShape(key=pin.keys[-1].key.id, seq=seq, pins=str(file)).plain())
    else:
        print(pin.keys[-1].key.id, flush=True)
        note = "pinned without a checkpoint" if seq is None else f"pinned with a checkpoint of the records up to {seq}"
        err().print(f"[dim]{note}, in {cell(str(file))}[/]", soft_wrap=True)
    return Exit.DONE


def _remove_pin(url: str, file: Path, key: Path | None, *, as_json: bool) -> Exit:
    if key is not None:
        raise DefinitionError("--forget removes a pin, and --key makes one: leave one of them out")
    pin = read_pin(file, url)
    if pin is None:
        raise DefinitionError(f"there is no pin of this database in {str(file)!r}")
    remove_pin(file, url)
    if as_json:
        print_json(PinShape(key=pin.keys[-1].key.id, seq=pin.checkpoint and pin.checkpoint.seq, pins=str(file)).plain())
    else:
        err().print(f"[dim]the key {pin.keys[-1].key.id} is no longer trusted, in {cell(str(file))}[/]", soft_wrap=True)
    return Exit.DONE


def print_pin_hint(url: str, file: Path) -> None:
    """Print a hint about the database's pin, if it has one: where it is, and when and how to remove it."""
    if read_pin(file, url) is not None:
        hint = "if its log was replaced on purpose, remove the pin with capset audit pin --forget"
        err().print(f"[dim]hint:  this database is pinned in {cell(str(file))}; {hint}[/]", soft_wrap=True)


async def _make_pin(url: str, pin: Pin | None, key: PublicKey | None) -> tuple[Pin | None, str]:
    async with open_store(url) as store:
        log = store.audit
        signer = await log.signer()
        pinned = pin.keys if pin else ()
        keys = trusted_keys(pinned, [key] if key else [])
        if not keys and signer is not None:
            keys = [TrustedKey(signer)]
        if not keys:
            raise DefinitionError(
                "the log has no checkpoint key", hint="capset serve signs it; or name a public key with --key"
            )
        checkpoints = [] if pin is None or pin.checkpoint is None else [pin.checkpoint]
        newest = await newest_checkpoint(log)
        if newest is None and not checkpoints:
            return Pin(tuple(keys), None), ""
        verification = await log.verify(keys, checkpoints)
        if verification.problem is not None or newest is None:
            return None, verification.problem or "the log no longer has a checkpoint"
        return Pin(verification.keys, newest), ""  # with the successors that the verification has followed


def trusted_keys(pinned: Sequence[TrustedKey], added: Iterable[PublicKey]) -> list[TrustedKey]:
    """Return the pinned keys, each for its pinned range of records, and the keys that are named in addition."""
    ids = {trusted_key.key.id for trusted_key in pinned}
    return [*pinned, *[TrustedKey(key) for key in added if key.id not in ids]]


@guarded
def succeed_command(
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="The new key: its private or its public half.")],
    key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The current private key, to sign the succession; by default that of capset serve."
        ),
    ] = None,
    db: Db = None,
    as_json: AsJson = False,
) -> Exit:
    """Let another key sign the log from now on. The current key never signs this log again.

    If FILE is the private half, the new key signs the log at once, including the succession.
    """
    settings = load_settings(db=db)
    require_db(settings.db)
    if not to.is_file():
        private = to.with_suffix("") if to.suffix == ".pub" else to
        raise DefinitionError(
            f"there is no file {str(to)!r}",
            hint=f"capset audit keygen {shlex.quote(str(private))} creates a pair of keys",
        )
    new = _read_key(to)
    before, is_signed = asyncio.run(_succeed(settings, new, None if key is None else read_private_key(key)))
    new = new.public if isinstance(new, CheckpointKey) else new
    if as_json:
        print_json(SuccessionShape(key=new.id, before=before, signed=is_signed).plain())
        return Exit.DONE
    print(new.id, flush=True)
    if not is_signed:
        warning = f"the key {before} has not signed this: auditors that trust only that key will not trust {new.id}"
        err().print(f"[yellow]warning:[/] {warning}; name it with --key FILE", soft_wrap=True)
    return Exit.DONE


async def _succeed(settings: Settings, new: PublicKey | CheckpointKey, old: CheckpointKey | None) -> tuple[str, bool]:
    """Return the id of the previous key, and whether it signed the succession."""
    public = new.public if isinstance(new, CheckpointKey) else new
    async with open_store(settings.db) as store:
        log = store.audit
        before = await _current_key_id(log)
        if before is None:
            raise DefinitionError("the log has no checkpoint key to succeed", hint="the first server adopts its own")
        if old is not None and old.public.id != before:
            raise DefinitionError(f"the log is signed by the key {before}, but --key is {old.public.id}")
        key_file = default_key_file(database_id(await log.digest_key()))
        if old is None and key_file.exists() and (own_key := read_key_file(key_file)).public.id == before:
            old = own_key
        if old is not None:
            await log.checkpoint(old, now=iso(time.time_ns()))  # its last one
        act = succession_act(Ids(), public, before, old, local_actor(settings.principal))
        if not await log.adopt(public, replacing=before, act=act):
            raise Conflict(
                f"the log's key is no longer {before}, or {public.id} already is or was its key",
                hint="a key that has handed over never signs again: capset audit keygen FILE creates another",
            )
        if isinstance(new, CheckpointKey):
            await log.checkpoint(new, now=iso(time.time_ns()))
        return before, old is not None


async def _current_key_id(log: AuditLog) -> str | None:
    """Return the id of the key that signs a log, or ``None`` if no key has signed it."""
    signer, newest = await log.signer(), await newest_checkpoint(log)
    return signer.id if signer is not None else newest and newest.key


async def signing_key(log: AuditLog, file: Path | None, *, by: Actor) -> CheckpointKey:
    """Return the private key that signs a log: the one in a file, or the database's own, which its first use creates.

    A log without a key adopts it, as an act. Raises ``DefinitionError`` if another key signs the log.
    """
    path = file or default_key_file(database_id(await log.digest_key()))
    current = await _current_key_id(log)
    if file is not None:
        key = read_private_key(file)
    elif path.exists():
        key = read_key_file(path)
    elif current is None:
        key = create_key_file(path)
    else:
        raise DefinitionError(f"the key {current}, which signs this log, is not here", hint="name it with --key FILE")
    _check_signer(current, key)
    if await log.signer() is None:
        await log.adopt(key.public, replacing=None, act=adoption_act(Ids(), key.public, by))
        _check_signer(await _current_key_id(log), key)  # another process may have adopted one at the same time
    return key


def _check_signer(current: str | None, key: CheckpointKey) -> None:
    if current not in (None, key.public.id):
        raise DefinitionError(
            f"the log is signed by the key {current}; this one is {key.public.id}",
            hint="name that key with --key FILE, or let another sign: capset audit succeed --to FILE",
        )


async def newest_checkpoint(log: AuditLog) -> Checkpoint | None:
    """Return the newest checkpoint in a log, if there is one."""
    newest: Checkpoint | None = None
    while page := await log.checkpoints(after=newest.number if newest else 0):
        newest = page[-1]
    return newest


def _read_key(path: Path) -> PublicKey | CheckpointKey:
    try:
        return read_public_key(path)
    except DefinitionError:
        return read_private_key(path)


def read_private_key(path: Path) -> CheckpointKey:
    """Read a private key. Raises ``DefinitionError`` if the file has none or does not exist."""
    return CheckpointKey.read(require_file(path))


def read_public_key(path: Path) -> PublicKey:
    """Read a public key. Raises ``DefinitionError`` as ``read_private_key`` does."""
    return PublicKey.read(require_file(path))


def require_file(path: Path) -> Path:
    """Return the path. Raises ``DefinitionError`` if there is no file."""
    if not path.is_file():
        raise DefinitionError(f"there is no file {str(path)!r}")
    return path
