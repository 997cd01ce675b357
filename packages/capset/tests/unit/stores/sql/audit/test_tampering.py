"""Whatever is changed in the file, verify finds it and says where (spec 4, G22)."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset.definitions.calls.records import COLUMNS
from capset.errors import StoreError
from capset.fingerprint.chain import Verification
from capset.stores.base import AuditQuery
from capset.stores.sql.sqlite import SqliteStore
from capset_testing.store_suite.support import entry, intent
from tests.examples import examples
from tests.helpers.stores.sql.support import opened, raw

RECORDS = 6

# A value of each storage class, and text that is not UTF-8.
VALUES = st.one_of(
    *(st.none(), st.text(max_size=8), st.integers(-(2**63), 2**63 - 1), st.integers(-3, 12)),
    *(st.floats(allow_nan=False), st.binary(max_size=8)),
)


@dataclass
class Log:
    """A log in a file, open twice: in a store, and as anybody could open the file."""

    runner: asyncio.Runner
    store: SqliteStore
    file: sqlite3.Connection

    def verify(self) -> Verification:
        return self.runner.run(self.store.audit.verify())

    def rows(self) -> list[tuple[Any, ...]]:
        return self.file.execute("SELECT * FROM records ORDER BY seq").fetchall()

    def restore(self, rows: list[tuple[Any, ...]]) -> None:
        marks = ", ".join("?" * len(COLUMNS))
        self.file.execute("BEGIN")
        self.file.execute("DELETE FROM records")
        self.file.executemany(f"INSERT INTO records VALUES ({marks})", rows)
        self.file.execute("COMMIT")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Generator[Log]:
    path = tmp_path_factory.mktemp("tampering") / "a.db"
    store = SqliteStore(str(path))
    with asyncio.Runner() as runner, raw(path) as file:

        async def fill() -> None:
            await store.open()
            await store.audit.commit(intent("a"))
            for name in "abcde":
                await store.audit.commit(entry(name, org="acme", reason=name * 3))

        runner.run(fill())
        yield Log(runner, store, file)
        runner.run(store.close())


@pytest.mark.spec("G22")
@examples(80, 400)
@given(st.sampled_from(COLUMNS), st.integers(1, RECORDS), VALUES, st.booleans())
def test_a_change_of_any_column_is_found(log: Log, column: str, seq: int, value: object, as_text: bool) -> None:
    before = log.rows()
    new = "CAST(? AS TEXT)" if as_text and isinstance(value, bytes) else "?"
    query = f"SELECT typeof({column}), hex({column}) FROM records WHERE seq = {seq}"
    old = log.file.execute(query).fetchone()
    log.file.execute("BEGIN")
    with contextlib.suppress(sqlite3.IntegrityError):  # a constraint refuses it, and nothing is changed
        log.file.execute(f"UPDATE records SET {column} = {new} WHERE seq = ?", (value, seq))
    log.file.execute("COMMIT")
    changed = log.file.execute(query).fetchone() != old
    try:
        verification = log.verify()
        assert verification.ok is not changed
        if changed and column != "seq":
            assert verification.seq == seq
            assert f"record {seq} " in str(verification.problem)
    finally:
        log.restore(before)
    assert log.verify().ok


@pytest.mark.spec("G22")
def test_a_query_refuses_what_no_record_can_hold(log: Log) -> None:
    before = log.rows()
    for value in ("x'ff'", "CAST(x'ff' AS TEXT)"):
        log.file.execute(f"UPDATE records SET tool = {value} WHERE seq = 3")
        with pytest.raises(StoreError, match="record 3 was changed: its 'tool'") as failure:
            log.runner.run(log.store.audit.query(AuditQuery()))
        log.restore(before)
        assert log.verify().ok, "whoever reads next sees what is there now"
        assert failure.value.__traceback__ is not None, (
            "although the failure, and all that it refers to, is there still"
        )


@pytest.mark.spec("G22", "G23")
async def test_a_head_that_no_record_can_have_stops_the_writer(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db") as store:
        await store.audit.commit(entry("a"))
        with raw(tmp_path / "a.db") as file:
            file.execute("UPDATE records SET hash = x'00'")
            with pytest.raises(StoreError, match="damaged at its end"):
                await store.audit.commit(entry("b"))
            file.execute("DELETE FROM records")
        await store.audit.commit(entry("b"))
