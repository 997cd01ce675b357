"""The version after this one, invented: this version's library with two more migrations, for processes of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import capset
from tests.helpers.cli.support import clean_environment
from tests.helpers.stores.sql.support import STORE_AT

SHAPE: Final = "0002"
"""The revision that adds a column and a table."""
INDEXES: Final = "0003"
"""The revision that adds indexes, which is the last."""
INDEX: Final = "ix_records_next"
"""An index of the audit log that the next version makes."""
_MIGRATIONS: Final = {
    f"{SHAPE}_labels": '''
"""Labels of intents."""

import sqlalchemy as sa
from alembic import op

from capset.stores.sql.schema.column_types import TEXT

revision, down_revision, branch_labels, depends_on = "0002", "0001", None, None


def upgrade():
    op.add_column("open_intents", sa.Column("label", TEXT))
    op.create_table("labels", sa.Column("name", TEXT, primary_key=True))
''',
    f"{INDEXES}_indexes_of_labels": '''
"""Indexes of labels, and of records by their tool and time."""

from capset.stores.sql.migrations.indexes import create_indexes

revision, down_revision, branch_labels, depends_on = "0003", "0002", None, None
INDEXES = (
    ("ix_records_next", "records", ("tool", "time"), None),
    ("ix_open_intents_label", "open_intents", ("label",), None),
)


def upgrade():
    create_indexes(INDEXES)
''',
}
_TABLES: Final = """
open_intents.append_column(Column("label", Text))
Index("ix_open_intents_label", open_intents.c.label)
Index("ix_records_next", records.c.tool, records.c.time)
labels = Table("labels", metadata, Column("name", Text, primary_key=True))
"""
_MAINTENANCE: Final = """
import asyncio, json, logging, sys
from capset.stores.sql.schema.maintenance import check, plan, upgrade

async def open_once(store):
    await store.open()
    await store.close()

logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(message)s")
verb, url = sys.argv[1:]
if verb == "open":
    asyncio.run(open_once(store_at(url)))
elif verb == "check":
    print(json.dumps(check(store_at(url)).problems))
else:
    done = {"plan": plan, "upgrade": upgrade}[verb](store_at(url))
    print(json.dumps([[step.revision, step.beside_writers] for step in done.steps]))
"""


@dataclass(frozen=True)
class NextVersion:
    """The library of the next version, in a folder that processes have first on their path."""

    folder: Path

    @property
    def environ(self) -> dict[str, str]:
        """The environment of its processes."""
        return clean_environment(self.folder, PYTHONPATH=str(self.folder))

    @contextmanager
    def process(self, script: str, *arguments: object) -> Generator[subprocess.Popen[str]]:
        """Run a script in a process of it, which is killed at the end if it still runs."""
        command = [sys.executable, "-c", STORE_AT + script, *map(str, arguments)]
        pipes: Mapping[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        with subprocess.Popen(command, env=self.environ, text=True, **pipes) as child:
            try:
                yield child
            finally:
                child.kill()

    def run(self, verb: str, url: str) -> tuple[Any, str]:
        """``open``, ``check``, ``plan`` or ``upgrade`` a database; return the answer and what was logged."""
        with self.process(_MAINTENANCE, verb, url) as child:
            output, log = child.communicate()
            assert child.returncode == 0, log
        return (json.loads(output) if output else None), log


def make_next_version(folder: Path, *, large: int | None = None, failing: bool = False) -> NextVersion:
    """Copy this version's library into a folder, with two migrations and what they make among its tables.

    ``large`` is the number of records from which a database is large. If it is ``failing``, its last migration fails.
    """
    library = folder / "capset"
    shutil.copytree(Path(capset.__file__).parent, library)  # with what is compiled, which takes long
    sql = library / "stores" / "sql"
    for name, text in _MIGRATIONS.items():
        (sql / "migrations" / "versions" / f"{name}.py").write_text(text)
    tables, revisions = sql / "schema" / "tables.py", sql / "schema" / "revisions.py"
    tables.write_text(tables.read_text() + _TABLES)
    if large is not None:
        text = revisions.read_text()
        assert "LARGE_ROWS: Final = 100_000" in text
        revisions.write_text(text.replace("LARGE_ROWS: Final = 100_000", f"LARGE_ROWS: Final = {large}"))
    if failing:
        last = sql / "migrations" / "versions" / f"{INDEXES}_indexes_of_labels.py"
        last.write_text(last.read_text() + "    raise RuntimeError('a failure in the middle')\n")
    return NextVersion(folder)
