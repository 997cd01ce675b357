"""Shares of the loop between organisations and principals, and turns of large requests (spec 5, P35)."""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from capset import Capability, Principal, tool
from capset_server.http.request_rules import HttpRefusal, RequestLimits
from capset_server.shield.fair_shares import (
    ACTIVE_SECONDS,
    HUNGRY,
    MEMORY_SECONDS,
    FairShares,
    LoopIterations,
    Share,
    TimedCoroutine,
    timed_tasks,
)
from tests.helpers.server.support import make_session, site

pytestmark = [pytest.mark.anyio, pytest.mark.spec("P35", "T31"), pytest.mark.realtime]


def burn(seconds: float) -> None:
    end = time.thread_time() + seconds  # on a busy machine, too
    while time.thread_time() < end:
        pass


def shares_of(*loads: float) -> list[Share]:
    """Return siblings with these loads, all of them charged now."""
    parent, now = Share(), time.perf_counter()
    siblings = [parent.child(number) for number in range(len(loads))]
    for share, load in zip(siblings, loads, strict=True):
        share.charge(load, now)
    return siblings


async def test_the_largest_share_waits_while_others_are_in_use() -> None:
    small, large, idle = shares_of(0.01, 0.3, 0.2)
    now = time.perf_counter()
    assert [share.must_wait(now) for share in (small, large, idle)] == [False, True, False]
    later = now + 2 * ACTIVE_SECONDS
    assert not large.must_wait(later), "nobody else is in use any more"


async def test_a_principal_answers_for_its_organisation_too() -> None:
    everybody, now = Share(), time.perf_counter()
    busy, other = everybody.child("busy"), everybody.child("other")
    quiet, loud = busy.child("quiet"), busy.child("loud")
    alone = other.child("alone")
    loud.charge(0.3, now)
    quiet.charge(0.01, now)
    alone.charge(0.02, now)
    assert [share.must_wait(now) for share in (quiet, loud, alone)] == [True, True, False]
    assert alone.load(now + 10 * MEMORY_SECONDS) < 1e-5, "charges fade"


async def test_no_one_waits_for_others_that_take_almost_nothing_unless_the_loop_is_late() -> None:
    light, heavy = shares_of(0.001, 0.4)
    now = time.perf_counter()
    assert [share.must_wait(now) for share in (light, heavy)] == [False, True]
    assert [share.must_wait(now, HUNGRY * MEMORY_SECONDS) for share in (light, heavy)] == [False, False]


async def test_unknown_callers_are_one_share_beside_organisations_and_one_each_among_themselves() -> None:
    shares = FairShares(RequestLimits())
    now = time.perf_counter()
    org_share = shares.enter(Principal("a", org="a"))
    many = [shares.enter_unknown(f"10.0.0.{number}") for number in range(100)]
    busy = shares.enter_unknown("10.0.1.1")
    org_share.charge(0.05, now)
    for share in many:
        share.charge(0.002, now)
    busy.charge(0.02, now)
    assert not org_share.must_wait(now), "a hundred addresses are no hundred organisations"
    assert all(share.must_wait(now) for share in (*many, busy)), "together they have had more"
    org_share.charge(1.0, now)
    assert [many[0].must_wait(now), busy.must_wait(now)] == [False, True], "among themselves, each is a share"


async def test_those_who_ask_whether_a_server_is_well_answer_for_themselves_alone() -> None:
    shares, now = FairShares(RequestLimits()), time.perf_counter()
    org_share, unknown = shares.enter(Principal("a", org="a")), shares.enter_unknown("10.0.0.1")
    flood, watch = (shares.enter_unknown(f"10.0.0.{number}", asks_health=True) for number in (2, 3))
    org_share.charge(0.01, now)
    unknown.charge(0.05, now)
    watch.charge(0.002, now)
    assert [share.must_wait(now) for share in (org_share, unknown, watch)] == [False, True, False]
    flood.charge(0.1, now)
    assert [share.must_wait(now) for share in (org_share, unknown, watch, flood)] == [False, False, False, True]


async def test_what_threads_do_for_a_request_is_charged_to_its_caller() -> None:
    shares = FairShares(RequestLimits())

    async def request() -> Share:
        share = shares.enter(Principal("a", org="a"))
        await asyncio.to_thread(burn, 0.05)
        return share

    with timed_tasks():
        share = await asyncio.create_task(request())
    assert share.load(time.perf_counter()) > 0.03
    await asyncio.to_thread(burn, 0)  # the loop has threads as before


async def test_the_loop_looks_for_others_while_many_tasks_of_one_organisation_are_ready() -> None:
    shares, loop = FairShares(RequestLimits()), asyncio.get_running_loop()
    ready, done, before = asyncio.Event(), 0, list[int]()

    async def part() -> None:
        nonlocal done
        await ready.wait()
        burn(0.004)
        done += 1

    async def request() -> None:
        shares.enter(Principal("hog", org="a"))
        await asyncio.gather(*(asyncio.create_task(part()) for _ in range(100)))

    with timed_tasks():
        hog = asyncio.create_task(request())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        ready.set()
        loop.call_later(0.02, lambda: before.append(done))  # as what comes from a socket
        await hog
    assert done == 100, "those that had to wait went on"
    assert before[0] < 20, "in one iteration, all hundred would have come first"


