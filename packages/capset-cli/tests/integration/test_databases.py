"""Databases that cannot be used: one clear line, exit code 1, nothing lost and nothing made."""

from __future__ import annotations

import resource
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from capset.stores.sql.schema.revisions import HEAD
from tests.helpers.cli.permissions import heed_permissions
from tests.helpers.cli.support import ADD, FILES, Command, Run


def not_a_database(path: Path) -> None:
    path.write_bytes(b"These are no bytes of SQLite's. " * 100)


def a_directory(path: Path) -> None:
    path.mkdir()


def another_programs(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE recipes (name TEXT)")
    database.close()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (not_a_database, "'x.db' is not a SQLite database"),
        (a_directory, "'x.db' is a directory"),
        (another_programs, "'x.db' belongs to another program"),
    ],
)
def test_what_is_no_database_of_ours_is_left_alone(make: object, message: str, run: Run, tmp_path: Path) -> None:
    assert callable(make)
    make(tmp_path / "x.db")
    before = (tmp_path / "x.db").stat()
    for arguments in (ADD, ("audit", "query"), ("audit", "verify")):
        done = run(*arguments, "--db", "x.db", "--json")
        assert done.code == 1
        assert (done.json["error"]["status"], done.json["error"]["code"]) == (503, "store_unavailable")
        assert message in done.json["error"]["message"]
        assert str(tmp_path) not in done.out, "the name as it was given, and no path of the host"
        assert len(run(*arguments, "--db", "x.db").err.splitlines()) == 2, "an error and a hint"
    assert (tmp_path / "x.db").stat().st_size == before.st_size


@pytest.mark.parametrize(
    ("named", "code", "message"),
    [
        ("nowhere/x.db", 1, "the folder of the database 'nowhere/x.db' does not exist"),
        ("mysql://host/x", 2, "unknown store 'mysql'; available: memory, "),
        ("sqlit:///x.db", 2, "unknown store 'sqlit'; did you mean 'sqlite'?"),
        ("sqlite://x.db", 2, "names no file"),
        ("sqlite:///x.db?mode=ro", 2, "has options; there are none"),
        ("memory://x", 2, "has a name or options"),
    ],
)
def test_a_name_that_names_no_store_is_refused(named: str, code: int, message: str, run: Run) -> None:
    done = run(*ADD, "--db", named, "--json")
    assert done.code == code
    assert message in done.json["error"]["message"]


def test_a_newer_database_is_refused_and_unchanged(run: Run, tmp_path: Path) -> None:
    assert run(*ADD).code == 0
    with sqlite3.connect(tmp_path / "capset.db") as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
        database.execute("UPDATE settings SET value = '9999' WHERE name = 'compatible'")
    database.close()
    for arguments in (ADD, ("audit", "query"), ("audit", "verify")):
        done = run(*arguments)
        assert done.code == 1
        assert "its revision is '9999'" in done.err
        assert "upgrade capset" in done.err
    with sqlite3.connect(tmp_path / "capset.db") as database:
        database.execute("UPDATE alembic_version SET version_num = ?", (HEAD,))
    database.close()
    assert run("audit", "verify", "--json").json == {"ok": True, "checked": 1, "vouched": False}


def test_a_database_damaged_in_its_middle_is_said_to_be(run: Run, tmp_path: Path) -> None:
    assert run(*ADD).code == 0
    path = tmp_path / "capset.db"
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))
    done = run("audit", "verify")
    assert done.code == 1
    assert done.said.startswith("error: the database 'capset.db'")


@pytest.mark.nightly
def test_where_nothing_may_be_written_nothing_is_lost(capset: Command) -> None:
    assert capset(*ADD).code == 0
    capset.folder.chmod(0o555)
    (capset.folder / "capset.db").chmod(0o444)
    try:
        refused = capset(*ADD, "--json", preexec_fn=heed_permissions)
        elsewhere = capset(*ADD, "--db", "new.db", "--json", preexec_fn=heed_permissions)
    finally:
        capset.folder.chmod(0o755)
        (capset.folder / "capset.db").chmod(0o644)
    for done in (refused, elsewhere):
        assert (done.code, done.json["error"]["status"]) == (1, 503)
        assert "Permission" not in done.json["error"]["message"]
    assert not (capset.folder / "new.db").exists()
    assert capset("audit", "verify", "--json").json == {"ok": True, "checked": 1, "vouched": False}


@pytest.mark.nightly
def test_a_file_that_may_not_be_read_is_one_line(capset: Command) -> None:
    secret = capset.folder / "secret"
    secret.mkdir()
    for name in ("a.yaml", "args.json", "x.db"):
        (secret / name).write_text("{}", encoding="utf-8")
        (secret / name).chmod(0)
    for arguments, code, message in (
        (("compose", "secret/a.yaml"), 2, "secret/a.yaml: cannot be read: Permission denied"),
        (("call", "test_math.add", "--agent", "secret/a.yaml"), 2, "secret/a.yaml: cannot be read: Permission denied"),
        (("call", "test_math.add", "--args", "@secret/args.json"), 2, "cannot be read: Permission denied"),
        ((*ADD, "--db", "secret/x.db"), 1, "the database 'secret/x.db' cannot be"),
    ):
        done = capset(*arguments, preexec_fn=heed_permissions)
        assert done.code == code
        assert message in done.said
    secret.chmod(0)
    try:
        done = capset("audit", "verify", "--db", "secret/x.db", preexec_fn=heed_permissions)
    finally:
        secret.chmod(0o755)
    assert (done.code, done.err) == (1, "error: secret/x.db: Permission denied\n")


@pytest.mark.nightly
@pytest.mark.spec("G23")
@pytest.mark.parametrize("size", [lambda room: room, lambda room: 8 * 1024 * 1024], ids=["a row", "parts"])
def test_a_disk_without_room_refuses_what_it_cannot_record(capset: Command, size: Callable[[int], int]) -> None:
    write = ("call", "session_file_system.write_file", *FILES, "--json", "--args")
    assert capset(*write, '{"path": "/a.txt", "content": "kept"}').code == 0
    records = capset("audit", "query", "--json").json["items"]
    room = (capset.folder / "capset.db").stat().st_size + 8_192

    def no_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    big = '{"path": "/b.txt", "content": "%s"}' % ("x" * size(room))
    (capset.folder / "big.json").write_text(big, encoding="utf-8")
    done = capset(*write, "@big.json", preexec_fn=no_room)
    assert done.code == 1
    assert done.json["success"] is False
    assert "Errno" not in f"{done.out}{done.err}"
    after = capset("audit", "query", "--json").json["items"]
    assert after[-len(records) :] == records, "what was on record is on record"
    assert capset("audit", "verify", "--json").json["ok"] is True
    assert capset(*write, '{"path": "/b.txt", "content": "room again"}').code == 0
