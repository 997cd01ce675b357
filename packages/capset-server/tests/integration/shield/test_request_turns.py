"""Turns of requests with large bodies: one after another, each let in when those before are done (spec 5, P35)."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter

import pytest

from capset import Capability, Principal, tool
from capset_server.http.request_rules import HttpRefusal
from capset_server.shield.fair_shares import Turns
from tests.helpers.server.support import make_session, site
from tests.waiting import moment, until

pytestmark = [pytest.mark.anyio, pytest.mark.spec("P35", "T31")]


async def test_turns_go_round() -> None:
    turns, order = Turns(3_600), list[str]()
    principals = {name: Principal(name, org=name[0]) for name in ("a1", "a2", "b1")}

    async def work(name: str) -> None:
        async with turns.take(principals[name]):
            order.append(name)
            await moment(0.001)

    await asyncio.gather(
        *(work("a1") for _ in range(20)), *(work("a2") for _ in range(3)), *(work("b1") for _ in range(3))
    )
    assert order.index("b1") <= 2
    assert order[:12].count("b1") == 3, "every other turn is the other organisation's"
    assert [name for name in order if name != "b1"][:7].count("a2") == 3
    assert Counter(order) == {"a1": 20, "a2": 3, "b1": 3}


async def test_a_turn_that_does_not_come_is_given_up_and_taken_from_nobody() -> None:
    turns, principal = Turns(0.05), Principal("a", org="a")
    async with turns.take(principal):
        with pytest.raises(HttpRefusal, match="turn"):
            async with turns.take(Principal("b", org="a")):
                raise AssertionError("it is not free")
    async with turns.take(Principal("b", org="a")):
        pass


async def test_work_that_takes_turns_is_let_in_when_what_came_before_it_is_done() -> None:
    turns, hog = Turns(3_600), Principal("hog", org="a")
    gate, second, let_in, done = asyncio.Event(), asyncio.Event(), list[int](), list[int]()

    async def admit() -> None:
        let_in.append(len(done))
        if done:
            second.set()
            await gate.wait()

    async def work() -> None:
        end = await turns.begin(hog, admit=admit)
        await asyncio.sleep(0)
        done.append(len(done))
        end()

    working = [asyncio.create_task(work()) for _ in range(4)]
    async with asyncio.timeout(60):
        await second.wait()
        async with turns.take(Principal("other", org="b")):  # it passes by those that have yet to be let in
            assert done == [0]
        gate.set()
        await asyncio.gather(*working)
    assert let_in == [0, 1, 2, 3]


async def test_a_turn_that_is_not_let_in_is_the_next_ones() -> None:
    turns, principal = Turns(3_600), Principal("a", org="a")

    async def refuse() -> None:
        raise HttpRefusal(503, "overloaded", "no")

    with pytest.raises(HttpRefusal, match="no"):
        await turns.begin(principal, admit=refuse)
    async with turns.take(principal):
        pass


async def test_a_turn_ends_after_its_time_though_its_work_goes_on() -> None:
    turns, principal = Turns(3_600), Principal("a", org="a")
    await turns.begin(principal, max_seconds=0.01)
    async with turns.take(principal):
        pass


@pytest.mark.realtime
async def test_large_requests_sent_together_are_let_in_as_the_ones_before_are_paid_for() -> None:
    told = list[str]()

    @tool(effect="read")
    async def spin_long(name: str) -> str:
        """Hold the loop again and again, each time until it is late for others, for 0.4 seconds in all."""
        told.append(f"{name} begins")
        for _ in range(80):
            end = time.thread_time() + 0.005  # on a busy machine, too
            while time.thread_time() < end:
                pass
            await asyncio.sleep(0)
        told.append(f"{name} ends")
        return name

    async with site(Capability("spin", description="Spins.", tools=[spin_long])) as here:
        await here.key("mallory", org="mallory")
        async with here.client("mallory") as mallory, here.client("ada") as ada:
            session = await make_session(mallory, "spin")
            agent = (await ada.post("/v1/agents", json={"name": "mine"})).json()["id"]
            ended, answered = asyncio.Event(), 0

            async def call(name: str) -> None:
                body = json.dumps({"tool": "spin_long", "arguments": {"name": name}}) + 60_000 * " "
                headers = {"Content-Type": "application/json"}
                answer = await mallory.post(f"/v1/sessions/{session}/calls", content=body, headers=headers)
                assert answer.status_code == 200

            async def read() -> None:
                nonlocal answered
                while not ended.is_set():
                    assert (await ada.get(f"/v1/agents/{agent}")).status_code == 200
                    answered += 1
                    await asyncio.sleep(0.005)  # it takes less than a call of the other organisation

            reading = asyncio.create_task(read())
            await until(lambda: answered >= 20, "the server to be busy with another organisation's requests")
            await asyncio.gather(call("first"), call("second"))
            ended.set()
            await reading
    # The first has its turn for a fraction of its time; both were there before it had cost anything.
    assert told == ["first begins", "first ends", "second begins", "second ends"]
