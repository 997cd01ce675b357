"""Schemas of any name hold a store, and several of one database hold several (spec 5, P93)."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from psycopg import sql

from capset.stores.base import AuditQuery
from capset.stores.sql.schema.maintenance import check, upgrade
from capset_testing.store_suite.support import entry
from tests.databases import Server, connected
from tests.helpers.stores.sql.support import opened_at, run_at, store_at

INDEX = ("ix_records_time", "records", ("time", "seq"), None)
UNFINISHED = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'ix_records_time'::regclass"


def within(url: str, schema: str) -> str:
    """Make a schema in a database, and return the URL of a store in it."""
    with connected(url) as connection:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
        path = sql.Identifier(schema).as_string(connection)
    return f"{url}{'&' if '?' in url else '?'}options={quote(f'-csearch_path={path}', safe='')}"


@pytest.mark.spec("P93")
@pytest.mark.parametrize("schema", ["Prod", "tenant.one", "select", 'a"b', "größe"])
async def test_a_store_works_in_a_schema_of_any_name(postgres: Server, schema: str) -> None:
    url = within(postgres.empty(), schema)
    async with opened_at(url) as store:
        await store.audit.commit(entry("a"))
    assert upgrade(store_at(url)).steps == ()
    assert run_at(url, "SELECT current_schema(), count(*) FROM records") == [(schema, 1)]
    run_at(url, UNFINISHED)
    assert check(store_at(url), verify=True).problems == ("the index ix_records_time was never finished",)
    store_at(url).create_indexes_online([INDEX])
    assert check(store_at(url), verify=True).ok


@pytest.mark.spec("P93")
async def test_the_schemas_of_a_database_are_stores_of_their_own(postgres: Server) -> None:
    url = postgres.empty()
    first, other = within(url, "tenant.one"), within(url, "Tenant.one")
    async with opened_at(first) as ours, opened_at(other) as theirs:
        await ours.audit.commit(entry("a"))
        assert [item.id for item in (await ours.audit.query(AuditQuery(limit=5))).items] == ["a"]
        assert (await theirs.audit.query(AuditQuery(limit=5))).items == ()
    assert check(store_at(other)).problems == ()
