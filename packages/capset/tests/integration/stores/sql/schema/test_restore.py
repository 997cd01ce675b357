"""A restored backup knows that it is one: no approval from before it lets a call through (spec 5, P71)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from capset.errors import Conflict, DefinitionError, StoreError
from capset.stores.sql.schema.maintenance import back_up, check, restore
from capset_testing import FakeClock
from capset_testing.store_suite.support import LATER, entry
from tests.databases import Server
from tests.helpers.kernel.governance.approving import FOR_SESSION, till
from tests.helpers.stores.sql.schema.in_use import use
from tests.helpers.stores.sql.support import opened_at, store_at


@pytest.fixture
def new_url(url: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give the URL of a second database on the engine: a file that is not there, or one without tables."""
    if url.startswith("sqlite"):
        return f"sqlite:///{tmp_path}/restored.db"
    server: Server = request.getfixturevalue("postgres")
    use(server.programs, monkeypatch)
    return server.empty()


@pytest.mark.realtime
@pytest.mark.spec("P71", "T6", "T65")
async def test_no_approval_from_before_a_restore_lets_a_call_through(url: str, new_url: str, tmp_path: Path) -> None:
    clock, file = FakeClock(), tmp_path / "backup"
    async with till(store=store_at(url), clock=clock) as harness:
        session = await harness.session()
        single_use, standing, pending = [await harness.asked(session, to) for to in ("bob", "eve", "zoe")]
        await harness.decided(single_use)
        await harness.decided(standing, FOR_SESSION)
        await asyncio.to_thread(back_up, store_at(url), file)
        assert (await harness.made(session, "bob", approval=single_use)).error is None
        await harness.decided(pending)
        assert (await harness.made(session, "zoe", approval=pending)).error is None
        now = harness.kernel.now()
    done = await asyncio.to_thread(restore, store_at(new_url), file, now=now)
    assert done.approvals == 3
    assert check(store_at(new_url), verify=True).ok
    async with till(store=store_at(new_url), clock=clock) as restored:
        session = await restored.session(id=session.id)
        for to, approval in (("bob", single_use), ("eve", standing), ("eve", None), ("zoe", pending)):
            assert (await restored.made(session, to, approval=approval)).error is not None
        with pytest.raises(Conflict, match="is no longer open"):
            await restored.decided(pending)
        assert restored.paid == []
        second_request = await restored.asked(session, "bob")
        assert second_request != single_use
        await restored.decided(second_request)
        assert (await restored.made(session, "bob", approval=second_request)).error is None


@pytest.mark.realtime
@pytest.mark.spec("P71")
async def test_nothing_is_written_over_and_what_is_no_backup_makes_nothing(
    url: str, new_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "backup"
    async with opened_at(url) as store:
        await store.audit.commit(entry("a"))
    await asyncio.to_thread(back_up, store_at(url), file)
    with pytest.raises(DefinitionError, match="already"):
        restore(store_at(url), file, now=LATER)
    with pytest.raises(DefinitionError, match="there is no file"):
        restore(store_at(new_url), tmp_path / "nowhere", now=LATER)
    (tmp_path / "text").write_text("no backup at all\n" * 100)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(StoreError):
        restore(store_at(new_url), tmp_path / "text", now=LATER)
    assert sorted(tmp_path.iterdir()) == before
    assert restore(store_at(new_url), file, now=LATER).last == 1


@pytest.mark.spec("P71")
async def test_a_log_that_waits_beside_the_file_of_a_database_is_not_taken_for_its_own(tmp_path: Path) -> None:
    async with opened_at(f"sqlite:///{tmp_path}/a.db") as store:
        await store.audit.commit(entry("a"))
    back_up(store_at(f"sqlite:///{tmp_path}/a.db"), tmp_path / "backup")
    (tmp_path / "b.db-wal").write_bytes(b"of another database")
    with pytest.raises(DefinitionError, match="already exists, or a file -wal, -shm or -journal of it"):
        restore(store_at(f"sqlite:///{tmp_path}/b.db"), tmp_path / "backup", now=LATER)
