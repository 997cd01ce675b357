"""A copy of a whole database in one file, made while others continue to write (spec 5, P30)."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from capset.errors import DefinitionError, StoreError
from capset.stores.sql.problems import explained
from capset.stores.sql.schema.revisions import revision_of
from capset.stores.sql.store import SqlStore


def back_up(store: SqlStore, file: Path) -> int:
    """Write a consistent copy of everything into a new file, and return its size in bytes.

    ``store`` is not open. Only its owner can read the file: it contains the key of the arguments' digests. It appears
    under its name once it is complete and on the disk. Raises ``DefinitionError`` for a file that exists already or a
    missing folder, and ``StoreError`` for a database that cannot be read or holds nothing, and a full disk.
    """
    if file.exists():
        raise DefinitionError(f"there is a file {str(file)!r} already", hint="name a new one")
    if not file.parent.is_dir():
        raise DefinitionError(f"there is no folder {str(file.parent)!r}", hint="make it first")
    reading = store.make_engines()[1]
    try:
        with explained(store.name), reading.begin() as connection:
            if revision_of(connection, store.name) is None:
                raise StoreError(f"the database {store.name!r} is empty", hint="name the one that capset uses")
    finally:
        reading.dispose()
    number, name = tempfile.mkstemp(dir=file.parent, prefix=f"{file.name}.", suffix=".part")  # for its owner alone
    part = Path(name)
    try:
        with explained(store.name):
            store.copy_into(part)
        os.fsync(number)
        size = part.stat().st_size
    except BaseException:
        os.close(number)  # first: on Windows no open file can be removed or renamed
        part.unlink(missing_ok=True)
        raise
    os.close(number)
    part.rename(file)
    _sync(file.parent)
    return size


def _sync(folder: Path) -> None:
    """Sync the name of a new file to the disk too, if a folder can be opened."""
    with contextlib.suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
