"""What is done to a session's files costs as much as that session has, however many others there are (spec 5, P25).

`make test` asks a few sessions; `make lab-scale` asks 1,000 with 1,000 files each.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import pytest

from capset.stores.base import Store
from capset_testing.store_suite.support import LATER, NOW, session_row
from tests.databases import Server
from tests.helpers.stores.scale.filling import connected_to
from tests.helpers.stores.scale.metering import Meter, metered, walks
from tests.helpers.stores.sql.support import opened_at, path_of

IS_FULL: Final = os.environ.get("CAPSET_SCALE") == "full"
SESSIONS: Final = (1, 100, 1_000) if IS_FULL else (1, 10, 50)
"""How many sessions there are when it is asked what things cost."""
FILES: Final = 1_000 if IS_FULL else 200
"""How many files each of them has, in ten directories."""
OTHERS: Final = 20 * FILES
"""How many sessions without files there are beside, and contents that are nobody's."""
FACTOR: Final = 1.5
"""How much more an operation may cost among the most sessions than with one alone."""
SLACK: Final = 200
"""Steps, or rows, that do not matter."""
TEMPLATE: Final = "session-0000"
_REST: Final = "agent, definition, static_hash, principal, principal_kind, org, created_at"
_FILE: Final = "path, parent, is_directory, is_readonly, size_bytes, version, created_at, modified_at, org, digest"

pytestmark = pytest.mark.timeout(900)


def path_at(number: int) -> str:
    return f"/d{number % 10}/{number:04}.txt"


async def made(url: str) -> None:
    """Make the first session, by the port."""
    async with opened_at(url) as store:
        await store.sessions.create(session_row(TEMPLATE, "acme"))
        writes = (
            store.files.write(TEMPLATE, path_at(number), f"Text {number}".encode() * 20, org="acme", now=NOW)
            for number in range(FILES)
        )
        await asyncio.gather(*writes)


def beside(url: str) -> None:
    """Fill the tables beside, so that it matters how a row of theirs is found."""
    numbers = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {OTHERS})"
    contents = "SELECT 'globex', 'digest-' || n.i, 1, (SELECT content FROM blobs LIMIT 1) FROM n"
    others = f"SELECT 'other-' || n.i, {_REST} FROM n, sessions s WHERE s.id = '{TEMPLATE}'"
    with connected_to(url) as connection:
        connection.execute(f"{numbers} INSERT INTO blobs (org, digest, size, content) {contents}")
        connection.execute(f"{numbers} INSERT INTO sessions (id, {_REST}) {others}")


def copied(url: str, first: int, last: int) -> None:
    """Copy the first session, in the engine, until there are as many as ``last``."""
    names = [f"session-{number:04}" for number in range(first, last)]
    with connected_to(url) as connection:
        if path_of(url):
            connection.execute("PRAGMA synchronous = OFF")
        values = ", ".join(f"('{name}')" for name in names)
        new = f"FROM sessions s, (SELECT column1 AS id FROM (VALUES {values}) AS named) AS n WHERE s.id = '{TEMPLATE}'"
        connection.execute(f"INSERT INTO sessions (id, {_REST}) SELECT n.id, {_REST} {new}")
        source = (
            f"FROM sessions s, files f WHERE f.session = '{TEMPLATE}' AND s.id >= '{names[0]}' AND s.id <> f.session"
        )
        columns = ", ".join(f"f.{name}" for name in _FILE.split(", "))
        connection.execute(f"INSERT INTO files (session, {_FILE}) SELECT s.id, {columns} {source}")
        if path_of(url) is None:  # as its own daemon does in time
            connection.execute("VACUUM ANALYZE")


Operation = Callable[[Store, str], Awaitable[object]]


def operations() -> dict[str, Operation]:
    """Return what is done to a session, in this order."""
    some = [path_at(number) for number in range(100)]
    return {
        "stat": lambda store, session: store.files.stat(session, path_at(7)),
        "read": lambda store, session: store.files.read(session, path_at(7)),
        "list": lambda store, session: store.files.list(session, "/d3", recursive=False),
        "list all": lambda store, session: store.files.list(session, "/", recursive=True),
        "read 100": lambda store, session: store.files.read_many(session, some),
        "write new": lambda store, session: store.files.write(session, "/new/a", b"new" * 100, org="acme", now=NOW),
        "write over": lambda store, session: store.files.write(session, path_at(8), b"x" * 9_000, org="acme", now=NOW),
        "move": lambda store, session: store.files.move(session, path_at(9), "/new/b", overwrite=False, now=LATER),
        "move directory": lambda store, session: store.files.move(session, "/d5", "/new/d", overwrite=False, now=LATER),
        "delete": lambda store, session: store.files.delete(session, path_at(6), recursive=False),
        "delete directory": lambda store, session: store.files.delete(session, "/d4", recursive=True),
    }


async def costs(url: str, session: str) -> tuple[dict[str, int], Meter]:
    """Return what each operation costs in a session that nobody has touched, and all that was asked."""
    steps: dict[str, int] = {}
    async with opened_at(url) as store:
        with metered(store) as meter:
            for name, act in operations().items():
                meter.taken()
                began = time.perf_counter()
                await act(store, session)
                print(f"{url[:6]} {session} {name}: {(time.perf_counter() - began) * 1000:.1f} ms, ", end="")
                steps[name] = meter.taken()
                print(steps[name])
    return steps, meter


def curve(url: str) -> None:
    asyncio.run(made(url))
    beside(url)
    measurements: list[dict[str, int]] = []
    existing, meter = 1, Meter()
    for count in SESSIONS:
        session = f"session-{existing:04}"  # one more than are counted, since the first is copied and not touched
        copied(url, existing, count + 1)
        existing = count + 1
        measured, meter = asyncio.run(costs(url, session))
        measurements.append(measured)
    few, many = measurements[0], measurements[-1]
    dear = {name: (few[name], many[name]) for name in few if many[name] > FACTOR * few[name] + SLACK}
    assert dear == {}, "what they cost with one session, and with the most"
    is_file = path_of(url) is not None
    with connected_to(url) as connection:
        plans = {
            statement: walks(connection, statement, parameters, is_file=is_file)
            for statement, parameters in meter.asked.items()
        }
    assert len(plans) > 12
    assert {statement: problems for statement, problems in plans.items() if problems} == {}


@pytest.mark.nightly
@pytest.mark.spec("P22", "P25")
def test_in_a_file_every_cost_is_that_of_the_session(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    curve(f"sqlite:///{path}")
    path.unlink()


@pytest.mark.nightly
@pytest.mark.spec("P22", "P25")
def test_on_a_server_every_cost_is_that_of_the_session(postgres: Server) -> None:
    url = postgres.empty("files_scale")
    try:
        curve(url)
    finally:
        postgres.run("DROP DATABASE files_scale WITH (FORCE)")
