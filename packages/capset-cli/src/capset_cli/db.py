"""``capset db``: upgrading, checking, backing up and restoring a database."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capset.clock import iso
from capset.errors import DefinitionError, counted
from capset.ids import Ids
from capset.kernel.governance.acts import ActEntry, act_entry
from capset.stores.base import make_store
from capset.wire.audit import verification_shape
from capset.wire.operations import BackupShape, DatabaseCheckShape, RestorationShape, StepShape, UpgradeShape
from capset_cli.common.actors import local_actor
from capset_cli.common.exits import Exit, guarded, ignoring_closed_pipe
from capset_cli.common.options import AsJson, Db
from capset_cli.common.output import cell, err, escaped, out, print_json
from capset_cli.common.settings import load_settings, require_db
from capset_cli.common.targets import open_store

if TYPE_CHECKING:
    from capset.stores.sql.schema.maintenance import UpgradePlan
    from capset.stores.sql.store import SqlStore


@guarded
def upgrade_command(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")] = False,
    db: Db = None,
    as_json: AsJson = False,
) -> Exit:
    """Upgrade a database to this version's revision, or create it. Other processes may keep using it."""
    from capset.stores.sql.schema.maintenance import plan, upgrade
    from capset.stores.sql.schema.revisions import HEAD

    url = load_settings(db=db).db
    upgrade_plan = plan(sql_store_at(require_db(url))) if dry_run else upgrade(sql_store_at(url))
    if as_json:
        print_json(_shape(upgrade_plan, HEAD, dry_run=dry_run).plain())
        return Exit.DONE
    after = HEAD if upgrade_plan.steps else upgrade_plan.before
    if not upgrade_plan.steps:
        out().print(f"the database is at revision {cell(str(after))}: nothing to do")
        return Exit.DONE
    for step in upgrade_plan.steps:
        how = " [dim](writers are not blocked)[/]" if step.beside_writers else ""
        out().print(f"{cell(step.revision)}  {cell(step.does)}{how}")
    verb = "would be upgraded" if dry_run else "was upgraded"
    start = "nothing" if upgrade_plan.before is None else f"revision {upgrade_plan.before}"
    out().print(f"the database {verb} from {cell(start)} to {cell(HEAD)}")
    return Exit.DONE


def _shape(upgrade_plan: UpgradePlan, head: str, *, dry_run: bool) -> UpgradeShape:
    steps = [
        StepShape(revision=step.revision, does=step.does, beside_writers=step.beside_writers)
        for step in upgrade_plan.steps
    ]
    after = head if upgrade_plan.steps or upgrade_plan.before is None else upgrade_plan.before
    return UpgradeShape(before=upgrade_plan.before, after=after, done=not dry_run, steps=steps)


@guarded
def check_command(
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", help="Also verify the chain of all records, and compare agents, keys and people with it."
        ),
    ] = False,
    db: Db = None,
    as_json: AsJson = False,
) -> Exit:
    """Check a database without changing it. Exits with 3 if it finds a problem."""
    from capset.stores.sql.schema.maintenance import check
    from capset.stores.sql.schema.revisions import HEAD

    report = check(sql_store_at(require_db(load_settings(db=db).db)), verify=verify)
    chain = report.verification
    with ignoring_closed_pipe():
        if as_json:
            shape = DatabaseCheckShape(
                ok=report.ok,
                revision=report.revision,
                head=HEAD,
                problems=list(report.problems),
                notes=list(report.notes) or None,
                verification=None if chain is None else verification_shape(chain),
            )
            print_json(shape.plain())
        else:
            for problem in report.problems:
                err().print(f"[red]problem:[/] {escaped(problem)}", soft_wrap=True)
            for note in report.notes:
                err().print(f"[dim]{escaped(note)}[/]", soft_wrap=True)
            if chain is not None and not chain.ok:
                err().print(f"[red]not verified:[/] {escaped(chain.problem or '')}", soft_wrap=True)
            if report.ok:
                summary = "every hash holds, and agents, keys and people match their acts"
                records = "" if chain is None else f"; {counted(chain.checked, 'record')}, {summary}"
                out().print(f"[green]sound:[/] revision {report.revision}{records}")
    return Exit.DONE if report.ok else Exit.REFUSED


@guarded
def backup_command(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A new file; for PostgreSQL, in the format of pg_restore.")
    ],
    db: Db = None,
    as_json: AsJson = False,
) -> Exit:
    """Write a consistent copy of the whole database to a new file that only you can read."""
    from capset.stores.sql.schema.maintenance import back_up

    size = back_up(sql_store_at(require_db(load_settings(db=db).db)), file)
    if as_json:
        print_json(BackupShape(file=str(file), bytes=size).plain())
    else:
        out().print(f"{cell(str(file))}: {size:,} bytes")
    return Exit.DONE


@guarded
def restore_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A backup that capset has written.")],
    db: Db = None,
    as_json: AsJson = False,
) -> Exit:
    """Create a new database from a backup. Approvals in it are void: they may have been used since the backup.

    The database must be a file that does not exist yet, or one without tables on a server. API keys that were revoked
    after the backup are valid again, until you revoke them again.
    """
    from capset.stores.sql.schema.maintenance import restore

    settings = load_settings(db=db)
    restoration = restore(sql_store_at(settings.db), file, now=iso(time.time_ns()))
    about = {"last": restoration.last, "approvals": restoration.approvals}
    act = act_entry(Ids(), "database.restore", about, by=local_actor(settings.principal))
    asyncio.run(_commit_act(settings.db, act))
    if as_json:
        print_json(RestorationShape(last=restoration.last, approvals=restoration.approvals).plain())
        return Exit.DONE
    voided = counted(restoration.approvals, "approval or request", "approvals and requests")
    out().print(f"restored: records up to {restoration.last}; {voided} voided")
    message = "keys that were revoked after the backup are valid again: see capset key list, and capset key revoke ID"
    err().print(f"[yellow]warning:[/] {message}", soft_wrap=True)
    return Exit.DONE


async def _commit_act(url: str, act: ActEntry) -> None:
    async with open_store(url) as store:
        await store.audit.commit(act)


def sql_store_at(url: str) -> SqlStore:
    """Return the unopened store at a URL. Raises ``DefinitionError`` if it is not a database."""
    from capset.stores.sql.store import SqlStore

    store = make_store(url)
    if not isinstance(store, SqlStore):
        scheme = url.partition("://")[0]  # only the scheme: the rest may contain a password
        raise DefinitionError(
            f"this needs a database of SQLite or PostgreSQL; got a store {scheme}://", hint="name one with --db"
        )
    return store
