from __future__ import annotations

import asyncio
import resource
import signal
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path

import psutil
import pytest
from psycopg import sql

from capset.errors import DeadlineExceeded
from capset_testing import session_for
from capset_tools.database import DatabaseConfig, DatabaseConnection, database
from capset_tools.database.query_process import close_idle
from tests.databases import Server, connected
from tests.helpers.tools.database.support import Known, ask, asking, refused
from tests.waiting import moment, until

NUMBERS = count()
NAME = "asked"


@pytest.fixture(scope="module")
def shop(postgres: Server) -> str:
    postgres.empty(NAME)
    with connected(postgres.url(NAME)) as owner:
        owner.execute("CREATE TABLE people (id int, name text)")
        owner.execute("INSERT INTO people VALUES (1, 'ada'), (2, 'bob'), (3, 'eve')")
        owner.execute("CREATE ROLE asker LOGIN")
        owner.execute("GRANT SELECT ON people TO asker")
    return NAME


@pytest.fixture
def url(postgres: Server, shop: str) -> str:
    return postgres.url(shop, "asker:")


@pytest.fixture
def role(postgres: Server, shop: str) -> Iterator[str]:
    """Give a role that may log in, and that is gone afterwards."""
    name = f"role{next(NUMBERS)}"
    with connected(postgres.url(shop)) as owner:
        owner.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))
        yield name
        owner.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(name)))
        owner.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


@pytest.mark.spec("G30")
async def test_rows_come_with_their_columns_and_parameters_are_bound(url: str) -> None:
    async with asking(url) as desk:
        assert await ask(desk, "SELECT id, name FROM people WHERE id > $1 AND name LIKE '%b' ORDER BY id", 1) == {
            "columns": ["id", "name"],
            "rows": [[2, "bob"]],
            "row_count": 1,
            "truncated": False,
        }
        assert (await ask(desk, "SELECT $1, $2::text, $3::bool, $4::float8", "%s", None, True, 1.5))["rows"] == [
            ["%s", None, True, 1.5]
        ]
        assert (await ask(desk, "TABLE people ORDER BY id DESC LIMIT 1;"))["rows"] == [[3, "eve"]]
        assert (await ask(desk, "WITH a AS (VALUES (1), (2)) SELECT * FROM a"))["rows"] == [[1], [2]]


@pytest.mark.spec("G30")
@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1.50::numeric", "1.50"),
        ("'NaN'::numeric", "NaN"),
        ("'Infinity'::float8", "inf"),
        ("'\\x00ff'::bytea", {"base64": "AP8="}),
        ("'2024-01-02'::date", "2024-01-02"),
        ("'2024-01-02 03:04:05.5'::timestamp", "2024-01-02T03:04:05.5"),
        ("'2024-01-02 03:04:05+02'::timestamptz", "2024-01-02T01:04:05+00:00"),
        ("'03:04:05'::time", "03:04:05"),
        ("'infinity'::timestamptz", "infinity"),
        ("'0044-03-15 BC'::date", "0044-03-15 BC"),
        ("'1 day 2 hours'::interval", "P1DT2H"),
        ("ARRAY[1, NULL]", [1, None]),
        ("ARRAY['2024-01-02'::date]", ["2024-01-02"]),
        ("'{\"a\": [1]}'::jsonb", '{"a": [1]}'),
        ("'[1,3)'::int4range", "[1,3)"),
        ("'10.0.0.1'::inet", "10.0.0.1"),
        ("'3f2504e0-4f89-11d3-9a0c-0305e82c3301'::uuid", "3f2504e0-4f89-11d3-9a0c-0305e82c3301"),
        ("true", True),
        ("9223372036854775807", 2**63 - 1),
    ],
)
async def test_every_type_comes_as_json(expression: str, value: object, url: str) -> None:
    async with asking(url) as desk:
        assert (await ask(desk, f"SELECT {expression}"))["rows"] == [[value]]


