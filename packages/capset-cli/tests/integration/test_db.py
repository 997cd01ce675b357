"""``capset db``: upgrade, check and back up, on both engines (spec 5, P30)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from capset.stores.sql.schema.revisions import HEAD
from tests.databases import Server, require_scheme
from tests.helpers.cli.serving import serving
from tests.helpers.cli.support import ADD, Command, Run
from tests.helpers.stores.sql.next_version import INDEXES, SHAPE, make_next_version
from tests.helpers.stores.sql.support import run_at

SECRET = "mystore://me:sesame@host/db"


@pytest.mark.spec("P30")
def test_upgrade_to_the_next_version_is_told_before_it_is_done(run: Run, tmp_path: Path) -> None:
    assert run(*ADD, "--db", "a.db").code == 0
    run_next = Command(tmp_path, make_next_version(tmp_path / "next").environ).anew
    before = (tmp_path / "a.db").read_bytes()
    planned = run_next("db", "upgrade", "--dry-run", "--db", "a.db", "--json").json
    assert (planned["before"], planned["after"], planned["done"]) == (HEAD, INDEXES, False)
    assert [step["revision"] for step in planned["steps"]] == [SHAPE, INDEXES]
    assert f"would be upgraded from revision {HEAD}" in run_next("db", "upgrade", "--dry-run", "--db", "a.db").out
    assert (tmp_path / "a.db").read_bytes() == before
    assert run_next("db", "check", "--db", "a.db").code == 3
    checked = run_next("db", "check", "--verify", "--db", "a.db")
    assert (checked.code, "the chain was not verified: upgrade the database first" in checked.said) == (
        3,
        True,
    )
    assert run_next("db", "upgrade", "--db", "a.db", "--json").json == planned | {"done": True}
    report = run_next("db", "check", "--verify", "--db", "a.db", "--json").json
    assert (report["ok"], report["revision"], report["head"], report["problems"]) == (True, INDEXES, INDEXES, [])
    assert "nothing to do" in run_next("db", "upgrade", "--db", "a.db").out
    run_at(f"sqlite:///{tmp_path}/a.db", "UPDATE alembic_version SET version_num = '0002'")
    report = run_next("db", "check", "--verify", "--db", "a.db", "--json").json
    assert (report["ok"], report["verification"]["ok"]) == (False, True), "only indexes may be missing"


@pytest.mark.spec("P30")
def test_looking_makes_no_database(run: Run, tmp_path: Path) -> None:
    for arguments in (("check",), ("backup", "copy"), ("upgrade", "--dry-run")):
        done = run("db", *arguments, "--db", "new.db")
        assert (done.code, "there is no database at new.db" in done.said) == (2, True)
    assert list(tmp_path.iterdir()) == []
    assert run("db", "upgrade", "--db", "new.db").code == 0
    assert run("db", "check", "--db", "new.db").code == 0


@pytest.mark.parametrize("url", ["memory://", SECRET])
def test_what_is_no_database_is_refused(url: str, run: Run) -> None:
    for arguments in (("check",), ("upgrade",), ("backup", "copy")):
        done = run("db", *arguments, "--db", url)
        assert done.code == 2
        assert "sesame" not in done.err
    assert "got a store memory://" in run("db", "check", "--db", "memory://").err


@pytest.mark.spec("P30")
def test_damage_ends_with_3_and_is_named(run: Run) -> None:
    assert run(*ADD).code == 0
    run_at("sqlite:///capset.db", "DROP INDEX ix_records_time")
    run_at("sqlite:///capset.db", "UPDATE records SET tool = 'another'")
    done = run("db", "check", "--verify")
    assert done.code == 3
    assert "problem: the index ix_records_time is missing" in done.said
    assert "not verified: record 1" in done.said
    report = run("db", "check", "--verify", "--json")
    assert (report.code, report.json["ok"], report.json["verification"]["ok"]) == (3, False, False)


@pytest.mark.realtime
@pytest.mark.spec("P30")
def test_a_backup_is_served_from(workshop: Command, tmp_path: Path, run: Run) -> None:
    assert workshop(*ADD).code == 0
    done = workshop("db", "backup", "kept.db", "--json")
    assert done.json == {"file": "kept.db", "bytes": (workshop.folder / "kept.db").stat().st_size}
    assert workshop("db", "backup", "kept.db").code == 2, "no file is written over"
    with serving(workshop, "--insecure", "--db", "kept.db") as server, server.client() as client:
        session = client.post("/v1/sessions", json={"agent_id": "foreman"}).json()["id"]
        assert client.post(
            f"/v1/sessions/{session}/calls", json={"tool": "echo", "arguments": {"text": "a"}}
        ).is_success
        assert len(client.get("/v1/audit").json()["items"]) == 2
        server.end()
    assert workshop("db", "check", "--verify", "--db", "kept.db").code == 0


@pytest.mark.spec("P71", "G39")
def test_a_backup_is_restored_into_a_new_database_alone(run: Run) -> None:
    assert run(*ADD).code == 0
    assert run("db", "backup", "kept.db").code == 0
    refused = run("db", "restore", "kept.db")
    assert (refused.code, "move all of these away" in refused.said) == (2, True)
    done = run("db", "restore", "kept.db", "--db", "again.db")
    assert done.code == 0, done.err
    assert done.out.startswith("restored: records up to 1; 0 approvals and requests")
    assert "keys that were revoked after the backup are valid again" in done.said
    (act,) = run("audit", "query", "--act", "database.restore", "--db", "again.db", "--json").json["items"]
    assert act["arguments"] == {"approvals": 0, "last": 1}
    assert run("db", "check", "--verify", "--db", "again.db").code == 0
    assert run("db", "restore", "kept.db", "--db", "third.db", "--json").json == {"last": 1, "approvals": 0}


@pytest.mark.realtime
@pytest.mark.spec("P30")
def test_a_postgres_database_by_a_url_as_sqlalchemy_writes_it(
    run: Run, postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_scheme()
    monkeypatch.setenv("PATH", f"{postgres.programs}{os.pathsep}{os.environ['PATH']}")
    plain = postgres.empty()
    options = ("--db", plain.replace("postgresql://", "postgresql+psycopg://"))
    assert run("db", "upgrade", "--dry-run", *options, "--json").json["after"] == HEAD
    assert run("db", "check", *options).code == 3
    assert run("db", "upgrade", *options).code == 0
    assert run(*ADD, *options).code == 0
    assert run("db", "backup", "kept.dump", *options).code == 0
    other = postgres.empty()
    subprocess.run(["pg_restore", "--no-owner", f"--dbname={other}", tmp_path / "kept.dump"], check=True)
    assert run("db", "check", "--verify", "--db", other, "--json").json["verification"]["checked"] == 1
    assert run(*ADD, "--db", other).code == 0


@pytest.mark.spec("P30")
def test_another_driver_is_refused_by_name(run: Run) -> None:
    require_scheme()
    done = run("db", "check", "--db", "postgresql+asyncpg://me:sesame@host/db")
    assert done.code == 2
    assert "the store's URL names the driver 'asyncpg'; only psycopg is supported" in done.said
    assert "sesame" not in done.err
