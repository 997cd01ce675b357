"""Many calls at once: of one session, of two sessions, and of two kernels on one database."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from capset import Agent, Kernel, Principal, Session
from capset_tools.memory import MemoryConfig, memory_user
from tests.databases import require_scheme
from tests.helpers.tools.memory.support import BOTH, tool_of

ADA = Principal("ada", permissions=BOTH)
ROOM = 7
NARROW = Agent("scribe", uses=[memory_user.with_config(MemoryConfig(capacity=ROOM))])


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        require_scheme()
        return request.getfixturevalue("postgres_url")
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/capset.db"


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[Sequence[Session]]:
    """Open sessions of one user: two of one kernel and, on a database, one of another kernel between them."""
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(Kernel(url))
        second = first if url == "memory://" else await stack.enter_async_context(Kernel(url))
        yield [await stack.enter_async_context(kernel.open(NARROW, principal=ADA)) for kernel in (first, second, first)]


async def remember_at_once(sessions: Sequence[Session], texts: Sequence[str]) -> list[Any]:
    """Remember each text, in one session after the other, all at once; return the results, or errors."""
    remember = tool_of(memory_user, "remember")
    calls = [sessions[number % len(sessions)].try_call(remember, text=text) for number, text in enumerate(texts)]
    return [result.data if result.success else result.error for result in await asyncio.gather(*calls)]


async def kept(session: Session) -> list[str]:
    recalled = await session.call(tool_of(memory_user, "recall"), query="tea number", limit=50)
    return [memory["text"] for memory in recalled["memories"]]


async def test_one_text_that_many_calls_remember_at_once_is_kept_once(url: str) -> None:
    spellings = ["Tea at noon.", "tea  at NOON.", " TEA at noon. "]
    async with opened(url) as sessions:
        results = await remember_at_once(sessions, [spellings[number % 3] for number in range(18)])
        assert Counter(outcome["created"] for outcome in results) == {True: 1, False: 17}
        assert len({outcome["id"] for outcome in results}) == 1, "all are told of the one that is kept"
        assert len(await kept(sessions[0])) == 1


async def test_calls_at_once_fill_a_memory_to_its_capacity_and_no_further(url: str) -> None:
    async with opened(url) as sessions:
        results = await remember_at_once(sessions, [f"Tea number {number}." for number in range(3 * ROOM)])
        created = [outcome["text"] for outcome in results if isinstance(outcome, dict)]
        refused = [(outcome.code, outcome.status) for outcome in results if not isinstance(outcome, dict)]
        assert len(created) == ROOM
        assert refused == [("memory_full", 409)] * (2 * ROOM)
        assert sorted(await kept(sessions[1])) == sorted(created), "what is kept is what was said to be kept"


async def test_what_is_forgotten_at_the_same_time_makes_room_for_no_more_than_one(url: str) -> None:
    async with opened(url) as sessions:
        (*_, last) = await remember_at_once(sessions, [f"Tea number {number}." for number in range(ROOM)])
        forget = tool_of(memory_user, "forget")
        results, forgotten = await asyncio.gather(
            remember_at_once(sessions, [f"Tea number {number}." for number in range(10, 16)]),
            asyncio.gather(*[session.call(forget, id=last["id"]) for session in sessions]),
        )
        created = [outcome for outcome in results if isinstance(outcome, dict)]
        assert [answer["forgotten"] for answer in forgotten].count(True) == 1
        assert len(await kept(sessions[0])) == ROOM - 1 + len(created) <= ROOM