@pytest.mark.spec("G30")
async def test_rows_and_bytes_are_capped(url: str) -> None:
    async with asking(url, max_rows=700) as desk:
        result = await ask(desk, "SELECT i FROM generate_series(1, 5000) AS i")
        assert result["rows"] == [[i] for i in range(1, 701)]
        assert result["truncated"] is True
        assert (await ask(desk, "SELECT i FROM generate_series(1, 700) AS i"))["truncated"] is False
    async with asking(url, max_bytes=10_000) as desk:
        result = await ask(desk, "SELECT repeat('a', i) FROM generate_series(1, 5000) AS i")
        assert result["truncated"] is True
        assert 100 < result["row_count"] < 200
        assert (await refused(desk, "SELECT repeat('a', 20000)")).code == "too_large"
        # A few small rows, then one of which nobody waits for the end.
        result = await ask(
            desk, "SELECT repeat('a', CASE i WHEN 3 THEN 50000000 ELSE 1 END) FROM generate_series(1, 9) i"
        )
        assert (result["rows"][0], result["truncated"]) == (["a"], True)


SLOW = "SELECT count(*) FROM generate_series(1, 100000000000)"


@pytest.mark.spec("G30")
async def test_time_is_capped(url: str) -> None:
    async with asking(url, seconds=0.3) as desk:
        assert (await refused(desk, SLOW)).code == "query_timeout"
    async with asking(url) as desk:
        assert (await ask(desk, "SELECT 1"))["rows"] == [[1]]


@pytest.mark.realtime
@pytest.mark.spec("G30")
async def test_a_query_ends_in_time_where_the_server_says_nothing_more(url: str, postgres: Server) -> None:
    async with asking(url, seconds=3) as desk:
        await ask(desk, "SELECT 1")
        query_task = asyncio.create_task(refused(desk, SLOW))
        await until(lambda: is_asking(postgres), "the query to run")
        frozen = postgres.freeze()
        try:
            assert (await query_task).code == "query_timeout"
        finally:
            for process in frozen:
                with suppress(psutil.NoSuchProcess):  # a connection that has ended
                    process.send_signal(signal.SIGCONT)


@pytest.mark.spec("G30")
async def test_a_query_ends_with_its_call(url: str, postgres: Server) -> None:
    """On the server, too."""
    async with asking(url, seconds=60) as desk:
        await ask(desk, "SELECT 1")
        call = desk.session.message("db_query", {"query": SLOW})
        result = await desk.session.options(timeout=0.5).try_message(call)
        assert isinstance(result.error, DeadlineExceeded)
        assert desk.kernel.abandoned == 0
    await until(lambda: not is_asking(postgres), "the query to end on the server")


def is_asking(postgres: Server) -> bool:
    """Return whether a query runs on the server."""
    with connected(postgres.url("postgres")) as owner:
        running = "SELECT FROM pg_stat_activity WHERE usename = 'asker' AND state = 'active'"
        return owner.execute(running).fetchone() is not None


@pytest.mark.spec("G30", "T11")
@pytest.mark.parametrize(
    "query",
    [
        "SELECT repeat('a', 500000000)",
        "SELECT repeat('a', 100000) FROM generate_series(1, 100000)",
        "SELECT i, repeat('a', CASE WHEN i > 300 THEN 1000000 ELSE 1 END) FROM generate_series(1, 5000) AS i",
    ],
    ids=["one value", "many rows", "small rows and then large ones"],
)
async def test_no_process_takes_more_memory_than_it_may_however_large_rows_are(query: str, url: str) -> None:
    async with asking(url) as desk:
        await ask(desk, "SELECT 1")
        peak_before = own_peak()
        async with peaks_of_processes() as peaks:
            await desk.session.try_message(desk.session.message("db_query", {"query": query}))
        assert own_peak() < peak_before + (64 << 20)
        assert 0 < max(peaks) <= 160 << 20
        assert (await ask(desk, "SELECT 1"))["rows"] == [[1]]


