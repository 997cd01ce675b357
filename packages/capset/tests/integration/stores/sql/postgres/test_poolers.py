"""A store behind a pooler: one that keeps sessions will do, and any other is refused with a sentence (spec 5, P94)."""

from __future__ import annotations

from pathlib import Path

import pytest

from capset.errors import StoreError
from capset.stores.sql.postgres.store import open_postgres
from capset_testing.store_suite.support import entry
from tests.databases import Server
from tests.helpers.stores.sql.postgres.pooling import pgbouncer
from tests.helpers.stores.sql.support import opened_at

pytestmark = [pytest.mark.realtime, pytest.mark.spec("P94")]


async def test_one_that_gives_a_session_to_many_is_refused(postgres: Server, tmp_path: Path) -> None:
    with pgbouncer(postgres.empty(), "transaction", tmp_path) as url:
        for _ in range(3):  # also once its sessions have been used
            with pytest.raises(StoreError, match="behind a pooler that does not preserve sessions") as refused:
                await open_postgres(url).open()
            assert "pool_mode=session" in str(refused.value.hint)


async def test_one_that_keeps_sessions_will_do_but_takes_no_option(postgres: Server, tmp_path: Path) -> None:
    with pgbouncer(postgres.empty(), "session", tmp_path) as url:
        async with opened_at(url) as store, opened_at(url) as other:
            await store.audit.commit(entry("a"))
            await other.audit.commit(entry("b"))
            assert (await store.audit.verify()).checked == 2
        with pytest.raises(StoreError, match="does not accept this option in a URL") as refused:
            await open_postgres(f"{url}?options=-csearch_path%3Dtools").open()
        assert "ALTER ROLE" in str(refused.value.hint)