async def test_those_who_wait_are_let_in_when_there_is_time() -> None:
    shares, now = FairShares(RequestLimits(share_seconds=5)), time.perf_counter()
    hog, other = shares.enter(Principal("hog", org="a")), shares.enter(Principal("other", org="b"))
    hog.charge(1.0, now)
    until = now + 0.5

    async def stay() -> None:
        while time.perf_counter() < until:
            burn(0.005)
            other.charge(0.005, time.perf_counter())
            await asyncio.sleep(0)

    staying = asyncio.create_task(stay())
    await asyncio.sleep(0.1)
    async with asyncio.timeout(2):
        await asyncio.gather(*(shares.admit(hog) for _ in range(50)))
    assert time.perf_counter() >= until, "they waited while it was busy"
    await staying


async def test_every_task_of_a_request_is_charged_to_its_caller() -> None:
    shares = FairShares(RequestLimits())

    async def request(name: str, seconds: float) -> Share:
        async def part() -> None:
            await asyncio.sleep(0)
            burn(seconds)

        share = shares.enter(Principal(name, org=name))
        await asyncio.gather(asyncio.create_task(part()), part())
        return share

    with timed_tasks():
        dear, cheap = await asyncio.gather(
            asyncio.create_task(request("dear", 0.05)), asyncio.create_task(request("cheap", 0.002))
        )
    now = time.perf_counter()
    assert dear.load(now) > 0.08
    assert cheap.load(now) < dear.load(now)
    assert asyncio.get_running_loop().get_task_factory() is None


async def test_who_has_had_most_waits_until_others_have_had_as_much() -> None:
    limits = RequestLimits(share_seconds=0.2)
    shares, now = FairShares(limits), time.perf_counter()
    hog, other = shares.enter(Principal("hog", org="a")), shares.enter(Principal("other", org="b"))
    await shares.admit(hog)  # the loop is idle
    for _ in range(20):
        hog.charge(1.0, now)
    await shares.admit(hog)  # nobody else is there
    other.charge(0.01, time.perf_counter())
    await shares.admit(other)

    async def stay() -> None:
        while True:
            burn(0.005)
            other.charge(0.005, time.perf_counter())
            await asyncio.sleep(0)

    staying = asyncio.create_task(stay())
    await asyncio.sleep(0.1)  # until the process is known to be busy
    started = time.perf_counter()
    with pytest.raises(HttpRefusal, match="less usage") as raised:
        await shares.admit(hog)
    staying.cancel()
    assert raised.value.status == 503
    assert raised.value.retryable
    assert time.perf_counter() - started >= 0.2


async def test_a_timed_coroutine_is_like_its_own() -> None:
    async def work(fails: bool) -> int:
        try:
            await asyncio.sleep(0.001)
        except asyncio.CancelledError:
            return 2
        if fails:
            raise KeyError("no")
        return 1

    def timed(coroutine: Coroutine[Any, Any, Any]) -> TimedCoroutine:
        return TimedCoroutine(coroutine, LoopIterations(asyncio.get_running_loop()))

    assert await timed(work(False)) == 1
    with timed_tasks():
        with pytest.raises(KeyError):
            await asyncio.create_task(work(True))
        task = asyncio.create_task(work(False), name="named")
        assert (task.get_name(), getattr(task.get_coro(), "__qualname__", "")) == ("named", work.__qualname__)
        assert inspect.getcoroutinestate(task.get_coro()) == inspect.CORO_CREATED  # pyright: ignore[reportArgumentType]
        await asyncio.sleep(0)
        task.cancel()
        assert await task == 2
    never = timed(work(False))
    never.close()


@tool(effect="read")
async def spin(times: int) -> int:
    """Hold the loop, again and again."""
    for _ in range(times):
        burn(0.01)
        await asyncio.sleep(0)
    return times


async def test_another_organisation_is_served_beside_one_that_takes_all_it_can() -> None:
    async with site(Capability("spin", description="Spins.", tools=[spin])) as server:
        await server.key("mallory", org="mallory")
        async with server.client("mallory") as mallory, server.client("ada") as ada:
            session = await make_session(mallory, "spin")
            agent = (await ada.post("/v1/agents", json={"name": "mine"})).json()["id"]
            ended, answered = asyncio.Event(), 0

            async def attack() -> None:
                nonlocal answered
                body = json.dumps({"tool": "spin", "arguments": {"times": 3}})
                headers = {"Content-Type": "application/json"}
                while not ended.is_set():
                    await mallory.post(f"/v1/sessions/{session}/calls", content=body, headers=headers)
                    answered += 1

            attacking = [asyncio.create_task(attack()) for _ in range(8)]
            await asyncio.sleep(0.5)
            before = answered
            for _ in range(30):
                assert (await ada.get(f"/v1/agents/{agent}")).status_code == 200
            beside = answered - before
            ended.set()
            await asyncio.gather(*attacking)
    assert beside < 30 * 3, "in turn with eight others, each read would wait for eight of their calls"


async def test_others_are_served_beside_a_flood_of_questions_whether_the_server_is_well() -> None:
    async with site() as server, server.client(None) as stranger, server.client("ada") as ada:
        ended, answered = asyncio.Event(), 0

        async def attack() -> None:
            nonlocal answered
            while not ended.is_set():
                await stranger.get("/v1/readyz")
                answered += 1

        attacking = [asyncio.create_task(attack()) for _ in range(60)]
        await asyncio.sleep(0.5)
        before = answered
        for _ in range(30):
            assert (await ada.get("/v1/whoami")).status_code == 200
        beside = answered - before
        ended.set()
        await asyncio.gather(*attacking)
    assert beside < 30 * 20, "in turn with sixty others, each request would wait for nearly all of them"
