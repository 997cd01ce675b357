"""``capset audit checkpoint|checkpoints|prune|verify``: signing, checking and pruning the log."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from capset.clock import iso
from capset.definitions.governance.limits import window_seconds
from capset.errors import Conflict, DefinitionError, counted
from capset.fingerprint.chain import Verification
from capset.fingerprint.checkpoints import Checkpoint, CheckpointKey, TrustedKey
from capset.ids import Ids
from capset.kernel.governance.checkpoints import prune_act
from capset.stores.base import Pruned
from capset.wire.audit import PrunedShape, VerificationShape, verification_shape
from capset_cli.audit.files import read_checkpoints, verify_file
from capset_cli.audit.keys import Pins, print_pin_hint, read_private_key, read_public_key, trusted_keys
from capset_cli.common.actors import local_actor
from capset_cli.common.checkpoint_keys import Pin, default_pins_file, key_source, read_pin
from capset_cli.common.exits import Exit, guarded, ignoring_closed_pipe
from capset_cli.common.options import AsJson, Db, parse_time
from capset_cli.common.output import cell, err, escaped, out, print_error, print_json, print_table, short_hash
from capset_cli.common.remote import NamedUrl, Server, run_on_server, select_server
from capset_cli.common.settings import Settings, load_settings, require_db
from capset_cli.common.targets import open_store

if TYPE_CHECKING:
    from capset_server.client import Client

_RECORDS_ALONE: Final = "records alone are verified, not agents, keys, people or settings"
_DATABASE_CHECK: Final = "capset db check --verify compares the first three with their acts"

PrivateKey = Annotated[
    Path,
    typer.Option("--key", metavar="FILE", help="The private key to sign with, as created by capset audit keygen FILE."),
]


class _SourcedKey(NamedTuple):
    """The id of a key, its file, and the source that the file names, which has the log, if any."""

    id: str
    source: str | None
    file: Path


@guarded
def checkpoint_command(key: PrivateKey, db: Db = None, as_json: AsJson = False) -> Exit:
    """Sign the log up to its newest record, and print the checkpoint. A copy kept elsewhere exposes later changes."""
    checkpoint = asyncio.run(_sign_checkpoint(require_db(load_settings(db=db).db), read_private_key(key)))
    if checkpoint is None:
        raise DefinitionError("there are no records to sign")
    if as_json:
        print_json(asdict(checkpoint))
    else:
        print(json.dumps(asdict(checkpoint)), flush=True)
        err().print(f"[dim]checkpoint {checkpoint.number} covers records {checkpoint.since}–{checkpoint.seq}[/]")
    return Exit.DONE


@guarded
def checkpoints_command(
    after: Annotated[
        int, typer.Option(min=0, max=2**63 - 1, help="Only checkpoints after the one with this number.")
    ] = 0,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="The maximum number of checkpoints.")] = 1000,
    db: Db = None,
    as_json: AsJson = False,
) -> Exit:
    """List checkpoints, oldest first. --json prints one JSON object per line, as verify --checkpoint reads them."""
    checkpoints = asyncio.run(_list_checkpoints(require_db(load_settings(db=db).db), after, limit))
    if as_json:
        for checkpoint in checkpoints:
            print_json(asdict(checkpoint))
        return Exit.DONE
    rows = [
        [
            str(signed.number),
            *map(cell, (signed.time[:19].replace("T", " "), f"{signed.since}–{signed.seq}")),
            short_hash(signed.hash),
            signed.key,
        ]
        for signed in checkpoints
    ]
    empty = "no checkpoints: servers with a key sign them; to sign one now: capset audit checkpoint --key FILE"
    print_table(("NUMBER", "TIME", "RECORDS", "HASH", "KEY"), rows, folds=(), empty=empty)
    return Exit.DONE


@guarded
def prune_command(
    key: PrivateKey,
    before: Annotated[str | None, typer.Option(metavar="TIME", help="Remove records from before this time.")] = None,
    keep: Annotated[str | None, typer.Option(metavar="90d", help="Remove records that are older than this.")] = None,
    db: Db = None,
    as_json: AsJson = False,
) -> Exit:
    """Remove the oldest records, up to a signed checkpoint. Exits with 3 if there is no suitable checkpoint."""
    if (before is None) == (keep is None):
        raise DefinitionError("give one of --before and --keep, to say which records to remove")
    now = time.time_ns()
    limit = parse_time("--before", before) if keep is None else iso(now - window_seconds(keep) * 1_000_000_000)
    signer, settings = read_private_key(key), load_settings(db=db)
    require_db(settings.db)
    try:
        pruned = asyncio.run(_prune(settings, str(limit), signer, iso(now)))
    except Conflict as refused:
        print_error(refused, as_json=as_json)
        return Exit.REFUSED
    if as_json:
        print_json(PrunedShape(removed=pruned.removed, since=pruned.since).plain())
    elif not pruned.removed:
        print(f"nothing is old enough: the log begins with {pruned.since}", flush=True)
    else:
        print(f"pruned: {counted(pruned.removed, 'record')}; the log begins with {pruned.since}", flush=True)
    return Exit.DONE


async def _sign_checkpoint(url: str, key: CheckpointKey) -> Checkpoint | None:
    async with open_store(url) as store:
        return await store.audit.checkpoint(key, now=iso(time.time_ns()))


async def _list_checkpoints(url: str, after: int, limit: int) -> Sequence[Checkpoint]:
    async with open_store(url) as store:
        return await store.audit.checkpoints(after=after, limit=limit)


async def _prune(settings: Settings, before: str, key: CheckpointKey, now: str) -> Pruned:
    actor = local_actor(settings.principal)
    async with open_store(settings.db) as store:
        return await store.audit.prune(
            before, key, now=now, act=lambda pruned: prune_act(Ids(), before, pruned, by=actor)
        )


@guarded
def verify_command(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Verify an exported file of records instead.")
    ] = None,
    key: Annotated[
        list[Path] | None,
        typer.Option(metavar="PUBLIC", help="A file with a public key of the checkpoints; may be repeated."),
    ] = None,
    checkpoint: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Checkpoints that were kept elsewhere, or an earlier export; may be repeated."
        ),
    ] = None,
    pins: Pins = None,
    db: Db = None,
    url: NamedUrl = None,
    as_json: AsJson = False,
) -> Exit:
    """Verify the whole chain of records. Exits with 3 if it does not hold.

    With --url, a server verifies its own chain, part by part, and reports how far its key has signed it. That proves
    nothing to those who do not trust the server.

    Only keys and checkpoints that you name, or have pinned (capset audit pin), vouch for the chain. Without any, the
    first line says so, and the chain can only be consistent in itself: an emptied or recomputed log is consistent, too.
    A key printed by capset audit key comes from the holder of the log. It shows integrity, not origin, and the first
    line says so.
    """
    server = select_server(url or "", db=db, pins=pins, key=key, checkpoint=checkpoint)
    if server is not None:
        if file is not None:
            raise DefinitionError("records are verified either in a file or on a server: leave out FILE or --url")
        return _verify_on_server(server, as_json=as_json)
    named_keys = [read_public_key(path) for path in key or ()]
    kept_checkpoints = [saved for path in checkpoint or () for saved in read_checkpoints(path)]
    pin: Pin | None = None
    pinned_at: tuple[str, Path] | None = None
    if file is None:
        url = require_db(load_settings(db=db).db)
        pinned_at = (url, pins or default_pins_file())
        pin = read_pin(pinned_at[1], url)
        kept_checkpoints += [] if pin is None or pin.checkpoint is None else [pin.checkpoint]
        keys = trusted_keys(pin.keys if pin else (), named_keys)
        verification = asyncio.run(_verify(url, keys, kept_checkpoints))
    elif db is not None or pins is not None:
        raise DefinitionError(
            "records are verified either in a file or in a database: leave out FILE, or --db and --pins"
        )
    else:
        keys = trusted_keys((), named_keys)
        verification = verify_file(file, keys, kept_checkpoints)
    basis = _Basis(keys, kept_checkpoints, _sourced_keys(key or (), pin), in_file=file is not None)
    with ignoring_closed_pipe():
        if as_json:
            ids = [trusted_key.key.id for trusted_key in keys]
            print_json(verification_shape(verification, ids, is_vouched=basis.vouches).plain())
        else:
            _print_verification(verification, basis)
            if verification.problem is not None and pinned_at is not None:
                print_pin_hint(*pinned_at)
    return Exit.DONE if verification.ok else Exit.REFUSED


def _verify_on_server(server: Server, *, as_json: bool) -> Exit:
    """Have a server verify its records, and print the result."""

    async def verify_all(client: Client) -> VerificationShape:
        checked, covered, since, cursor = 0, None, 0, None
        while True:
            part = await client.records.verify(limit=10_000, cursor=cursor)
            checked, covered, since = checked + part.checked, part.covered or covered, since or part.since
            cursor = part.next
            if cursor is None:
                return VerificationShape(
                    ok=part.ok,
                    checked=checked,
                    problem=part.problem,
                    seq=part.seq,
                    since=since if since > 1 else None,
                    covered=covered,
                    vouched=False,
                )

    verification = run_on_server(server, verify_all)
    if as_json:
        print_json(verification.plain())
    elif verification.problem is not None:
        err().print(f"[red]not verified:[/] {escaped(verification.problem)}", soft_wrap=True)
    else:
        out().print(f"the server says: {counted(verification.checked, 'record')}, every hash holds", soft_wrap=True)
        if verification.covered is not None:
            err().print(f"[dim]its key has signed the records up to {verification.covered}[/]")
        err().print(f"[dim]{_RECORDS_ALONE}[/]", soft_wrap=True)
    return Exit.DONE if verification.ok else Exit.REFUSED


@dataclass(frozen=True, slots=True)
class _Basis:
    """The trust of a verification: keys and kept checkpoints, and the keys among them that come with the log."""

    keys: Sequence[TrustedKey]
    kept: Sequence[Checkpoint]
    sourced: Sequence[_SourcedKey]
    in_file: bool

    @property
    def vouches(self) -> bool:
        """Whether what vouches for the whole log does not come from its holder."""
        return bool(self.keys or self.kept) and not self.sourced

    def first_line(self) -> str | None:
        """Return the first line of the result, as markup, if there is something to say."""
        if not self.keys:
            basis = "nothing vouches for what follows"
            if self.kept:
                basis = "the checkpoints that were kept vouch for it"
            elif self.in_file:
                basis += ", since the checkpoints came with the records; name a key from the operator with --key"
            return f"[yellow]no key was given:[/] {basis}"
        if not self.sourced:
            return None
        sourced = self.sourced[0]
        return (
            f"[yellow]integrity, not origin:[/] the key {sourced.id} comes from {cell(sourced.source or '')}, as the "
            "records do; once the operator has confirmed this id over another channel, "
            f"remove the first line of {cell(str(sourced.file))}"
        )


def _sourced_keys(files: Sequence[Path], pin: Pin | None) -> list[_SourcedKey]:
    """Return the keys in files that come from the holder of the log, unless they are pinned, or in another file too."""
    keys = [_SourcedKey(read_public_key(file).id, key_source(file), file) for file in files]
    independent = {key.id for key in keys if key.source is None}
    independent |= {trusted_key.key.id for trusted_key in pin.keys} if pin else set[str]()
    return [key for key in keys if key.id not in independent]


def _print_verification(verification: Verification, basis: _Basis) -> None:
    """Print what vouches for the records, the result, and the limits of the check."""
    if (line := basis.first_line()) is not None:
        out().print(line, soft_wrap=True)
    if verification.problem is not None:
        err().print(f"[red]not verified:[/] {escaped(verification.problem)}", soft_wrap=True)
        err().print(f"[dim]before it, every hash holds: {counted(verification.checked, 'record')}[/]")
        return
    summary = f"{counted(verification.checked, 'record')}, every hash holds"
    if basis.vouches:
        out().print(f"[green]verified:[/] {summary}")
    elif basis.keys:
        out().print(f"signed with that key: {summary}")
    elif verification.checked:
        out().print(f"consistent in itself: {summary}")
    else:
        out().print("empty: there are no records, and nothing says whether there were any")
    for note in _caveats(verification, basis):
        err().print(f"[dim]{note}[/]", soft_wrap=True)


def _caveats(verification: Verification, basis: _Basis) -> Iterator[str]:
    if verification.since > 1:
        where = "earlier records are not in the file" if basis.in_file else "earlier records were pruned"
        yield f"they begin with record {verification.since}; {where}"
    is_kept = bool(basis.kept) and (bool(basis.sourced) or not basis.keys)
    covered = max(kept.seq for kept in basis.kept) if is_kept else verification.covered
    if not (basis.keys or basis.kept):
        pinning = "" if basis.in_file else ", or pin both with capset audit pin"
        yield (
            "a log that was emptied, truncated or recomputed looks the same: "
            f"name a key with --key, or a kept checkpoint with --checkpoint{pinning}"
        )
    elif covered is not None and covered < verification.since + verification.checked - 1:
        which = "checkpoints that were kept" if is_kept else "signed checkpoints"
        yield f"{which} cover records up to {covered}; the newest records after it may be missing"
    yield _RECORDS_ALONE if basis.in_file else f"{_RECORDS_ALONE}; {_DATABASE_CHECK}"


async def _verify(url: str, keys: Sequence[TrustedKey], checkpoints: Sequence[Checkpoint]) -> Verification:
    async with open_store(url) as store:
        return await store.audit.verify(keys, checkpoints)