def own_peak() -> int:
    """Return the most memory that this process has had, in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@asynccontextmanager
async def peaks_of_processes() -> AsyncGenerator[list[int]]:
    """Yield the most memory that each process which asks has had, in bytes, and go on looking until the end.

    What the system says of ended processes begins with the memory of this one, whose copy they were.
    """
    peaks: list[int] = []

    def look() -> None:
        with suppress(OSError, psutil.NoSuchProcess, IndexError):  # one has ended
            for process in asking_processes():
                status = Path(f"/proc/{process.pid}/status").read_text()
                peaks.append(1024 * int(status.partition("VmHWM:")[2].split()[0]))

    async def watch() -> None:
        while True:
            look()
            await moment()

    watching = asyncio.create_task(watch())
    try:
        yield peaks
        look()
    finally:
        watching.cancel()


def asking_processes() -> list[psutil.Process]:
    """Return the processes that are kept for the next queries."""
    return [
        process
        for process in psutil.Process().children()
        if any("database/child" in word for word in process.cmdline())
    ]


@pytest.mark.spec("G30", "T16")
async def test_a_password_is_in_no_argument_and_in_no_environment(postgres: Server, shop: str) -> None:
    secrets = Known(DATABASE_URL=postgres.url(shop, "asker:open%20sesame"))
    config = DatabaseConfig(connections={"main": DatabaseConnection(secret="DATABASE_URL")})
    async with session_for(database, config=config, permissions=["database:read"], secrets=secrets) as desk:
        assert (await ask(desk, "SELECT 1"))["rows"] == [[1]]
    processes = asking_processes()
    assert processes
    for process in processes:
        assert "sesame" not in f"{process.cmdline()} {process.environ()}"
        assert not [name for name in process.environ() if name.startswith(("CAPSET", "PG"))]


@pytest.mark.spec("G30")
async def test_libraries_are_loaded_from_where_the_host_has_them(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Python that was built with its own libpq finds it by ``LD_LIBRARY_PATH``."""
    close_idle()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    async with asking(url) as desk:
        assert (await ask(desk, "SELECT 1"))["rows"] == [[1]]
    (process,) = asking_processes()
    assert process.environ()["LD_LIBRARY_PATH"] == str(tmp_path)
    close_idle()


@pytest.mark.spec("G30", "G4", "G24")
@pytest.mark.parametrize(
    ("query", "params", "expected"),
    [
        ("SELECT * FROM nothing", (), 'PostgreSQL: relation "nothing" does not exist'),
        ("SELECT nam FROM people", (), 'PostgreSQL: column "nam" does not exist; Perhaps you meant'),
        ("DELETE FROM people", (), 'PostgreSQL: syntax error at or near "DELETE"'),
        (
            "SELECT * FROM people FOR UPDATE",
            (),
            "PostgreSQL: cannot execute SELECT FOR UPDATE in a read-only transaction",
        ),
        ("SELECT 1 / 0", (), "PostgreSQL: division by zero"),
        ("SELECT $1", (), "PostgreSQL: bind message supplies 0 parameters"),
        ("SELECT 1; SELECT 2", (), "PostgreSQL: cannot insert multiple commands into a prepared statement"),
        ("SELECT $1", ("a\0b",), "PostgreSQL: PostgreSQL text fields cannot contain NUL"),
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
        "CREATE TABLE pets (name text)",
        "-- a table\ncreate table pets as select 1",
        "DROP TABLE people",
        "INSERT INTO people VALUES (9, 'x')",
        "DELETE FROM people",
        "SET statement_timeout = 0",
        "WITH gone AS (DELETE FROM people RETURNING 1) SELECT 1",
        "SELECT * FROM people FOR UPDATE",
    ],
)
async def test_what_would_do_more_than_read_is_refused_as_forbidden(query: str, url: str) -> None:
    async with asking(url) as desk:
        error = await refused(desk, query)
    assert (error.code, error.status, error.retryable) == ("tool_error", 403, False)
    assert error.message.endswith("; db_query only reads, by one SELECT")


