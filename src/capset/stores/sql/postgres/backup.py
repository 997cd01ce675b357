"""A copy of a PostgreSQL database, by the server's own ``pg_dump``: a consistent snapshot, beside active writers."""

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
"""Options that must not appear on a command line, which others can read, and libpq's variables for them."""


def dump(url: URL, name: str, file: Path) -> None:
    """Write a database into a file in ``pg_dump``'s custom format. Raises ``StoreError`` if that is impossible.

    It contains neither owners nor grants, so that it can be restored for any user.
    """
    program = shutil.which("pg_dump")
    if program is None:
        raise StoreError("a backup of a PostgreSQL database needs pg_dump, which is not on the PATH", hint=_HINT)
    _check(program, url, name)
    given, environ = _conninfo(url)
    command = [program, "--format=custom", "--no-owner", "--no-privileges", "--no-password", f"--file={file}"]
    # pg_dump is the result of shutil.which; the rest are our own words and libpq's options.
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
    """Return the connection string for libpq, and the environment with the secrets."""
    from psycopg.conninfo import make_conninfo

    engine = locking_engine(url, "")
    given = engine.dialect.create_connect_args(url)[1].items()
    options = {key: str(value) for key, value in given if key != "context"}  # psycopg's own
    secrets = {variable: options.pop(key) for key, variable in _SECRETS.items() if key in options}
    if "sslpassword" in options:
        raise StoreError(
            "pg_dump can be told sslpassword only where others see it", hint="use a key without a password"
        )
    return make_conninfo("", **options), {**os.environ, **secrets}
