"""What a URL can name, and what can be wrong with it: one clear sentence each, and never a secret (spec 4, G24)."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from typing import LiteralString

import pytest
from psycopg import errors
from sqlalchemy import Connection

from capset.errors import DefinitionError, StoreError
from capset.extras import install_command
from capset.stores.sql.postgres import engines
from capset.stores.sql.postgres.store import open_postgres
from capset.stores.sql.problems import store_error
from tests.databases import Server, connected
from tests.helpers.stores.sql.support import opened_at


async def failure_of(url: str) -> StoreError | DefinitionError:
    """Return why a store cannot be opened, which must be said without the URL, and where it is not the name's fault."""
    with pytest.raises((StoreError, DefinitionError)) as failure:
        await open_postgres(url).open()
    message = f"{failure.value.message} {failure.value.hint}"
    for secret in ("sesame", "guarded", "/tmp", "nowhere.invalid", "127.0.0.1", "psycopg", "SELECT"):
        assert secret not in message
    return failure.value


@pytest.mark.parametrize(
    "url",
    [
        *("postgresql://", "postgresql:///", "postgres://me:sesame@host", "postgresql://me:sesame@host:port/db"),
        *("postgresql:me:sesame", "mysql://me:sesame@host/db", "postgresql+asyncpg://me:sesame@host/db"),
    ],
)
def test_a_url_that_names_no_database_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(DefinitionError, match="the store's URL") as failure:
        open_postgres(url)
    assert "sesame" not in f"{failure.value.message} {failure.value.hint}"
    assert "postgresql://USER:PASSWORD@HOST:PORT/DATABASE" in str(failure.value.hint)


async def test_without_the_driver_it_is_named(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(DefinitionError, match="needs the extra 'postgres'") as failure:
        await open_postgres(postgres_url).open()
    assert failure.value.hint == install_command("postgres")


@pytest.mark.realtime
def test_a_store_that_is_not_opened_and_one_in_a_file_load_no_driver() -> None:
    code = "open_postgres('postgresql://host/db'); asyncio.run(open_sqlite('sqlite:///a.db').open())"
    script = f"import asyncio, sys; from capset.stores.sql import *; {code}; print('psycopg' in sys.modules)"
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


async def test_both_schemes_name_one_database(postgres_url: str) -> None:
    for url in (postgres_url, postgres_url.replace("postgresql:", "postgres:")):
        async with opened_at(url) as store:
            assert (await store.audit.verify()).ok


@pytest.mark.spec("G24")
@pytest.mark.parametrize(
    ("place", "message"),
    [
        *((place, "cannot be reached") for place in ("127.0.0.1:1/notes", "nowhere.invalid/notes")),
        ("/notes?host=/tmp/nowhere", "cannot be reached"),
        ("127.0.0.1:1/notes?speed=high", "has an option that its driver does not know"),
    ],
)
async def test_a_server_that_is_not_there_is_said_to_be(place: str, message: str) -> None:
    failure = await failure_of(f"postgresql://me:sesame@{place}")
    assert (failure.message, bool(failure.hint)) == (f"the database 'notes' {message}", True)


@pytest.mark.spec("G24")
async def test_who_is_refused_is_told_why(postgres: Server) -> None:
    postgres.run("CREATE ROLE guarded LOGIN PASSWORD 'sesame' CONNECTION LIMIT 1")
    postgres.empty("vault")
    for name, user, message in (
        *(
            ("vault", user, "refused the user or the password")
            for user in ("guarded:sesame!", "guarded:", "nobody:sesame")
        ),
        ("no vault", "guarded:sesame", "does not exist"),
        ("vault", "guarded:sesame", "has no connection left"),
    ):
        failure = await failure_of(postgres.url(name, user))
        assert (failure.message, bool(failure.hint)) == (f"the database '{name}' {message}", True)
    postgres.run("ALTER ROLE guarded CONNECTION LIMIT -1")
    failure = await failure_of(postgres.url("vault", "guarded:sesame"))
    assert failure.message == "the database 'vault' does not grant its user what capset needs"
    postgres.run("ALTER DATABASE vault OWNER TO guarded")
    async with opened_at(postgres.url("vault", "guarded:sesame")) as store:
        assert (await store.audit.verify()).ok


@pytest.mark.spec("P30")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("CREATE TABLE recipes (name TEXT)", "belongs to another program"),
        ("CREATE TABLE alembic_version AS SELECT '9999' AS version_num", "its revision is '9999'"),
    ],
)
async def test_what_is_not_ours_is_left_alone(change: LiteralString, message: str, postgres: Server) -> None:
    url = postgres.empty()
    with connected(url) as connection:
        connection.execute(change)
        assert message in (await failure_of(url)).message
        cursor = connection.execute("SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace")
        assert cursor.fetchone() == (1,)