async def test_a_misspelled_word_is_not_taken_for_something_forbidden(url: str) -> None:
    async with asking(url) as desk:
        error = await refused(desk, "SELEC 1")
    assert (error.status, error.message) == (400, 'PostgreSQL: syntax error at or near "SELEC"')


async def test_a_table_that_is_locked_is_waited_for_and_then_busy_for_now(
    url: str, postgres: Server, shop: str
) -> None:
    with connected(postgres.url(shop)) as owner, owner.transaction():
        owner.execute("LOCK TABLE people IN ACCESS EXCLUSIVE MODE")
        async with asking(url) as desk:
            error = await refused(desk, "SELECT * FROM people")
    assert (error.code, error.status, error.retryable) == ("database_busy", 503, True)
    assert error.message.endswith("; try again")


@pytest.mark.spec("G30")
@pytest.mark.parametrize(
    ("power", "expected"),
    [
        ("ALTER ROLE {} SUPERUSER", "is a superuser"),
        ("ALTER ROLE {} REPLICATION", "may replicate"),
        ("GRANT pg_read_server_files TO {}", "can become pg_read_server_files"),
        ("GRANT pg_signal_backend TO {} WITH INHERIT FALSE", "can become pg_signal_backend"),
        ("GRANT postgres TO {} WITH INHERIT FALSE", "can become postgres"),
    ],
)
async def test_a_role_that_could_do_more_than_read_is_refused(
    power: str, expected: str, role: str, postgres: Server, shop: str
) -> None:
    async with asking(postgres.url(shop, f"{role}:")) as desk:
        assert (await ask(desk, "SELECT 1"))["rows"] == [[1]]
        with connected(postgres.url(shop)) as owner:
            owner.execute(sql.SQL(power).format(sql.Identifier(role)))  # pyright: ignore[reportArgumentType]
        error = await refused(desk, "SELECT 1")
    assert (error.code, error.status) == ("role_too_powerful", 403)
    assert expected in error.message


ORDINARY_QUERIES = """
SELECT upper(name), coalesce(name, ''), left(name, 1) FROM people WHERE name LIKE ('%' || 'b') AND id IN (1, 2)
SELECT count(*) FILTER (WHERE id > 1), sum(id) OVER (PARTITION BY name ORDER BY id) FROM people GROUP BY (id), name
SELECT DISTINCT ON (name) now()::date, date_trunc('day', now()), extract(year FROM now()), age(now()) FROM people
WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT (i + 1) FROM n WHERE i < 3), m(j) AS (SELECT 1) SELECT * FROM n, m
SELECT v.a FROM (VALUES (1, 2)) v(a, b) JOIN LATERAL (SELECT 1) AS l(c) ON (v.a = l.c) WHERE EXISTS (SELECT 1)
SELECT cast('1.5' AS numeric(10, 2)), '3'::varchar(5), interval '1 day' * 2, ARRAY(SELECT 1), (1, 2) = ANY (SELECT 1, 2)
SELECT to_jsonb(people), people.name, jsonb_path_query('{"a": 1}', '$.a'), '[1]'::jsonb -> 0 FROM people
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY id), string_agg(name, ',' ORDER BY id) FROM people
SELECT id FROM people TABLESAMPLE bernoulli (100) GROUP BY GROUPING SETS ((id), ()) HAVING (count(*) > 0)
SELECT trim(both 'a' FROM name), substring(name FROM 1 FOR 2), overlay(name PLACING 'x' FROM 1) FROM people
SELECT 'pg_sleep(1)', $x$pg_sleep(1)$x$, "name" AS "pg_sleep", E'it\\'s pg_sleep(1)' FROM people -- pg_sleep(1)
SELECT i /* pg_sleep(1) /* */ */ FROM generate_series(1, 3) i, unnest(ARRAY[1, 2]) WITH ORDINALITY AS u(a, b)
"""


