"""A copy of a PostgreSQL database, by the server's own ``pg_dump``: one moment of it, beside all who write."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Final

from sqlalchemy import URL

from capset.errors import StoreError
from capset.stores.sql.postgres.engines import locking_engine

_HINT: Final = "install PostgreSQL's client programs, of the server's version or a newer one"
_VERSION: Final = re.compile(rb"\(PostgreSQL\) (\d+)")
_SECRETS: Final = {"password": "PGPASSWORD"}
"""What must not stand on a command line, which others can read, and the variable that libpq takes it from."""


def dump(url: URL, name: str, file: Path) -> None:
    """Write a database into a file in ``pg_dump``'s custom format. Raises ``StoreError`` where that cannot be done.

    Neither owners nor grants are in it, so that it can be restored for any user.
    """
    program = shutil.which("pg_dump")
    if program is None:
        raise StoreError("a backup of a PostgreSQL database needs pg_dump, which is not on the PATH", hint=_HINT)
    _check(program, url, name)
    given, environ = _conninfo(url)
    command = [program, "--format=custom", "--no-owner", "--no-privileges", "--no-password", f"--file={file}"]
    # pg_dump is what shutil.which found; the rest are our own words and libpq's options.
    done = subprocess.run([*command, f"--dbname={given}"], env=environ, capture_output=True, check=False)  # noqa: S603
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise StoreError(f"pg_dump could not read the database {name!r}", hint=said[0][:300] if said else None)


def _check(program: str, url: URL, name: str) -> None:
    """Raise ``StoreError`` unless ``pg_dump`` is as new as the server."""
    done = subprocess.run([program, "--version"], capture_output=True, check=False)  # noqa: S603
    found = _VERSION.search(done.stdout)
    own = int(found[1]) if found else 0
    engine = locking_engine(url, name)
    with closing(engine.connect()) as connection:
        server = connection.exec_driver_sql("SELECT current_setting('server_version_num')::int / 10000").scalar_one()
    if own < server:
        raise StoreError(f"pg_dump is of version {own or 'unknown'}; the server's is {server}", hint=_HINT)


def _conninfo(url: URL) -> tuple[str, dict[str, str]]:
    """Return what to connect with, as libpq reads it, and the environment with what must not be seen."""
    from psycopg.conninfo import make_conninfo

    engine = locking_engine(url, "")
    given = engine.dialect.create_connect_args(url)[1].items()
    options = {key: str(value) for key, value in given if key != "context"}  # which is psycopg's own
    secrets = {variable: options.pop(key) for key, variable in _SECRETS.items() if key in options}
    if "sslpassword" in options:
        raise StoreError(
            "pg_dump can be told sslpassword only where others see it", hint="use a key without a password"
        )
    return make_conninfo("", **options), {**os.environ, **secrets}
