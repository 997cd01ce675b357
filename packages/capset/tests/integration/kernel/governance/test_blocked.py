"""A log that cannot be written: what has effects does not start, and nothing is dropped silently (spec 4, G23)."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import make_url

from capset import Agent, Capability, Kernel, Principal, Result, tool
from capset.stores.sql.postgres.store import PostgresStore
from capset.stores.sql.sqlite import SqliteStore
from capset.stores.sql.store import SqlStore
from tests.helpers.kernel.support import records_of
from tests.helpers.stores.sql.postgres.support import writing
from tests.helpers.stores.sql.support import raw

pytestmark = pytest.mark.realtime

started: list[str] = []


@tool
async def act() -> str:
    """Have an effect."""
    started.append("act")
    return "done"


@tool(effect="external")
def act_in_a_thread() -> str:
    """Have an effect, in a thread."""
    started.append("act_in_a_thread")
    return "done"


@tool(effect="read")
async def look() -> str:
    """Have none."""
    return "seen"


AGENT = Agent("agent", uses=[Capability("kit", tools=[act, act_in_a_thread, look])])
ADA = Principal("ada")
BOUND = 5


class Database:
    """A database whose lock somebody else can hold, and the store in it."""

    def __init__(self, url: str) -> None:
        self._url = url

    def store(self) -> SqlStore:
        if self._url.startswith("sqlite"):
            return SqliteStore(self._url.removeprefix("sqlite:///"), busy_seconds=0.1, max_queued=BOUND)
        return PostgresStore(make_url(self._url), busy_seconds=0.1, max_queued=BOUND)

    def held(self) -> AbstractContextManager[None]:
        return _locked(Path(self._url.removeprefix("sqlite:///"))) if "sqlite" in self._url else writing(self._url)


@contextmanager
def _locked(path: Path) -> Generator[None]:
    with raw(path) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    started.clear()
    sqlite = request.param == "sqlite"
    return Database(f"sqlite:///{tmp_path}/a.db" if sqlite else request.getfixturevalue("postgres_url"))


def is_unavailable(result: Result[str]) -> bool:
    return result.error is not None and (result.error.status, result.error.code) == (503, "store_busy")


@pytest.mark.spec("G19", "G23")
async def test_while_another_process_writes_what_has_effects_does_not_start(database: Database) -> None:
    async with Kernel(database.store()) as kernel, kernel.open(AGENT, principal=ADA) as session:
        with database.held():
            refused = [await session.try_call(act), await session.try_call(act_in_a_thread)]
            assert all(is_unavailable(result) for result in refused)
            read_result = await session.try_call(look)
            assert read_result.success, "what only reads is buffered"
        assert started == []
        outcomes = [(record.id, record.outcome) for record in await records_of(kernel.audit)]
        assert outcomes[:2] == [(result.record, "unavailable") for result in refused]
        assert outcomes[2:] == [(read_result.record, "succeeded")]
        assert (await session.try_call(act)).success
        assert started == ["act"]
        assert (await kernel.audit.verify()).checked == 5


@pytest.mark.spec("G23")
async def test_a_full_queue_drops_nothing_and_says_so(database: Database) -> None:
    async with Kernel(database.store()) as kernel, kernel.open(AGENT, principal=ADA) as session:
        with database.held():
            taken = [await session.try_call(look) for _ in range(BOUND)]
            assert all(result.success for result in taken)
            late = [await session.try_call(look), await session.try_call(act)]
            assert all(is_unavailable(result) for result in late), "told, since no record of it can be kept"
        assert started == []
        ids = {record.id for record in await records_of(kernel.audit)}
        assert ids >= {result.record for result in taken}, "whatever succeeded is on record"
        assert (await kernel.audit.verify()).ok
