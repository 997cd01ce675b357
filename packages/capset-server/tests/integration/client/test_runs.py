"""``client.runs``: what is queued, found, and cancelled, on a server without workers (spec 10, D10)."""

from __future__ import annotations

import pytest

from capset.errors import CapsetError, InvalidArguments, NotFound
from capset_server.client import Client
from tests.helpers.client.fixtures import Served


@pytest.mark.spec("D10")
async def test_runs_are_queued_found_and_cancelled(boss: Client, session: str) -> None:
    turn = await boss.runs.create({"say": "hi"}, session=session, queue="mail")
    assert (turn.kind, turn.state, turn.queue, turn.session) == ("turn", "queued", "mail", session)
    call = await boss.runs.call(session, "echo", {"text": "hi"})
    assert (call.kind, call.queue) == ("call", "default")
    assert await boss.runs.get(call.id) == call
    cancelled = await boss.runs.cancel(turn.id)
    assert (cancelled.state, cancelled.outcome) == ("cancelled", {"by": "boss"})
    assert (await boss.runs.list(state="cancelled", queue="mail", limit=1)).items == [cancelled]
    run = await boss.runs.create("hi", agent="foreman")
    assert (await boss.sessions.get(run.session)).agent_id == "foreman", "a session is made for it"


@pytest.mark.spec("D10")
async def test_all_runs_are_read_page_by_page(boss: Client, session: str) -> None:
    runs = [await boss.runs.call(session, "echo", {"text": str(number)}, queue="paged") for number in range(3)]
    first = await boss.runs.list(queue="paged", limit=2)
    rest = await boss.runs.list(queue="paged", limit=2, cursor=first.next)
    assert ([*first.items, *rest.items], rest.next) == (runs[::-1], None)
    assert [run async for run in boss.runs.all(queue="paged", state="queued")] == runs[::-1]


@pytest.mark.spec("D10")
async def test_runs_of_others_are_not_found(served: Served, boss: Client, session: str) -> None:
    run = await boss.runs.create("hi", session=session)
    async with Client(served.url, key=served.ada) as ada:
        for method in (ada.runs.get, ada.runs.cancel):
            with pytest.raises(NotFound):
                await method(run.id)
        assert (await ada.runs.list()).items == []


@pytest.mark.spec("D10")
async def test_what_is_no_run_raises_the_servers_words(boss: Client, session: str) -> None:
    with pytest.raises(CapsetError, match=r"session_id|agent_id"):
        await boss.runs.create("hi")
    with pytest.raises(InvalidArguments):
        await boss.runs.call(session, "echo", {"text": "hi"}, queue="A B")


@pytest.mark.spec("D17")
async def test_schedules_are_made_paused_and_deleted(boss: Client, session: str) -> None:
    turn = await boss.schedules.create("0 9 * * 1-5", "hi", session=session, timezone="Europe/Berlin", queue="mail")
    assert (turn.kind, turn.queue, turn.session, turn.timezone) == ("turn", "mail", session, "Europe/Berlin")
    call = await boss.schedules.call("*/5 * * * *", session, "echo", {"text": "hi"})
    assert [schedule async for schedule in boss.schedules.all()][:2] == [call, turn]
    assert (await boss.schedules.list(limit=1)).items == [call]
    assert (await boss.schedules.pause(call.id)).next_at is None
    assert (await boss.schedules.resume(call.id)).next_at is not None
    await boss.schedules.delete(call.id)
    with pytest.raises(NotFound):
        await boss.schedules.get(call.id)
    with pytest.raises(InvalidArguments, match="cron"):
        await boss.schedules.create("often", "hi", session=session)


@pytest.mark.spec("D10", "D17")
async def test_what_is_sent_again_under_its_key_is_made_once(boss: Client, session: str) -> None:
    runs = [await boss.runs.create("hi", session=session, idempotency_key="r-1") for _ in range(2)]
    calls = [await boss.runs.call(session, "echo", {"text": "hi"}, idempotency_key="r-2") for _ in range(2)]
    turns = [await boss.schedules.create("0 9 * * *", "hi", session=session, idempotency_key="s-1") for _ in range(2)]
    scheduled_calls = [await boss.schedules.call("0 9 * * *", session, "echo", idempotency_key="s-2") for _ in range(2)]
    assert [len({row.id for row in rows}) for rows in (runs, calls, turns, scheduled_calls)] == [1, 1, 1, 1]
