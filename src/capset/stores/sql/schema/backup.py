"""A copy of a whole database in one file, made while others go on writing (spec 5, P30)."""

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
    """Write a copy of everything, as it was at one moment, into a new file, and return how many bytes it has.

    ``store`` is not open. Nobody but its owner can read the file: the key of the arguments' digests is in it. It stands
    under its name once it is whole and on the disk. Raises ``DefinitionError`` for a file that is there already or a
    folder that is not, and ``StoreError`` for a database that cannot be read or holds nothing, and a full disk.
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
        os.close(number)  # first: on Windows nothing that is open can be removed or renamed
        part.unlink(missing_ok=True)
        raise
    os.close(number)
    part.rename(file)
    _sync(file.parent)
    return size


def _sync(folder: Path) -> None:
    """Have the name of a new file on the disk too, where a folder can be opened."""
    with contextlib.suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
