"""``check``: what is wrong with a database is named, and nothing is changed (spec 5, P30)."""

from __future__ import annotations

from pathlib import Path

import pytest

from capset.errors import StoreError
from capset.stores.sql.schema.maintenance import check
from capset.stores.sql.schema.revisions import HEAD
from capset_testing.store_suite.support import entry, intent
from tests.databases import Server
from tests.helpers.stores.sql.support import make, opened_at, raw, run_at, store_at


@pytest.mark.spec("P30")
async def test_a_database_that_is_as_it_must_be(url: str) -> None:
    async with opened_at(url) as store:
        await store.audit.commit(intent("a"))
        report = check(store_at(url), verify=True)
        assert (report.ok, report.revision, report.problems) == (True, HEAD, ())
        assert report.verification is not None
        assert report.verification.checked == 1
        assert len(await store.audit.read()) == 1, "what runs is not closed as interrupted"


@pytest.mark.spec("P30")
async def test_what_is_missing_or_differs_is_named(empty_url: str) -> None:
    url = empty_url
    async with opened_at(url) as store:
        await store.audit.commit(entry("a"))
        for statement in (
            "DROP INDEX ix_sessions_whose",
            "DROP TABLE session_turns",  # with its index
            "ALTER TABLE agents DROP COLUMN author",
            "CREATE INDEX mine ON sessions (agent)",
            "CREATE TABLE notes (text TEXT)",
        ):
            run_at(url, statement)
        report = check(store_at(url))
    assert not report.ok
    text = " ".join(report.problems)
    assert len(report.problems) == 4, report.problems
    for name in ("ix_sessions_whose", "session_turns", "author" if "postgres" in url else "agents"):
        assert name in text
    assert "mine" not in text, "what was added is no problem"


@pytest.mark.spec("P70", "T60")
async def test_triggers_and_rules_of_others_are_named(empty_url: str, caplog: pytest.LogCaptureFixture) -> None:
    url = empty_url
    async with opened_at(url) as store:
        await store.audit.commit(entry("a"))
    assert "did not make" not in caplog.text
    foreign = ["the trigger mine on api_keys"]
    if url.startswith("sqlite"):
        foreign = ["the trigger mine on API_Keys"]
        run_at(url, "CREATE TRIGGER mine AFTER INSERT ON API_Keys BEGIN UPDATE api_keys SET scopes = '[]'; END")
    else:
        run_at(url, "CREATE FUNCTION mine() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'")
        run_at(url, "CREATE TRIGGER mine BEFORE INSERT ON api_keys FOR EACH ROW EXECUTE FUNCTION mine()")
        run_at(url, "CREATE RULE kept AS ON DELETE TO records DO INSTEAD NOTHING")
        run_at(url, "CREATE TABLE notes (text TEXT)")
        run_at(url, "CREATE TRIGGER theirs BEFORE INSERT ON notes FOR EACH ROW EXECUTE FUNCTION mine()")
        foreign.insert(0, "the rule kept on records")
    report = check(store_at(url), verify=True)
    assert [problem.partition(" is not capset's")[0] for problem in report.problems] == foreign
    async with opened_at(url):
        assert f"has objects that capset did not create: {', '.join(foreign)};" in caplog.text


@pytest.mark.spec("P70")
async def test_a_database_that_lacks_a_table_is_refused_with_its_name(empty_url: str) -> None:
    async with opened_at(empty_url) as store:
        await store.audit.commit(entry("a"))
    run_at(empty_url, "DROP TABLE people")
    with pytest.raises(StoreError, match="lacks the table people"):
        async with opened_at(empty_url):
            pass
    report = check(store_at(empty_url), verify=True)
    assert "the table people is missing" in report.problems
    assert report.problems[-1] == "the chain was not verified: a table is missing"
    assert report.verification is None


@pytest.mark.spec("G22", "P30")
async def test_a_record_that_was_changed_is_seen_with_verify_only(url: str) -> None:
    async with opened_at(url) as store:
        await store.audit.commit(entry("a"))
    run_at(url, "UPDATE records SET tool = 'another'")
    assert check(store_at(url)).ok
    report = check(store_at(url), verify=True)
    assert (report.ok, report.problems) == (False, ())


@pytest.mark.spec("P30")
async def test_a_damaged_file_is_seen(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    async with opened_at(url) as store:
        await store.audit.commit(entry("a"))
    with raw(tmp_path / "a.db") as file:
        file.execute("PRAGMA foreign_keys = OFF")
        file.execute("INSERT INTO states VALUES ('session', 's', '', 'n', 'gone', '1', 1, '2026')")
        file.execute("PRAGMA writable_schema = ON")
        file.execute(
            "UPDATE sqlite_master SET sql = replace(sql, 'phase = ', 'phase <> ') WHERE name = 'ix_records_tool'"
        )
    text = " / ".join(check(store_at(url)).problems)
    assert "the file is damaged: " in text
    assert "row 1 of states refers to a missing row of sessions" in text
    assert "the index ix_records_tool differs from this version's schema" in text


@pytest.mark.spec("P30")
def test_an_empty_and_a_newer_database(tmp_path: Path) -> None:
    with raw(tmp_path / "empty.db"):
        pass
    assert check(store_at(f"sqlite:///{tmp_path}/empty.db")).problems == ("the database is empty",)
    make(tmp_path / "new.db", HEAD, "UPDATE alembic_version SET version_num = '9999'", "DELETE FROM settings")
    with pytest.raises(StoreError, match="its revision is"):
        check(store_at(f"sqlite:///{tmp_path}/new.db"))


@pytest.mark.spec("P30")
async def test_an_index_that_was_never_finished_is_named(postgres: Server) -> None:
    url = postgres.empty()
    async with opened_at(url) as store:
        await store.audit.commit(entry("a"))
    run_at(url, "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'ix_records_time'::regclass")
    assert check(store_at(url)).problems == ("the index ix_records_time was never finished",)
