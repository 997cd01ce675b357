from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from threading import active_count

import pytest

from capset import Kernel
from capset.errors import DeadlineExceeded
from capset_tools.database import DatabaseConfig
from capset_tools.database.cancellation import Halt
from capset_tools.database.sqlite import open_read_only
from tests.helpers.tools.database.support import ask, asking, made, refused
from tests.waiting import until

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
PEOPLE = """
CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT);
INSERT INTO people VALUES (1, 'ada'), (2, 'bob'), (3, 'eve');
CREATE VIRTUAL TABLE words USING fts5(text);
INSERT INTO words VALUES ('hello world'), ('good bye');
CREATE VIEW upper_names AS SELECT upper(name) AS name FROM people;
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return made(tmp_path / "people.db", PEOPLE)


@pytest.mark.spec("G30")
async def test_rows_come_with_their_columns_and_as_json(url: str) -> None:
    async with asking(url) as desk:
        assert await ask(desk, "SELECT id, name FROM people WHERE id > ? ORDER BY id", 1) == {
            "columns": ["id", "name"],
            "rows": [[2, "bob"], [3, "eve"]],
            "row_count": 2,
            "truncated": False,
        }
        values = await ask(desk, "SELECT NULL, 1.5, x'00ff', 1e999, CAST(x'ff41' AS TEXT), 9223372036854775807")
        assert values["rows"] == [[None, 1.5, {"base64": "AP8="}, "inf", "\ufffdA", 2**63 - 1]]
        assert (await ask(desk, "SELECT ?, ?, ?, ?, ?", "a'b", 1, 0.5, None, True))["rows"] == [
            ["a'b", 1, 0.5, None, 1]
        ]
        assert (await ask(desk, "SELECT id, id FROM people WHERE id = 9"))["columns"] == ["id", "id"]


@pytest.mark.spec("G30")
async def test_what_only_reads_works(url: str) -> None:
    async with asking(url) as desk:
        for query, rows in {
            "SELECT name FROM sqlite_schema WHERE type = 'view'": [["upper_names"]],
            "SELECT * FROM upper_names ORDER BY 1 LIMIT 1": [["ADA"]],
            "SELECT highlight(words, 0, '<', '>') FROM words WHERE words MATCH 'hello'": [["<hello> world"]],
            "SELECT value FROM json_each('[1, 2]')": [[1], [2]],
            "SELECT row_number() OVER (ORDER BY name DESC), name FROM people LIMIT 1": [[1, "eve"]],
            "VALUES (1, 'a'), (2, 'b')": [[1, "a"], [2, "b"]],
            "SELECT date('2024-02-28', '+1 day'), round(2.567, 1)": [["2024-02-29", 2.6]],
            "SELECT '{\"a\": [1]}' ->> '$.a[0]';": [[1]],
            "SELECT replace('aXbX', 'X', '-'), instr('hello', 'l'), trim('xxaxx', 'x'), ltrim(' a')": [
                ["a-b-", 3, "a", "a"]
            ],
            "SELECT replace(1.0, '.', ','), replace('a', '', 'b'), replace(NULL, 1, 1), instr(x'0102', x'02')": [
                ["1,0", "a", None, 2]
            ],
            "SELECT detail FROM (SELECT 'x' AS detail)": [["x"]],
        }.items():
            assert (await ask(desk, query))["rows"] == rows, query


@pytest.mark.spec("G30")
async def test_rows_and_bytes_are_capped(url: str) -> None:
    async with asking(url, max_rows=2) as desk:
        result = await ask(desk, "SELECT id FROM people ORDER BY id")
        assert (result["rows"], result["row_count"], result["truncated"]) == ([[1], [2]], 2, True)
        assert (await ask(desk, "SELECT id FROM people LIMIT 2"))["truncated"] is False
        assert (await ask(desk, f"{ENDLESS}SELECT i FROM n"))["row_count"] == 2
    async with asking(url, max_bytes=1024) as desk:
        result = await ask(desk, f"{ENDLESS}SELECT hex(i) || hex('{'a' * 100}') FROM n")
        assert result["truncated"] is True
        assert 1 < result["row_count"] < 6
        assert (await refused(desk, "SELECT hex(?)", "a" * 600)).code == "too_large"
        assert (await refused(desk, "SELECT ?, ?", "é" * 300, "é" * 300)).code == "too_large"


@pytest.mark.spec("G30")
async def test_time_is_capped(url: str) -> None:
    async with asking(url, seconds=0.2) as desk:
        error = await refused(desk, f"{ENDLESS}SELECT count(*) FROM n")
    assert (error.code, error.status) == ("query_timeout", 504)
    assert "0.2 s" in error.message


@pytest.mark.realtime
@pytest.mark.spec("G30")
async def test_a_query_ends_with_its_call(url: str) -> None:
    """The thread is stopped, not left behind."""
    async with asking(url, seconds=60) as desk:
        threads = active_count()
        call = desk.session.message("db_query", {"query": f"{ENDLESS}SELECT count(*) FROM n"})
        result = await desk.session.options(timeout=0.2).try_message(call)
        assert isinstance(result.error, DeadlineExceeded)
        await until(lambda: active_count() == threads)
        running = asyncio.ensure_future(desk.session.try_message(call))
        await asyncio.sleep(0.1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await until(lambda: active_count() == threads)
        assert desk.kernel.abandoned == 0


@pytest.mark.spec("G30", "G4")
@pytest.mark.parametrize(
    ("query", "params", "expected"),
    [
        ("SELECT * FROM missing", (), "SQLite: no such table: missing"),
        ("SELEC 1", (), 'SQLite: near "SELEC": syntax error'),
        ("DELETE FROM people", (), "SQLite: not authorized; db_query only reads, by one SELECT"),
        ("SELECT load_extension('a')", (), "SQLite: not authorized to use function: load_extension; db_query only"),
        ("SELECT ?", (), "SQLite: Incorrect number of bindings supplied"),
        ("SELECT ?", (2**70,), "SQLite cannot hold the query or a parameter"),
        (" ", (), "the query gives no rows"),
        ("SELECT 1; SELECT 2", (), "SQLite: You can only execute one statement at a time"),
    ],
)
async def test_the_model_is_told_what_is_wrong_with_its_query(
    query: str, params: tuple[object, ...], expected: str, url: str
) -> None:
    async with asking(url) as desk:
        assert (await refused(desk, query, *params)).message.startswith(expected)


@pytest.mark.spec("G30")
@pytest.mark.parametrize(
    "query",
    [
        "CREATE TABLE pets (name)",
        "CREATE TABLE IF NOT EXISTS people (name)",
        "create temp table pets (name)",
        "CREATE TABLE pets AS SELECT name FROM people",
        "CREATE VIEW names AS SELECT name FROM people",
        "CREATE INDEX by_name ON people (name)",
        "CREATE VIRTUAL TABLE pets USING fts5(name)",
        "CREATE TRIGGER t AFTER INSERT ON people BEGIN SELECT 1; END",
        "DROP TABLE people",
        "ALTER TABLE people ADD COLUMN age",
        "INSERT INTO people VALUES (9, 'x')",
        "UPDATE people SET name = 'x'",
        "DELETE FROM people",
        "VACUUM INTO 'copy.db'",
        "ATTACH 'other.db' AS other",
        "PRAGMA user_version",
    ],
)
async def test_what_would_do_more_than_read_is_refused_as_forbidden(query: str, url: str) -> None:
    async with asking(url) as desk:
        error = await refused(desk, query)
    assert (error.code, error.status, error.retryable) == ("tool_error", 403, False)
    assert error.message.endswith("; db_query only reads, by one SELECT")


async def test_a_column_that_is_missing_is_not_taken_for_something_forbidden(url: str) -> None:
    async with asking(url) as desk:
        error = await refused(desk, "SELECT authorized FROM people")
    assert (error.status, error.message) == (400, "SQLite: no such column: authorized")


@pytest.mark.spec("G30")
async def test_a_table_of_300_columns_and_very_long_statements_keep_nothing_else_from_being_read(
    tmp_path: Path,
) -> None:
    columns, long = ", ".join(f"c{number} INTEGER" for number in range(300)), "x" * 100_000
    script = f"""
        CREATE TABLE wide ({columns}); INSERT INTO wide (c299) VALUES (7);
        CREATE TABLE verbose (name TEXT DEFAULT '{long}'); INSERT INTO verbose VALUES ('ada');
        CREATE VIEW wordy AS SELECT name, '{long}' AS words FROM verbose;
        CREATE TABLE teas (name TEXT); INSERT INTO teas VALUES ('sencha');
    """
    url = made(tmp_path / "wide.db", script)
    async with asking(url) as desk:
        for query, rows in {
            "SELECT name FROM teas": [["sencha"]],
            "SELECT c299, c298 FROM wide": [[7, None]],
            "SELECT name FROM verbose": [["ada"]],
            "SELECT name FROM wordy": [["ada"]],
            "SELECT count(*) FROM sqlite_schema": [[4]],
        }.items():
            assert (await ask(desk, query))["rows"] == rows, query
        error = await refused(desk, "SELECT * FROM wide")
        assert (error.status, error.message) == (400, "SQLite: too many columns in result set")
    async with asking(url, max_bytes=1024) as desk:
        assert (await ask(desk, "SELECT name FROM teas"))["rows"] == [["sencha"]]
        assert (await ask(desk, "SELECT c299 FROM wide"))["rows"] == [[7]]
        for query in ("SELECT words FROM wordy", "SELECT name FROM verbose", "SELECT sql FROM sqlite_schema"):
            assert (await refused(desk, query)).code == "too_large", query


def test_a_wide_table_that_comes_while_a_query_begins_does_not_keep_it_from_reading(url: str) -> None:
    """Within its limits the query could not read the changed schema."""
    file = Path(url.removeprefix("sqlite:///"))
    columns = ", ".join(f"c{number} INTEGER" for number in range(300))
    with closing(sqlite3.connect(file)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        with closing(open_read_only(file, DatabaseConfig(), Halt(10), "main")) as connection:
            writer.execute(f"CREATE TABLE wide ({columns})")
            assert connection.execute("SELECT count(*) FROM people").fetchall() == [(3,)]
        with closing(open_read_only(file, DatabaseConfig(), Halt(10), "main")) as connection:
            assert connection.execute("SELECT count(c299) FROM wide").fetchall() == [(0,)]


@pytest.mark.spec("G30", "P91", "T91")
async def test_a_store_of_capsets_is_not_asked(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/capset.db"
    async with Kernel(store=url):
        pass
    async with asking(url) as desk:
        error = await refused(desk, "SELECT 1")
    assert (error.code, error.status) == ("own_store", 403)


@pytest.mark.spec("G24")
async def test_nothing_is_told_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database " * 100)
    for name in ("missing.db", "text.db", "."):
        async with asking(f"sqlite:///{tmp_path}/{name}") as desk:
            error = await refused(desk, "SELECT * FROM sqlite_schema")
        assert error.code == "database_unavailable"
        assert str(tmp_path) not in f"{error.message} {error.hint}"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text.db"]


async def test_a_database_that_is_being_written_is_waited_for_and_then_busy_for_now(url: str) -> None:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        async with asking(url, seconds=0.2) as desk:
            error = await refused(desk, "SELECT * FROM people")
    assert (error.code, error.status, error.retryable) == ("database_busy", 503, True)
    assert error.message.endswith("; try again")


async def test_a_database_in_wal_mode_is_read_as_it_is_now(url: str) -> None:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("INSERT INTO people VALUES (4, 'dan')")
        async with asking(url) as desk:
            assert (await ask(desk, "SELECT count(*) FROM people"))["rows"] == [[4]]
            writer.execute("DELETE FROM people")
            assert (await ask(desk, "SELECT count(*) FROM people"))["rows"] == [[0]]
