"""Random graphs of processors, consumers and speeds: nobody runs ahead, order holds, each call has one outcome."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capset import Agent, Capability, Kernel, Message, Meta, Principal, handles
from capset.definitions.tools.definition import AnyTool
from tests.helpers.kernel.streams.support import Done, Step, made
from tests.helpers.kernel.support import records_of, turns
from tests.waiting import until

ENDS = ("reply", "nothing", "raise", "violate", "hang")
SPEEDS = (0, 1, 5)


@dataclass(frozen=True)
class Kind:
    """One processor: how many tasks of it emit how much, how fast, with what buffer, and how it ends."""

    tasks: int
    each: int
    turns: int
    buffer: int
    end: str


@dataclass
class Seen:
    started: int = 0
    taken: list[Message] = field(default_factory=list[Message])


kinds = st.builds(
    Kind, st.integers(1, 3), st.integers(0, 6), st.sampled_from(SPEEDS), st.integers(0, 3), st.sampled_from(ENDS)
)
plans = st.tuples(
    st.lists(kinds, min_size=1, max_size=3),
    st.lists(st.integers(0, 2), min_size=1, max_size=12),
    st.integers(1, 5),
    st.sampled_from(SPEEDS),
    st.integers(0, 200),
)


class World:
    def __init__(self, kinds: list[Kind]) -> None:
        self.seen: defaultdict[str, Seen] = defaultdict(Seen)
        self.worst = -99
        self.tools = [self.tool(number, kind) for number, kind in enumerate(kinds)]

    def tool(self, number: int, kind: Kind) -> AnyTool:
        async def say(emit: Any, call: str, channel: int) -> None:
            traffic = self.seen[call]
            for index in range(kind.each):
                await turns(kind.turns)
                await emit(Step(data=channel * 1_000 + index))
                traffic.started += 1  # those that returned: the one that is beyond the buffer is still in emit
                self.worst = max(self.worst, traffic.started - len(traffic.taken) - kind.buffer)

        async def handle(message: Any, emit: Any, ctx: Any) -> None:
            call: str = ctx.correlation
            async with asyncio.TaskGroup() as group:
                for channel in range(kind.tasks):
                    group.create_task(say(emit, call, channel))
            match kind.end:
                case "reply":
                    await emit(Done(data=number))
                case "raise":
                    raise ValueError
                case "violate":
                    await emit(Message("reply", "Work.None"))
                case "hang":
                    await asyncio.sleep(60)
                case _:
                    pass

        return made(handles(handle), type=f"Work.Do{number}", buffer=kind.buffer, effect="write")


@pytest.mark.nightly
@pytest.mark.spec("K8", "K10", "K11", "K14", "K17")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plan=plans)
async def test_pace_order_and_outcomes_hold_in_any_graph(plan: tuple[list[Kind], list[int], int, int, int]) -> None:
    kinds, picked, limit, speed, leave_after = plan
    runtime, read = World(kinds), list[str]()
    agent = Agent("a", uses=[Capability("kit", tools=runtime.tools)])
    before = len(asyncio.all_tasks())

    async def inbound() -> AsyncGenerator[Message]:
        for number, pick in enumerate(picked):
            read.append(f"in-{number}")
            meta = Meta(read[-1], "2026-01-01T00:00:00.000000Z", read[-1])
            yield Message("command", runtime.tools[pick % len(kinds)].type, {"to": 1}, meta)
            await turns(speed)

    async with Kernel(store="memory://") as kernel, kernel.open(agent, principal=Principal("p")) as session:
        total = 0
        hangs = any(kinds[pick % len(kinds)].end == "hang" for pick in picked)
        try:
            async with asyncio.timeout(0.05 if hangs else 20), kernel.run(session, inbound(), limit=limit) as answers:
                async for message in answers:
                    assert message.meta is not None
                    runtime.seen[message.meta.correlation].taken.append(message)
                    assert message.meta.causation == message.meta.correlation
                    total += 1
                    if total > leave_after:
                        break
                    await turns(speed)
        except TimeoutError:
            assert hangs
        # The time may be up in the very moment in which what was cancelled cleans up.
        await until(lambda: len(asyncio.all_tasks()) == before)
        records = await records_of(kernel.audit)
    # What is handed to a reader that waits for it is taken, and the reader may not have looked yet.
    assert runtime.worst <= 1
    by_call = Counter(record.correlation for record in records)
    assert set(by_call.values()) <= {1}
    assert set(by_call) <= set(read)
    assert len(set(read) - set(by_call)) <= 1  # one that was read while there was no room
    for call, traffic in runtime.seen.items():
        of_lanes: defaultdict[int, list[int]] = defaultdict(list)
        for message in traffic.taken:
            if message.kind == "event":
                of_lanes[message.data // 1_000].append(message.data)
        assert all(channel == sorted(channel) for channel in of_lanes.values()), call
        assert [message.kind for message in traffic.taken[:-1] if message.kind != "event"] == [], call
        ids = [message.meta.id for message in traffic.taken if message.meta]
        assert len(set(ids)) == len(ids)
