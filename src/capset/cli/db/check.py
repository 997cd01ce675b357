"""``capset db check``: integrity of a database, and conformance to this version's schema."""

from __future__ import annotations

from typing import Annotated

import typer

from capset.cli.common.exits import Exit, ended, guarded
from capset.cli.common.options import AsJson, Db
from capset.cli.common.output import err, out, print_json, verbatim
from capset.cli.common.settings import existing_db, load_settings
from capset.cli.db.databases import database_at
from capset.wire.audit import verification_shape
from capset.wire.operations import DatabaseCheckShape


@guarded
def check_command(
    verify: Annotated[bool, typer.Option("--verify", help="Check the chain of all records, too.")] = False,
    db: Db = None,
    as_json: AsJson = False,
) -> Exit:
    """Check a database and change nothing; the exit code is 3 if something is not as it must be."""
    from capset.stores.sql.schema.maintenance import check
    from capset.stores.sql.schema.revisions import HEAD

    found = check(database_at(existing_db(load_settings(db=db).db)), verify=verify)
    chain = found.verification
    with ended():
        if as_json:
            shape = DatabaseCheckShape(
                ok=found.ok,
                revision=found.revision,
                head=HEAD,
                problems=list(found.problems),
                verification=None if chain is None else verification_shape(chain),
            )
            print_json(shape.plain())
        else:
            for problem in found.problems:
                err().print(f"[red]problem:[/] {verbatim(problem)}", soft_wrap=True)
            if chain is not None and not chain.ok:
                err().print(f"[red]not verified:[/] {verbatim(chain.problem or '')}", soft_wrap=True)
            if found.ok:
                records = "" if chain is None else f"; {chain.checked} records, every hash holds"
                out().print(f"[green]sound:[/] revision {found.revision}{records}")
    return Exit.DONE if found.ok else Exit.REFUSED
