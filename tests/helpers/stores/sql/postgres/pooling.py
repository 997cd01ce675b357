"""A PgBouncer of the tests' own before a PostgreSQL server."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from shutil import which

import pytest
from sqlalchemy import make_url

from tests.ports import unused_port
from tests.waiting import wait_until

SETTINGS = """
[databases]
* = host={host} port={port} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
"""


@contextmanager
def pgbouncer(url: str, mode: str, folder: Path) -> Generator[str]:
    """Give the URL of a database behind a pooler, or skip the test where the program is not installed."""
    program = which("pgbouncer")
    if program is None:
        pytest.skip("pgbouncer is not installed: scripts/install_for_tests.sh installs it")
    target, pool_port = make_url(url), unused_port()
    settings = folder / "pgbouncer.ini"
    host, port = target.query["host"], target.port or 5432
    settings.write_text(SETTINGS.format(host=host, port=port, own=pool_port, mode=mode))
    # It does not run as root, and finds the socket as the user that runs the server.
    user = ["-u", "pgserver"] if os.geteuid() == 0 else []
    with subprocess.Popen([program, *user, settings], stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: answers(pool_port), "pgbouncer to answer")
            yield f"postgresql://postgres@127.0.0.1:{pool_port}/{target.database}"
        finally:
            process.kill()


def answers(port: int) -> bool:
    """Return whether something listens on a port of this machine."""
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True