@pytest.mark.spec("G30")
@pytest.mark.parametrize("query", ORDINARY_QUERIES.strip().splitlines())
async def test_ordinary_queries_are_answered(query: str, url: str) -> None:
    async with asking(url) as desk:
        assert (await ask(desk, query))["row_count"] > 0


@pytest.mark.spec("G30", "T11")
@pytest.mark.parametrize(
    ("query", "function"),
    [
        ("SELECT pg_logical_emit_message(false, 'a', repeat('a', 1000000))", "pg_logical_emit_message"),
        ("SELECT pg_catalog . PG_Sleep /* so */ (1)", "pg_sleep"),
        ('SELECT "pg_sleep"(1)', "pg_sleep"),
        ("SELECT E'\\'', pg_sleep(1), 'x'", "pg_sleep"),
        ("SELECT 'a\\', pg_sleep(1), 'x'", "pg_sleep"),
        ("SELECT E'a'\n'\\'', pg_sleep(1), 'x'", "pg_sleep"),
        ("SELECT * FROM pg_advisory_lock(1) AS a(b)", "pg_advisory_lock"),
        ("SELECT people.total FROM people", "total"),
        ("SELECT (people).total FROM people", "total"),
        ("SELECT (1::int8).pg_advisory_lock", "pg_advisory_lock"),
        ("SELECT (pid).pg_terminate_backend FROM pg_stat_activity", "pg_terminate_backend"),
    ],
)
async def test_a_function_that_is_not_ordinary_is_named_and_not_called(
    query: str, function: str, url: str, postgres: Server, shop: str
) -> None:
    with connected(postgres.url(shop)) as owner:
        owner.execute("CREATE OR REPLACE FUNCTION total(people) RETURNS int LANGUAGE sql AS 'SELECT 1'")
    async with asking(url) as desk:
        error = await refused(desk, query)
    assert (error.code, error.status) == ("function_not_allowed", 403), error
    assert f"does not call {function}:" in error.message
    assert "`functions`" in error.hint


@pytest.mark.spec("G30")
async def test_an_operator_allows_further_functions_by_their_names(url: str, postgres: Server, shop: str) -> None:
    with connected(postgres.url(shop)) as owner:
        owner.execute("CREATE OR REPLACE FUNCTION doubled(int) RETURNS int LANGUAGE sql AS 'SELECT 2 * $1'")
    async with asking(url, functions=["doubled"]) as desk:
        assert (await ask(desk, "SELECT doubled(2)"))["rows"] == [[4]]
        assert (await refused(desk, "SELECT pg_sleep(1)")).code == "function_not_allowed"


@pytest.mark.spec("G30", "T11")
@pytest.mark.parametrize(
    "query", ['SELECT U&"pg\\005fsleep"(1)', "SELECT TREAT(1 AS pg_sleep)", "SELECT 1e5$x$, pg_sleep(1), $x$"]
)
async def test_what_could_be_read_in_two_ways_is_refused(query: str, url: str) -> None:
    async with asking(url) as desk:
        assert (await refused(desk, query)).message.startswith("the query cannot be read for certain")


@pytest.mark.spec("G30", "P91", "T91")
async def test_a_store_of_capsets_is_not_asked(postgres_url: str) -> None:
    with connected(postgres_url) as owner:
        owner.execute("DO $$ BEGIN CREATE ROLE stranger LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
    async with asking(postgres_url.replace("postgres:@", "stranger:@", 1)) as desk:
        error = await refused(desk, "SELECT 1")
    assert (error.code, error.status) == ("own_store", 403)


@pytest.mark.spec("G24")
@pytest.mark.parametrize(
    "url",
    ["postgresql://ada@127.0.0.1:1/vault", "postgresql://ada@127.0.0.1:port/vault", "postgresql:///vault?host=/gone"],
)
async def test_nothing_is_told_of_a_server_that_does_not_answer(url: str) -> None:
    async with asking(url) as desk:
        error = await refused(desk, "SELECT 1")
    assert (error.code, error.message) == ("database_unavailable", "the database 'main' did not answer")
