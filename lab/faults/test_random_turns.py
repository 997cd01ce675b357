"""Turns that wait for approvals, killed with SIGKILL at random moments and continued elsewhere (spec 6, R6, R7, R9)."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from capset import Principal
from capset.definitions.governance.approvals import Answer
from capset.kernel.kernel import Kernel
from capset.stores.base import ApprovalQuery, EventRow, MessageRow
from capset.wire.turns import ENDINGS
from lab.faults import turning
from lab.faults.load import EFFECTS

KILLS = int(os.environ.get("CAPSET_TURN_KILLS", "8"))
"""How many processes are killed on both engines together."""
SEED = int(os.environ.get("CAPSET_SEED", "1"))
LONGEST = 1.2
"""The longest that the first process of a turn lives before it is killed."""
PATIENCE = 60
"""How many processes one turn may take."""


async def began(url: str) -> str:
    """Return a new session."""
    async with Kernel(store=url) as kernel:
        row = kernel.new_session(turning.AGENT, turning.ADA)
        await kernel.store.sessions.create(row)
        return row.id


async def looked(url: str, session: str, moment: random.Random) -> list[EventRow]:
    """Decide what waits, mostly, as the approver does in a process of its own; return the events."""
    async with Kernel(store=url) as kernel:
        for row in (await kernel.store.approvals.list(ApprovalQuery(None, "pending", session))).items:
            if moment.random() < 0.7:
                await kernel.approvals.decide(row.id, Answer(approved=True), by=Principal("eve"))
        return list((await kernel.store.events.read(session, after=0, limit=10_000)).items)


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.timeout(120 + 10 * KILLS)
@pytest.mark.spec("R6", "R7", "R9")
async def test_a_turn_goes_on_whatever_the_moment(url: str, tmp_path: Path) -> None:
    warm = multiprocessing.get_context("forkserver")
    warm.set_forkserver_preload(["lab.faults.turning", "capset.stores.sql.schema.revisions"])
    kills, number, events_by_session = 0, 0, dict[str, list[EventRow]]()
    while kills < (KILLS + 1) // 2:
        number += 1
        session = await began(url)
        moment = random.Random(f"{SEED} {number} {url.partition(':')[0]}")
        for tries in range(PATIENCE):
            if events_by_session.get(session) and events_by_session[session][-1].type in ENDINGS:
                break
            seed = moment.randrange(10**9)
            process = warm.Process(target=turning.run, args=(url, tmp_path, session, number, seed))
            process.start()
            process.join(moment.uniform(0.1, LONGEST * (1 + tries / 5)))  # on a busy machine, longer and longer
            if process.is_alive():
                process.kill()
                process.join()
                assert process.exitcode == -signal.SIGKILL
                kills += 1
            else:
                raise AssertionError(f"it ended by itself, with {process.exitcode}")
            events_by_session[session] = await looked(url, session, moment)
    print(f"{kills} kills, {number} turns", flush=True)
    await check(url, tmp_path, events_by_session)


async def check(url: str, folder: Path, events_by_session: dict[str, list[EventRow]]) -> None:
    """Compare what was done with what is on record, and with what the agents were told."""
    done = Counter(int(line) for line in (folder / EFFECTS).read_text().splitlines())
    assert set(done.values()) == {1}, f"twice: {[number for number, times in done.items() if times > 1]}"
    async with Kernel(store=url) as kernel:
        assert (await kernel.audit.verify()).ok
        intents: dict[str, int] = {}
        outcomes: dict[str, str] = {}
        after = 0
        while page := await kernel.audit.read(after=after):
            after = page[-1].seq
            for record in page:
                if record.phase == "intent":
                    intents[record.id] = json.loads(record.arguments).get("number")
                elif record.phase == "outcome":
                    outcomes[record.id] = str(record.outcome)
        assert set(done) <= set(intents.values()), "an effect without its intent"
        unknown = 0
        for session, events in events_by_session.items():
            assert (events[-1].type, data(events[-1])) == ("turn.ended", {"output": "Done."}), events[-1]
            messages = (await kernel.store.events.messages(session)).items
            message_parts, helpers = (
                [part for row in messages for part in returns(row, kind)] for kind in ("message", "inner")
            )
            assert [part["tool_call_id"] for part in message_parts] == [
                "call-1-1",
                *(f"call-2-{place}" for place in (1, 2, 3)),
                *(f"call-3-{place}" for place in (1, 2)),
                *(f"call-{step}-1" for step in (4, 5, 6)),
            ], "each call has one result"
            assert [part["tool_call_id"] for part in helpers] == ["call-1-1", "call-2-1"], "the helper's as well"
            for part in [*message_parts, *helpers]:
                if part["tool_name"] == "helper":
                    assert part["content"] == "Helped."
                elif part["outcome"] == "success":
                    assert part["tool_name"] == "look" or part["content"] in done, "acknowledged, and not done"
                else:
                    assert "outcome_unknown" in part["content"], part
                    unknown += 1
    print(f"{sum(done.values())} effects, {unknown} calls of unknown outcome", flush=True)


def returns(row: MessageRow, kind: str) -> list[Any]:
    """Return the results of calls in a message of a kind."""
    message = json.loads(row.data)
    parts = (message["message"] if kind == "inner" else message)["parts"] if row.kind == kind else []
    return [part for part in parts if part["part_kind"] == "tool-return"]


def data(event: EventRow) -> Any:
    """Return the data of an event."""
    return json.loads(event.data)
