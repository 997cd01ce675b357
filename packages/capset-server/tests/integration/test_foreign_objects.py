"""A server names what others have attached to its tables, and does not begin without one (spec 5, P70)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.helpers.server.running import running


def change(folder: Path, statement: str) -> None:
    with closing(sqlite3.connect(folder / "capset.db", isolation_level=None)) as database:
        database.execute(statement)


@pytest.mark.realtime
@pytest.mark.spec("P70", "T60")
def test_a_server_names_foreign_triggers_and_missing_tables(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        server.key()
    change(tmp_path, "CREATE TRIGGER mine AFTER INSERT ON api_keys BEGIN UPDATE api_keys SET scopes = '[]'; END")
    with running(tmp_path) as server:
        pass
    assert "the trigger mine on api_keys" in server.log.read_text()
    change(tmp_path, "DROP TABLE people")
    refused = server.capset("serve", "--port", "0")
    assert (refused.code, "lacks the table people" in refused.said) == (1, True), refused.err
