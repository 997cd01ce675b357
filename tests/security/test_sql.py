"""db_query only reads, whatever it is asked: every case of sql.yaml, on real engines (spec 4, G30)."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml

from capset_testing import session_for
from capset_tools.database import DatabaseConfig, DatabaseConnection, database
from tests.databases import Server, connected
from tests.security.queries import GENERATORS
from tests.waiting import wait_until

ENGINES: Final = ("sqlite", "postgres")
CLASSES: Final[dict[str, dict[str, Any]]] = yaml.safe_load(Path(__file__).with_name("sql.yaml").read_text("utf-8"))
READER: Final = "sql_reader"
SECRET: Final = "hunter2"


ALL: Final = [
    pytest.param(name, engine, id=f"{engine}-{name.replace(' ', '_')}") for name in CLASSES for engine in ENGINES
]


class Case(NamedTuple):
    query: str
    must_fail: bool


def cases_of(name: str, engine: str) -> Iterator[Case]:
    about = CLASSES[name][engine]
    generated = GENERATORS[about["generated"]]() if "generated" in about else ()
    for query in (*about["refused"], *generated):
        yield Case(query, must_fail=True)
    for query in about.get("harmless", ()):
        yield Case(query, must_fail=False)


class Target(NamedTuple):
    """A database, and what there is of it that must stay as it is."""

    url: str
    state: Callable[[], object]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text(SECRET)
    return tmp_path


@pytest.fixture
def sqlite_target(folder: Path) -> Target:
    file = folder / "data.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(
            "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT); CREATE INDEX by_name ON people (name);"
            "INSERT INTO people VALUES (1, 'ada'), (2, 'bob');"
            "CREATE VIRTUAL TABLE words USING fts5(text); INSERT INTO words VALUES ('hello world');"
            "CREATE VIEW loading AS SELECT load_extension('evil') FROM people"
        )
    return Target(f"sqlite:///{file}", lambda: hashlib.sha256(file.read_bytes()).hexdigest())


@pytest.fixture(scope="session")
def prepared(postgres: Server) -> str:
    """Make a database with much to spoil, and a role that may read some of it. Gives the database's name."""
    name = "sql_attacks"
    postgres.empty(name)
    with connected(postgres.url(name)) as owner:
        owner.execute(f"CREATE ROLE {READER} LOGIN")
        for statement in (
            "CREATE TABLE people (id int PRIMARY KEY, name text)",
            "INSERT INTO people VALUES (1, 'ada'), (2, 'bob')",
            f"CREATE TABLE hidden AS SELECT '{SECRET}' AS pin",
            "CREATE SEQUENCE counter",
            "CREATE MATERIALIZED VIEW seen AS SELECT * FROM people",
            "CREATE FUNCTION sneaky() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'DELETE FROM people RETURNING id'",
            "CREATE PROCEDURE erase() LANGUAGE sql AS 'DELETE FROM people'",
            # More than a reader should have: the transaction has to hold by itself.
            f"GRANT ALL ON people, seen TO {READER}",
            f"GRANT ALL ON SEQUENCE counter TO {READER}",
            f"GRANT CREATE ON SCHEMA public TO {READER}",
        ):
            owner.execute(statement)
    return name


STATE: Final = """
SELECT (SELECT json_agg(people ORDER BY id) FROM people), (SELECT last_value FROM counter),
    (SELECT count(*) FROM pg_class), (SELECT count(*) FROM pg_proc), (SELECT count(*) FROM pg_largeobject_metadata),
    (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'), (SELECT count(*) FROM pg_replication_slots),
    (SELECT json_agg(r ORDER BY oid) FROM pg_roles AS r), (SELECT json_agg(s) FROM pg_db_role_setting AS s),
    (SELECT json_agg(m ORDER BY roleid) FROM pg_auth_members AS m), (SELECT count(*) FROM pg_prepared_xacts)
"""


@pytest.fixture
def postgres_target(postgres: Server, prepared: str) -> Iterator[Target]:
    """Watch the database by a connection of its owner, which is one thing more to be left alone."""
    with connected(postgres.url(prepared)) as owner:
        owner.execute("LISTEN canary")

        def state() -> object:
            query = f"SELECT pid FROM pg_stat_activity WHERE usename = '{READER}'"
            wait_until(lambda: owner.execute(query).fetchone() is None, "the query's connection to be closed")
            return owner.execute(STATE).fetchone(), list(owner.notifies(timeout=0))

        yield Target(postgres.url(prepared, f"{READER}:"), state)


@pytest.fixture
def target(engine: str, request: pytest.FixtureRequest) -> Target:
    return request.getfixturevalue(f"{engine}_target")


@pytest.mark.spec("G30", "G24", "G19", "T11")
@pytest.mark.parametrize(("name", "engine"), ALL)
async def test_a_query_cannot_do_more_than_read(name: str, engine: str, target: Target, folder: Path) -> None:
    connection = DatabaseConnection(url=target.url)
    config = DatabaseConfig(connections={"main": connection}, seconds=0.5, max_bytes=1 << 16)
    before, files = target.state(), sorted(folder.iterdir())
    async with session_for(database, config=config, permissions=["database:read"]) as desk:
        control = await desk.session.try_message(
            desk.session.message("db_query", {"query": "SELECT count(*) FROM people"})
        )
        assert control.data is not None, control.error
        assert control.data["rows"] == [[2]], control.error  # it does answer, so that refusing means something
        for number, case in enumerate(cases_of(name, engine), start=1):
            arguments = {"query": case.query.replace("{folder}", str(folder))}
            if "params" in CLASSES[name]:
                arguments["params"] = CLASSES[name]["params"]
            result = await desk.session.try_message(desk.session.message("db_query", arguments))
            message = json.dumps(result.data) if result.error is None else f"{result.error.message} {result.error.hint}"
            assert target.state() == before, case
            assert sorted(folder.iterdir()) == files, case
            records = await desk.records(tool="db_query")
            assert len(records) == number + 1, case
            assert records[-1].outcome == ("succeeded" if result.success else "failed"), case
            assert [word for word in (SECRET, "Traceback", target.url) if word in message] == [], case
            if case.must_fail:
                assert result.error is not None, case
                assert result.error.code != "internal_error", case


@pytest.mark.parametrize(("name", "engine"), ALL)
def test_every_class_says_why_and_has_three_cases(name: str, engine: str) -> None:
    assert CLASSES[name]["why"]
    assert len(CLASSES[name][engine]["refused"]) >= 3
