"""A clock of its own: the time that it counts, and whose a cancellation is."""

from __future__ import annotations

import asyncio

import pytest

from capset.evaluation.containment import Deadline
from tests.virtual_time import anyio_backend

__all__ = ["anyio_backend"]

pytestmark = pytest.mark.spec("F17")


async def wait_under(deadline: Deadline, around: float = 60) -> None:
    """Wait for a minute under a deadline, with an ordinary timeout around it."""
    async with asyncio.timeout(around):
        with deadline:
            deadline.start()
            await asyncio.sleep(60)


def cancellations() -> int:
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling()


@pytest.mark.parametrize("is_started", [False, True])
async def test_one_that_was_never_started_or_is_over_cancels_nobody(is_started: bool) -> None:
    with Deadline(0.01) as deadline:
        if is_started:
            deadline.start()
        else:
            await asyncio.sleep(0.03)
    await asyncio.sleep(0.03)
    assert not deadline.expired


@pytest.mark.parametrize(("seconds", "around", "expired"), [(60, 0.01, False), (0.01, 60, True)])
async def test_when_the_sooner_of_two_times_is_up_the_wait_ends(seconds: float, around: float, expired: bool) -> None:
    deadline = Deadline(seconds)
    with pytest.raises(TimeoutError):
        await wait_under(deadline, around)
    assert deadline.expired is expired
    await asyncio.sleep(0)  # nothing of the cancellation is left
    assert cancellations() == 0


async def test_what_takes_no_notice_goes_on_and_is_known_to_be_late() -> None:
    with Deadline(0.01) as deadline:
        deadline.start()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            assert cancellations() == 1
        deadline.start()  # it is over: there is no second time
        await asyncio.sleep(0.02)
    assert (deadline.expired, cancellations()) == (True, 0)


async def test_while_it_stands_still_no_time_passes() -> None:
    deadline = Deadline(0.1)
    with deadline:
        assert not deadline.stop()
        deadline.start()
        deadline.start()
        assert deadline.stop()
        await asyncio.sleep(0.2)
        deadline.start()
        await asyncio.sleep(0)
    assert not deadline.expired
    await asyncio.sleep(0.2)
    with pytest.raises(TimeoutError):  # what is left of it
        await wait_under(deadline)


async def test_a_cancellation_from_outside_stays_one_even_when_the_time_is_up_too() -> None:
    async def work() -> None:
        with Deadline(0.01) as deadline:
            deadline.start()
            try:
                await asyncio.sleep(60)
            finally:
                assert deadline.expired
                task.cancel()
                await asyncio.sleep(0)

    task = asyncio.create_task(work())
    await asyncio.wait({task})
    assert task.cancelled()
