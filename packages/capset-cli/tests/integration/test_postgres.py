"""The command on a PostgreSQL database: as on a file, and no password is ever printed."""

from __future__ import annotations

import pytest

from tests.databases import require_scheme
from tests.helpers.cli.support import ADD, FILES, Run
from tests.helpers.stores.sql.support import run_at

SECRET = "postgresql://me:sesame@127.0.0.1:1/notes"


@pytest.fixture(autouse=True)
def scheme() -> None:
    require_scheme()


@pytest.mark.spec("P30")
def test_calls_are_made_and_their_records_read(run: Run, postgres_url: str) -> None:
    db_option = ("--db", postgres_url)
    assert run(*ADD, *db_option, "--json").json["data"]["result"] == 5
    write = ("call", "session_file_system.write_file", *FILES, "--args", '{"path": "/a.txt", "content": "kept"}')
    session = run(*write, *db_option, "--json").json["session"]
    read = ("call", "session_file_system.read_file", *FILES, "--session", session, "--args", '{"path": "/a.txt"}')
    assert run(*read, *db_option, "--json").json["data"]["content"] == "kept"
    assert len(run("audit", "query", *db_option, "--json").json["items"]) == 3
    assert run("audit", "verify", *db_option, "--json").json == {"ok": True, "checked": 5, "vouched": False}
    assert run("key", "create", "ci", "--principal", "ada", *db_option).code == 0
    assert "ada" in run("key", "list", *db_option).out
    run_at(postgres_url, "UPDATE records SET arguments = '{}' WHERE seq = 1")
    assert run("audit", "verify", *db_option).code == 3


@pytest.mark.spec("G24")
@pytest.mark.parametrize(
    ("url", "code", "message"),
    [
        (SECRET, 1, "error: the database 'notes' cannot be reached"),
        (f"{SECRET}?speed=high", 1, "error: the database 'notes' has an option that its driver does not know"),
        ("postgresql://me:sesame@host:port/notes", 2, "error: the store's URL cannot be read"),
        ("postgres://me:sesame@host", 2, "error: the store's URL names no PostgreSQL database"),
    ],
)
def test_a_password_is_never_printed(
    url: str, code: int, message: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments in (ADD, ("audit", "verify"), ("key", "list")):
        for flags in ((), ("--json",)):
            if flags and arguments[0] == "key":
                continue
            done = run(*arguments, "--db", url, *flags)
            assert done.code == code
            assert "sesame" not in done.out + done.err
            assert flags or message in done.said
    monkeypatch.setenv("CAPSET_DB", url)
    assert "sesame" not in run(*ADD).err
