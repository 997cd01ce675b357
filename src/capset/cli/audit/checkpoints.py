"""``capset audit keygen|checkpoint|checkpoints|prune``: signing the state of the log, and pruning it."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from capset.cli.audit.files import PrivateKey, private_key
from capset.cli.common.exits import Exit, guarded
from capset.cli.common.options import AsJson, Db, instant
from capset.cli.common.output import cell, err, out, print_error, print_json, short, table
from capset.cli.common.settings import existing_db, load_settings
from capset.cli.common.targets import opened_store
from capset.clock import iso
from capset.definitions.limits import window_seconds
from capset.errors import Conflict, DefinitionError
from capset.fingerprint.checkpoints import Checkpoint
from capset.fingerprint.signatures import CheckpointKey
from capset.stores.base import Pruned
from capset.wire.audit import KeyPairShape, PrunedShape


@guarded
def keygen_command(
    to: Annotated[Path, typer.Argument(metavar="FILE", help="A new file for the private key; FILE.pub is the other.")],
    as_json: AsJson = False,
) -> Exit:
    """Make a pair of keys: the private one signs checkpoints, the public one verifies them."""
    key = CheckpointKey.generate()
    public = to.with_name(f"{to.name}.pub")
    _write(to, key.pem(), 0o600)
    _write(public, key.public.pem(), 0o644)
    if as_json:
        print_json(KeyPairShape(id=key.public.id, private=str(to), public=str(public)).plain())
    else:
        print(key.public.id, flush=True)
        err().print(f"[dim]{cell(str(to))} signs: keep it secret; {cell(str(public))} verifies[/]", soft_wrap=True)
    return Exit.DONE


@guarded
def checkpoint_command(key: PrivateKey, db: Db = None, as_json: AsJson = False) -> Exit:
    """Sign how far the log has come, and show the checkpoint: a copy elsewhere outlives whatever is done to the log."""
    made = asyncio.run(_checkpoint(existing_db(load_settings(db=db).db), private_key(key)))
    if made is None:
        raise DefinitionError("there are no records to sign for")
    if as_json:
        print_json(asdict(made))
    else:
        print(json.dumps(asdict(made)), flush=True)
        err().print(f"[dim]checkpoint {made.number} covers records {made.since}–{made.seq}[/]")
    return Exit.DONE


@guarded
def checkpoints_command(
    after: Annotated[int, typer.Option(min=0, help="Only those that follow the one of this number.")] = 0,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 1000,
    db: Db = None,
    as_json: AsJson = False,
) -> Exit:
    """Show the checkpoints, the oldest first; with --json, a JSON object a line, as verify --checkpoint takes them."""
    found = asyncio.run(_checkpoints(existing_db(load_settings(db=db).db), after, limit))
    if as_json:
        for one in found:
            print_json(asdict(one))
        return Exit.DONE
    rows = [
        [
            str(one.number),
            *map(cell, (one.time[:19].replace("T", " "), f"{one.since}–{one.seq}")),
            short(one.hash),
            one.key,
        ]
        for one in found
    ]
    out().print(table("NUMBER", "TIME", "RECORDS", "HASH", "KEY", rows=rows, folds=()))
    return Exit.DONE


@guarded
def prune_command(
    key: PrivateKey,
    before: Annotated[str | None, typer.Option(metavar="TIME", help="Cut off what is from before this time.")] = None,
    keep: Annotated[str | None, typer.Option(metavar="90d", help="Cut off what is older than this.")] = None,
    db: Db = None,
    as_json: AsJson = False,
) -> Exit:
    """Cut off the oldest records, up to a signed checkpoint; the exit code is 3 if there is none to cut at."""
    if (before is None) == (keep is None):
        raise DefinitionError("how much is to be cut off is said by one of --before and --keep")
    now = time.time_ns()
    limit = instant("--before", before) if keep is None else iso(now - window_seconds(keep) * 1_000_000_000)
    signer, url = private_key(key), existing_db(load_settings(db=db).db)
    try:
        done = asyncio.run(_prune(url, str(limit), signer, iso(now)))
    except Conflict as refused:
        print_error(refused, as_json=as_json)
        return Exit.REFUSED
    if as_json:
        print_json(PrunedShape(removed=done.removed, since=done.since).plain())
    else:
        print(f"pruned: {done.removed} records; the log begins with {done.since}", flush=True)
    return Exit.DONE


async def _checkpoint(url: str, key: CheckpointKey) -> Checkpoint | None:
    async with opened_store(url) as store:
        return await store.audit.checkpoint(key, now=iso(time.time_ns()))


async def _checkpoints(url: str, after: int, limit: int) -> Sequence[Checkpoint]:
    async with opened_store(url) as store:
        return await store.audit.checkpoints(after=after, limit=limit)


async def _prune(url: str, before: str, key: CheckpointKey, now: str) -> Pruned:
    async with opened_store(url) as store:
        return await store.audit.prune(before, key, now=now)


def _write(path: Path, text: str, mode: int) -> None:
    """Write a new file that never has more permissions than ``mode``."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise DefinitionError(f"there is a file {str(path)!r} already", hint="name another, or remove it") from None
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)
