"""``capset db upgrade``: migration of a database from an earlier version to this one's revision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from capset.cli.common.exits import Exit, guarded
from capset.cli.common.options import AsJson, Db
from capset.cli.common.output import cell, out, print_json
from capset.cli.common.settings import existing_db, load_settings
from capset.cli.db.databases import database_at
from capset.wire.operations import StepShape, UpgradeShape

if TYPE_CHECKING:
    from capset.stores.sql.schema.maintenance import UpgradePlan


@guarded
def upgrade_command(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")] = False,
    db: Db = None,
    as_json: AsJson = False,
) -> Exit:
    """Bring a database to this version's revision, a new one too. Others may have it open meanwhile, and work on."""
    from capset.stores.sql.schema.maintenance import plan, upgrade
    from capset.stores.sql.schema.revisions import HEAD

    url = load_settings(db=db).db
    done = plan(database_at(existing_db(url))) if dry_run else upgrade(database_at(url))
    if as_json:
        print_json(_shape(done, HEAD, dry_run=dry_run).plain())
        return Exit.DONE
    after = HEAD if done.steps else done.before
    if not done.steps:
        out().print(f"the database is of revision {cell(str(after))}: nothing to do")
        return Exit.DONE
    for step in done.steps:
        how = " [dim](its writers go on meanwhile)[/]" if step.beside_writers else ""
        out().print(f"{cell(step.revision)}  {cell(step.does)}{how}")
    said = "would go" if dry_run else "went"
    start = "nothing" if done.before is None else f"revision {done.before}"
    out().print(f"the database {said} from {cell(start)} to {cell(HEAD)}")
    return Exit.DONE


def _shape(done: UpgradePlan, head: str, *, dry_run: bool) -> UpgradeShape:
    steps = [StepShape(revision=one.revision, does=one.does, beside_writers=one.beside_writers) for one in done.steps]
    after = head if done.steps or done.before is None else done.before
    return UpgradeShape(before=done.before, after=after, done=not dry_run, steps=steps)
