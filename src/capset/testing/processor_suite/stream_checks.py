"""Checks of a processor with a slow consumer, and with one that leaves (spec 3, K14, K15)."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from capset.testing.processor_suite.subject import Arguments, ProcessorSubject, Promise, expect, settle

_TAKEN: Final = 10
_AT_ONCE: Final = 64
"""Limit on emissions of its child tasks that wait side by side; more of them mean that it does not wait at all."""


async def it_waits_for_its_consumer(subject: ProcessorSubject) -> None:
    """During a pause of any length, it does not pile up waiting emissions."""
    most = subject.contract.buffer + 1
    for arguments in await subject.fullest():
        async with subject.open() as session:
            stream, watch = subject.stream(session, arguments)
            async with stream:
                for taken in range(_TAKEN):
                    await settle()
                    what = f"{subject.told(arguments)}: expected it to wait for its consumer"
                    expect(
                        not watch.dropped,
                        f"{what}; it called emit and never awaited that ({len(watch.dropped)} times), so that nothing "
                        "was sent; write await emit(…)",
                    )
                    crowd = watch.begun - taken - most
                    expect(
                        crowd <= _AT_ONCE,
                        f"{what}; {crowd} more of its emissions were under way after {taken} were taken; wait for some "
                        f"before there are more than {_AT_ONCE}, as in a task group for each batch, or await each emit",
                    )
                    if await subject.next_of(stream) is None:
                        break


async def leaving_ends_it(subject: ProcessorSubject) -> None:
    """Whenever its consumer leaves, it ends in time and leaves no task behind; the same holds at its own end."""
    for arguments in await subject.fullest():
        for taken in (0, 1, 2, subject.most):
            if await _leaves_after(subject, arguments, taken) < taken:
                break


async def _leaves_after(subject: ProcessorSubject, arguments: Arguments, wanted: int) -> int:
    """Take some messages, leave, and check for leftovers; return the number of messages."""
    clock, taken = asyncio.get_running_loop().time, 0
    async with subject.open() as session:
        stream, _ = subject.stream(session, arguments)
        before = asyncio.all_tasks()
        async with stream:
            while taken < wanted and await subject.next_of(stream) is not None:
                taken += 1
            await settle()
            left_at = clock()
        took = clock() - left_at
        await settle()
        left = [one for one in asyncio.all_tasks() - before if not one.done()]
    what = f"{subject.told(arguments)}, left after {taken} messages"
    expect(
        took <= subject.cleanup,
        f"{what}: expected it to end within {subject.cleanup:g} s; it took {took:.1f} s; let CancelledError through, "
        "and do no more in finally than is needed",
    )
    for one in left:
        one.cancel()
    expect(
        not left,
        f"{what}: expected no task of its own to be left; there are {', '.join(map(_named, left))}; "
        "start tasks in an asyncio.TaskGroup",
    )
    return taken


def _named(task: asyncio.Task[Any]) -> str:
    return getattr(task.get_coro(), "__qualname__", task.get_name())


ALWAYS: Final[tuple[Promise, ...]] = (it_waits_for_its_consumer, leaving_ends_it)
