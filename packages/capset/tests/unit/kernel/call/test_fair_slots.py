"""Fair slots: nobody gets more than a share, nobody is passed by, and no slot is lost."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capset import Capability, Context, Principal, tool
from capset.ext import slot
from capset.kernel.call.fair_slots import ORG_SHARE, FairSlots, Owner
from capset_testing import session_for
from tests.examples import examples
from tests.helpers.kernel.support import turns

OWNERS = [Owner(org, principal) for org in ("acme", "globex", "initech", None) for principal in ("a", "b", "c", "d")]
STEPS = st.lists(
    st.tuples(st.sampled_from(["ask", "ask", "release", "cancel"]), st.sampled_from(OWNERS), st.integers(0, 50)),
    max_size=120,
)


class Crowd:
    """Those who want slots, what they have, and the rules that hold at any time."""

    def __init__(self, total: int) -> None:
        self.slots = FairSlots(total)
        self.held: list[tuple[Owner, int]] = []
        self.waiting: list[tuple[Owner, int, asyncio.Task[None]]] = []

    async def ask(self, owner: Owner, slots: int = 1) -> None:
        may = self._may(owner, slots)
        if self.slots.try_acquire(owner, slots):
            assert may
            self.held.append((owner, slots))
        else:
            self.waiting.append((owner, slots, asyncio.ensure_future(self.slots.acquire(owner, slots))))
            await turns()

    async def release(self, which: int) -> None:
        if self.held:
            self.slots.release(*self.held.pop(which % len(self.held)))
            await self._settle()

    async def cancel(self, which: int) -> None:
        if self.waiting:
            _, _, task = self.waiting.pop(which % len(self.waiting))
            task.cancel()
            await asyncio.wait([task])
            await self._settle()

    async def _settle(self) -> None:
        await turns()
        for waiter in [waiter for waiter in self.waiting if waiter[2].done()]:
            self.waiting.remove(waiter)
            self.held.append(waiter[:2])

    def _may(self, owner: Owner, slots: int) -> bool:
        """Whether the rules give an owner so many slots, one by one."""
        free = self.slots.total - sum(count for _, count in self.held)
        own_count = sum(count for holder, count in self.held if holder == owner)
        of_org = sum(count for holder, count in self.held if holder.org == owner.org)
        return all(
            own_count + taken < free - taken and of_org + taken < ORG_SHARE * (free - taken) for taken in range(slots)
        )

    def check(self) -> None:
        assert 0 <= self.slots.free == self.slots.total - sum(count for _, count in self.held)
        assert self.slots.waiting == len(self.waiting)
        slots_by_owner = Counter[Owner]()
        for owner, count in self.held:
            slots_by_owner[owner] += count
        assert all(count <= (self.slots.total + 1) // 2 for count in slots_by_owner.values())
        first = {owner: slots for owner, slots, _ in reversed(self.waiting)}
        assert not any(self._may(owner, slots) for owner, slots in first.items()), "no entitled owner waits"


@pytest.mark.spec("K21")
@examples(40, 150)
@given(total=st.integers(1, 12), steps=STEPS, max_slots=st.sampled_from([1, 4]))
def test_the_rules_hold_whatever_comes(total: int, steps: list[tuple[str, Owner, int]], max_slots: int) -> None:
    async def walk() -> None:
        crowd = Crowd(total)
        for action, owner, which in steps:
            if action == "ask":
                await crowd.ask(owner, which % min(max_slots, (total + 1) // 2) + 1)
            else:
                await (crowd.release(which) if action == "release" else crowd.cancel(which))
            crowd.check()
        while crowd.held:
            await crowd.release(0)
            crowd.check()
        assert (crowd.slots.free, crowd.waiting) == (total, [])

    asyncio.run(walk())


@pytest.mark.spec("K21")
@settings(max_examples=60, deadline=None)
@given(total=st.integers(4, 64), greedy=st.lists(st.sampled_from(OWNERS[:4]), max_size=200), alone=st.booleans())
def test_one_that_comes_after_a_greedy_one_finds_a_slot(total: int, greedy: list[Owner], alone: bool) -> None:
    async def walk() -> None:
        crowd, other = Crowd(total), OWNERS[1] if alone else OWNERS[4]
        for owner in greedy:  # all of one organisation; alone, all of one principal
            await crowd.ask(OWNERS[0] if alone else owner)
        assert crowd.slots.try_acquire(other)
        for _, _, task in crowd.waiting:
            task.cancel()
        await asyncio.gather(*(task for _, _, task in crowd.waiting), return_exceptions=True)

    asyncio.run(walk())


@pytest.mark.spec("K21")
async def test_those_who_wait_take_turns_by_org_and_then_by_principal() -> None:
    slots, came = FairSlots(1), list[str]()

    async def wait(owner: Owner) -> None:
        await slots.acquire(owner)
        came.append(f"{owner.org}.{owner.principal}")
        slots.release(owner)

    first = Owner("acme", "a")
    assert slots.try_acquire(first)
    owners = [*[Owner("acme", "a")] * 4, Owner("acme", "b"), *[Owner("globex", "c")] * 2]
    tasks = [asyncio.ensure_future(wait(owner)) for owner in owners]
    await turns()
    slots.release(first)
    await asyncio.gather(*tasks)
    assert came == ["acme.a", "globex.c", "acme.b", "globex.c", "acme.a", "acme.a", "acme.a"]


@pytest.mark.spec("K21")
async def test_a_slot_that_comes_as_its_waiter_is_cancelled_goes_to_the_next() -> None:
    slots, ada, bob = FairSlots(1), Owner("acme", "ada"), Owner("acme", "bob")
    assert slots.try_acquire(ada)
    cancelled, other = (asyncio.ensure_future(slots.acquire(owner)) for owner in (ada, bob))
    await turns()
    slots.release(ada)
    cancelled.cancel()
    await asyncio.wait([cancelled])
    assert cancelled.cancelled()
    await asyncio.wait_for(other, 60)
    assert slots.free == 0


@tool(effect="read")
async def dig(ctx: Context, seconds: float) -> str:
    """Dig, four at a time."""
    async with slot(ctx, "digging", at_once=4):
        await asyncio.sleep(seconds)
    return "done"


@pytest.mark.spec("K22")
async def test_slots_of_a_resource_are_shared_as_threads_are() -> None:
    async with session_for(Capability("kit", tools=[dig]), principal=Principal("sloth", org="acme")) as desk:
        slow, quick = desk.session, desk.kernel.open(desk.agent, principal=Principal("hare", org="globex"))
        many = [asyncio.ensure_future(slow.call(dig, seconds=60)) for _ in range(64)]
        await turns()
        async with asyncio.timeout(1), quick as session:
            assert await session.call(dig, seconds=0) == "done"
        for task in many:
            task.cancel()
        await asyncio.gather(*many, return_exceptions=True)
        async with asyncio.timeout(1):
            assert await slow.call(dig, seconds=0) == "done"
