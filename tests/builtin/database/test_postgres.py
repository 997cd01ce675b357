from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from psycopg import sql

from capset.errors import DeadlineExceeded
from tests.builtin.database.support import ask, asking, refused
from tests.databases import Server, connected
from tests.waiting import until

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


@pytest.mark.spec("G30")
@pytest.mark.parametrize(
    "query", ["SELECT pg_sleep(60)", "SELECT set_config('statement_timeout', '0', false), pg_sleep(60)"]
)
async def test_time_is_capped(query: str, url: str) -> None:
    async with asking(url, seconds=0.3) as desk:
        assert (await refused(desk, query)).code == "query_timeout"


@pytest.mark.spec("G30")
async def test_time_is_capped_where_the_query_has_changed_the_servers_timeout(url: str) -> None:
    query = "SELECT set_config('statement_timeout', '0', false), pg_sleep(60 * i) FROM generate_series(0, 1) AS i"
    async with asking(url, seconds=0.3) as desk:
        assert (await refused(desk, query)).code == "query_timeout"


@pytest.mark.spec("G30")
async def test_a_query_ends_with_its_call(url: str, postgres: Server, shop: str) -> None:
    """On the server, too."""
    async with asking(url, seconds=60) as desk:
        call = desk.session.message("db_query", {"query": "SELECT pg_sleep(60)"})
        result = await desk.session.options(timeout=0.5).try_message(call)
        assert isinstance(result.error, DeadlineExceeded)
        assert desk.kernel.abandoned == 0
    with connected(postgres.url(shop)) as owner:
        running = "SELECT FROM pg_stat_activity WHERE usename = 'asker'"
        await until(lambda: owner.execute(running).fetchone() is None, "the query to end on the server")


@pytest.mark.spec("G30", "G4", "G24")
@pytest.mark.parametrize(
    ("query", "params", "told"),
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
    query: str, params: tuple[object, ...], told: str, url: str
) -> None:
    async with asking(url) as desk:
        assert (await refused(desk, query, *params)).message.startswith(told)


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
    ("power", "told"),
    [
        ("ALTER ROLE {} SUPERUSER", "is a superuser"),
        ("ALTER ROLE {} REPLICATION", "may replicate"),
        ("GRANT pg_read_server_files TO {}", "can become pg_read_server_files"),
        ("GRANT pg_signal_backend TO {} WITH INHERIT FALSE", "can become pg_signal_backend"),
        ("GRANT postgres TO {} WITH INHERIT FALSE", "can become postgres"),
        ("GRANT EXECUTE ON FUNCTION pg_read_file(text) TO {}", "may call pg_read_file(text)"),
        ("GRANT EXECUTE ON FUNCTION lo_export(oid, text) TO {}", "may call lo_export(oid,text)"),
    ],
)
async def test_a_role_that_could_do_more_than_read_is_refused(
    power: str, told: str, role: str, postgres: Server, shop: str
) -> None:
    async with asking(postgres.url(shop, f"{role}:")) as desk:
        assert (await ask(desk, "SELECT 1"))["rows"] == [[1]]
        with connected(postgres.url(shop)) as owner:
            owner.execute(sql.SQL(power).format(sql.Identifier(role)))  # pyright: ignore[reportArgumentType]
        error = await refused(desk, "SELECT 1")
    assert (error.code, error.status) == ("role_too_powerful", 403)
    assert told in error.message


@pytest.mark.spec("G24")
@pytest.mark.parametrize(
    "url",
    ["postgresql://ada@127.0.0.1:1/vault", "postgresql://ada@127.0.0.1:port/vault", "postgresql:///vault?host=/gone"],
)
async def test_nothing_is_told_of_a_server_that_does_not_answer(url: str) -> None:
    async with asking(url) as desk:
        error = await refused(desk, "SELECT 1")
    assert (error.code, error.message) == ("database_unavailable", "the database 'main' did not answer")