async def test_a_server_or_database_that_cannot_do_is_refused(
    postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.empty(options="TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
    assert "is encoded in LATIN1, which cannot hold every text" in (await failure_of(url)).message
    monkeypatch.setattr(engines, "OLDEST_VERSION", 99)
    assert "capset needs 99 or newer" in (await failure_of(url)).message


@pytest.mark.spec("P30")
async def test_text_is_in_the_order_of_code_points_whatever_the_databases_collation_is(postgres_url: str) -> None:
    with connected(postgres_url) as connection:
        rows = connection.execute(
            "SELECT table_name, column_name, collation_name FROM information_schema.columns"
            " WHERE table_schema = 'public' AND data_type = 'text'"
        ).fetchall()
    assert len(rows) > 70
    assert {collation for _, _, collation in rows} == {"C"}, rows


@pytest.mark.spec("G23")
async def test_writes_are_durable_and_reads_cannot_write_whatever_the_servers_defaults(postgres_url: str) -> None:
    def settings(connection: Connection) -> list[object]:
        names = ["synchronous_commit", "transaction_isolation", "transaction_read_only", "lock_timeout"]
        names.append("idle_in_transaction_session_timeout")
        return [connection.exec_driver_sql(f"SHOW {name}").scalar() for name in names]

    with connected(postgres_url) as connection:
        connection.execute("ALTER ROLE postgres SET synchronous_commit = off")
        connection.execute("ALTER ROLE postgres SET default_transaction_isolation = serializable")
        try:
            async with opened_at(postgres_url) as store:
                writer_settings = await store.audit._writer.write(settings)
                read = await store.audit._reader.read(settings)
        finally:
            connection.execute("ALTER ROLE postgres RESET ALL")
    assert writer_settings == ["on", "read committed", "off", "4500ms", "3s"]
    assert read[1:3] == ["repeatable read", "on"]


@pytest.mark.spec("P91")
async def test_a_read_ends_when_its_time_is_up_and_a_stricter_limit_of_the_role_stays(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def limit(connection: Connection) -> object:
        return connection.exec_driver_sql("SHOW statement_timeout").scalar()

    monkeypatch.setattr(engines, "READ_SECONDS", 1.0)
    with connected(postgres_url) as owner:
        async with opened_at(postgres_url) as store:
            assert await store.audit._reader.read(limit) == "1s"
            assert await store.audit._writer.write(limit) == "0"
            with owner.transaction():
                owner.execute("LOCK TABLE api_keys IN ACCESS EXCLUSIVE MODE")
                with pytest.raises(StoreError, match="took too long and was stopped"):
                    await store.keys.find("")
        owner.execute("ALTER ROLE postgres SET statement_timeout = '900ms'")
        try:
            async with opened_at(postgres_url) as store:
                assert await store.audit._reader.read(limit) == "900ms"
        finally:
            owner.execute("ALTER ROLE postgres RESET statement_timeout")


@pytest.mark.spec("G24")
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (errors.DiskFull, "has no room left: the disk is full"),
        (errors.ReadOnlySqlTransaction, "cannot be written: it is read-only here"),
        (errors.SerializationFailure, "is locked by another process"),
        (errors.QueryCanceled, "took too long and was stopped"),
        (errors.AdminShutdown, "was lost: the server ended the connection"),
        *(
            (errors.DataCorrupted, "is damaged"),
            (errors.UndefinedTable, "failed (42P01)"),
            (errors.Error, "failed (Error)"),
        ),
    ],
)
def test_a_code_of_the_server_becomes_a_sentence(error: type[Exception], message: str) -> None:
    assert store_error("notes", error("/data: sesame")).message == f"the database 'notes' {message}"
