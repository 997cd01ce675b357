"""What a server does at once when it hears by Redis what another process has changed (spec 10, D31)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from capset import Principal
from capset.stores.base import KeyRow, TurnRow, make_store, share_changes
from capset.stores.base.events import NewEvent
from capset_server import followers
from capset_server.auth.callers import Caller
from capset_server.followers import FollowerCredential, Notifier
from capset_testing.store_suite.support import LATER, NOW, approval_row, create_sessions
from tests.redis_servers import redis_server

KEY = KeyRow("key", "laptop", "0" * 64, None, "ada", "user", (), (), NOW)


class Revoked:
    """A credential that is no longer valid."""

    caller = Caller(Principal("ada"), frozenset(), KEY.id, digest=KEY.digest)

    async def is_valid(self, *, bypass_cache: bool = False) -> bool:
        return False


@pytest.mark.realtime
@pytest.mark.spec("D31")
async def test_followers_and_waiting_calls_are_woken_without_a_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followers, "LOOK_SECONDS", 60.0)
    monkeypatch.setattr(followers, "CHECK_SECONDS", 60.0)
    monkeypatch.setattr(followers, "REVOKED_SECONDS", 60.0)
    with redis_server() as server:
        url = f"sqlite:///{tmp_path}/capset.db"
        store, other = [share_changes(make_store(url), server.url) for _ in range(2)]
        await store.open()
        await other.open()
        bell = Notifier()
        decided, lists = asyncio.Queue[str | None](), asyncio.Queue[str | None]()
        bell.on("approval", decided.put_nowait)
        bell.on("lists", lists.put_nowait)
        async with asyncio.timeout(60), bell.watching(store):
            assert await decided.get() is None  # connected: some may have been missed
            assert await lists.get() is None
            with bell.heard("s") as rung:
                await create_sessions(other, "s")
                some = NewEvent("said", "{}")
                await other.events.begin(TurnRow("s", "t", "here", LATER), some, now=NOW, interrupted=some)
                await rung.wait()
            await other.approvals.open(approval_row("r"), max_pending=9)
            await other.approvals.move(replace(approval_row("r"), status="approved"), "pending")
            assert await decided.get() == "r"
            await other.pins.change("server", [], ["tool"])
            assert await lists.get() == ""
            await other.keys.create(KEY)
            with bell.heard("s", cast("FollowerCredential", cast("Any", Revoked()))) as rung:
                await other.keys.revoke("key", NOW)
                await rung.wait()
        await store.close()
        await other.close()
