"""A call that is cancelled, whenever that is, leaves no text that nothing names (spec 5, P18)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import anyio
import pytest

from tests.helpers.tools.research.support import Study, plain, study

LONG = "\n\n".join(f"Paragraph {number} speaks of number{number}. {'word ' * 280}" for number in range(120))


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/capset.db"


async def check_that_all_is_named(researcher: Study, notes: int = 0) -> None:
    named = sum(len(source.passages) for source in await researcher.sources())
    assert len(await researcher.texts()) == named + notes


@pytest.mark.spec("P18", "K15")
async def test_a_fetch_that_is_cancelled_leaves_nothing(store: str) -> None:
    async with study(store=store, long=plain(LONG)) as researcher:
        cancelled = 0
        for turn in range(12):
            fetching = asyncio.create_task(researcher.fetch(f"/long?{turn % 3}"))
            await asyncio.wait([fetching], timeout=0.006 * (turn + 1))
            fetching.cancel()
            await asyncio.wait([fetching])
            cancelled += fetching.cancelled()
            await check_that_all_is_named(researcher)
        assert cancelled or store == "memory://"
        assert (await researcher.fetch("/long"))["passages"] == 120
        await check_that_all_is_named(researcher)
        assert len(await researcher.search("number119")) >= 1


@pytest.mark.spec("P18", "K15")
async def test_so_does_one_that_is_cancelled_again_and_again(store: str) -> None:
    async with study(store=store, long=plain(LONG)) as researcher:
        for turn in range(10):
            with anyio.move_on_after(0.008 * (turn + 1)):
                await researcher.fetch(f"/long?{turn % 3}")
            await check_that_all_is_named(researcher)


@pytest.mark.spec("P18", "K15")
async def test_so_does_a_step_of_the_loop(store: str) -> None:
    async with study(store=store) as researcher:
        await researcher.fetch("/tea")
        for steps in range(40):
            calls = [
                asyncio.create_task(researcher.note(f"Thought {steps}.", 1)),
                asyncio.create_task(researcher.fetch("/coffee")),
            ]
            for _ in range(steps):
                await asyncio.sleep(0)
            for call in calls:
                call.cancel()
            await asyncio.wait(calls)
            noted = (await researcher.report())["notes"]
            await check_that_all_is_named(researcher, noted)
