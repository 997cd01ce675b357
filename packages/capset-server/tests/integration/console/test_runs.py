"""Runs in the console: the list with its filters, and the tree of each (spec 9)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from html import unescape

import pytest

from capset.stores.base import RunRow
from capset_agents.playback.scripts import Call
from tests.helpers.server.console.auditing import reading
from tests.helpers.server.console.talking import HOSTILE, session_of, shop
from tests.helpers.server.rest.agent_turns import read_until
from tests.helpers.server.rest.turns import send
from tests.helpers.server.support import Site

pytestmark = pytest.mark.spec("N38")


@pytest.fixture(scope="module")
async def talked() -> AsyncGenerator[tuple[Site, str, str]]:
    """Give a server where ``plain`` has taken a turn, the session and the turn."""
    async with shop(Call("shout", times=1), HOSTILE) as server:
        session = await session_of(server, "plain")
        async with server.client("plain") as client:
            turn = (await send(client, session, HOSTILE)).json()["turn"]
            await read_until(client, session, "turn.ended")
        yield server, session, turn


async def test_runs_are_listed_by_filters(talked: tuple[Site, str, str]) -> None:
    server, session, turn = talked
    async with reading(server) as boss:
        page = await boss.get("/runs")
        assert f'href="/runs/{turn}"' in page.text
        assert f'href="/runs?session_id={session}"' in page.text
        for filters, is_listed in (
            ({"principal": "plain", "state": "succeeded", "session_id": session}, True),
            ({"state": "failed"}, False),
            ({"until": "2020-01-01T00:00"}, False),
        ):
            listed = await boss.get("/runs", params=filters)
            assert (f'href="/runs/{turn}"' in listed.text) == is_listed, filters
        assert (await boss.get("/runs", params={"state": "wrong"})).status_code == 422
    async with reading(server, "spy") as spy:
        assert turn not in (await spy.get("/runs")).text
        assert (await spy.get(f"/runs/{turn}")).status_code == 404


async def test_a_run_is_shown_as_a_tree_and_nothing_in_it_runs(talked: tuple[Site, str, str]) -> None:
    server, _, turn = talked
    async with reading(server) as boss:
        page = await boss.get(f"/runs/{turn}")
        text = unescape(page.text)
        assert all(part in text for part in ("Step 1", "shout", "tokens in", "\\u{202e}"))
        assert "<script>alert(1)" not in page.text
        assert page.text.count('href="/fingerprints/') >= 4
        for address in {part.split('"', 1)[0] for part in page.text.split('href="/fingerprints/')[1:]}:
            assert (await boss.get(f"/fingerprints/{address}")).status_code == 200, address
    acts = [act for act in await server.records(act="run.read", org="acme") if turn in act.arguments]
    assert {act.principal for act in acts} == {"boss"}


async def test_the_result_of_a_queued_call_is_shown(talked: tuple[Site, str, str]) -> None:
    server, session, _ = talked
    now = server.kernel.now()
    run = RunRow(
        id=server.kernel.new_id(),
        org="acme",
        principal="plain",
        principal_kind="user",
        kind="call",
        session=session,
        agent="plain",
        correlation="c-1",
        created_at=now,
        begun_at=now,
        ended_at=now,
        state="succeeded",
        outcome='{"success":true,"data":{"heard":"far and wide"}}',
    )
    await server.kernel.store.runs.add(run)
    async with reading(server) as boss:
        page = await boss.get(f"/runs/{run.id}")
    assert (page.status_code, "far and wide" in page.text) == (200, True)
