"""``capset db backup``: a whole database in one file, while writers continue."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from capset.cli.common.exits import Exit, guarded
from capset.cli.common.options import AsJson, Db
from capset.cli.common.output import cell, out, print_json
from capset.cli.common.settings import existing_db, load_settings
from capset.cli.db.databases import database_at
from capset.wire.operations import BackupShape


@guarded
def backup_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file; a PostgreSQL database's is pg_restore's.")],
    db: Db = None,
    as_json: AsJson = False,
) -> Exit:
    """Write a copy of everything, as it is at one moment, into a new file that only you can read."""
    from capset.stores.sql.schema.maintenance import back_up

    size = back_up(database_at(existing_db(load_settings(db=db).db)), file)
    if as_json:
        print_json(BackupShape(file=str(file), bytes=size).plain())
    else:
        out().print(f"{cell(str(file))}: {size:,} bytes")
    return Exit.DONE
