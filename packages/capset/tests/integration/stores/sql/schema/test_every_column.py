"""Every column of a record, one by one, and every way to move records, on both engines (spec 4, G22)."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest
from sqlalchemy import Connection, delete, insert, update

from capset.definitions.calls.records import COLUMNS, NUMBERS
from capset.fingerprint.chain import Verification
from capset.stores.sql.schema.tables import records
from capset.stores.sql.store import SqlStore
from capset_testing.store_suite.support import entry, intent
from tests.helpers.stores.sql.support import opened_at

WHOLE = {"approval": "approval-1", "repeats": 3, "causation": "c", "org": "acme", "reason": "why", "code": "x"}


async def filled(store: SqlStore) -> list[dict[str, Any]]:
    """Fill a log with six links, of which the third has a value in every column; return them."""
    for link in (entry("a"), intent("b"), entry("b", **WHOLE), entry("c"), entry("d"), entry("e")):
        await store.audit.commit(link)
    rows = [asdict(record) for record in await store.audit.read()]
    empty = [name for name, value in rows[2].items() if value is None]
    assert not empty, f"give {empty} a value: in entry of capset/testing/store_suite/support.py, or in WHOLE here"
    return rows


async def verified(store: SqlStore, rows: list[dict[str, Any]]) -> Verification:
    """Put other rows in the place of the log, and return what ``verify`` finds."""

    def replace(connection: Connection) -> None:
        connection.execute(delete(records))
        connection.execute(insert(records), rows)

    await store.audit._writer.write(replace)
    return await store.audit.verify()


@pytest.mark.spec("G20", "G22")
async def test_a_change_of_every_column_is_found(url: str) -> None:
    async with opened_at(url) as store:
        rows = await filled(store)
        for column in COLUMNS:
            values: list[object] = [7, 2**40] if column in NUMBERS else ["another", "", f"{rows[2][column]} "]
            if records.c[column].nullable:
                values.append(None)
            for value in values:
                # In the row itself, as somebody would who changes one value.
                change = update(records).where(records.c.seq == 3).values({column: value})
                await store.audit._writer.write(lambda connection, change=change: connection.execute(change).rowcount)
                verification = await store.audit.verify()
                assert not verification.ok, (column, value)
                assert (verification.checked, json.dumps(verification.seq)) == (2, "4" if column == "seq" else "3")
                assert (await verified(store, rows)).checked == 6


@pytest.mark.spec("G22")
async def test_records_that_are_removed_inserted_or_moved_are_found(url: str) -> None:
    def numbered(links: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**row, "seq": seq} for seq, row in enumerate(links, 1)]

    async with opened_at(url) as store:
        rows = await filled(store)
        for place in range(5):
            removed = rows[:place] + rows[place + 1 :]
            verification = await verified(store, removed)
            assert verification.problem == f"record {place + 1} is missing; found {place + 2} in its place"
            assert ((await verified(store, numbered(removed))).seq) == place + 1, "and the gap was closed"
            inserted = [*rows[:place], {**rows[place], "id": "new"}, *rows[place:]]
            assert (await verified(store, numbered(inserted))).seq == place + 1
            for other in range(place + 1, 6):
                moved = list(rows)
                moved[place], moved[other] = moved[other], moved[place]
                assert (await verified(store, numbered(moved))).seq == place + 1
        assert (await verified(store, rows)).checked == 6
