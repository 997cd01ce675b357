"""A process under load that is to be killed: what it does and says is in files that outlive it."""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from itertools import count
from pathlib import Path

from capset import Agent, Capability, Kernel, Principal, tool
from capset.errors import StoreBusy
from capset.ext import CheckpointKey

WORKERS = 12
EFFECTS, TOLD, KEPT = "effects", "told", "kept"
"""The files, one line for each effect, for each call that was acknowledged, and for each checkpoint."""
_SECONDS = 0.004


def note(folder: Path, name: str, line: str, *, durable: bool = False) -> None:
    """Append a line in one write; a process that is killed has written it or has not."""
    descriptor = os.open(folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, f"{line}\n".encode())
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


@tool
async def act(number: int, folder: str) -> int:
    """Have an effect."""
    note(Path(folder), EFFECTS, str(number), durable=True)
    await asyncio.sleep(random.uniform(0, _SECONDS))  # between the effect and its outcome, too
    return number


@tool(effect="external")
def act_in_a_thread(number: int, folder: str) -> int:
    """Have an effect, in a thread."""
    time.sleep(random.uniform(0, _SECONDS))
    note(Path(folder), EFFECTS, str(number), durable=True)
    return number


@tool(effect="read")
async def look(number: int, folder: str) -> int:
    """Have none."""
    return number


TOOLS = (act, act_in_a_thread, look)
AGENT = Agent("tester", uses=[Capability("kit", tools=TOOLS)])


def run(url: str, folder: Path, seed: int, pem: str) -> None:
    """Call and call until somebody kills this process; numbers of calls are this seed's own."""
    random.seed(seed)
    numbers = count(seed * 1_000_000)
    while True:
        with suppress(StoreBusy):  # another process may be frozen, and have the lock, while this one opens
            asyncio.run(_load(url, folder, numbers, CheckpointKey.load(pem)))


async def _load(url: str, folder: Path, numbers: Iterator[int], key: CheckpointKey) -> None:
    async with Kernel(store=url) as kernel, kernel.open(AGENT, principal=Principal("user-1")) as session:

        async def call() -> None:
            while True:
                number, which = next(numbers), random.choice(TOOLS)
                result = await session.try_call(which, number, str(folder))
                with suppress(StoreBusy):  # as in sign()
                    if which is look:
                        await kernel.audit.flush()  # reads are buffered until then
                    if result.success:  # not on a machine so busy that the log was waited for in vain
                        note(folder, TOLD, f"{result.record} {number}")

        async def sign() -> None:
            while True:
                await asyncio.sleep(random.uniform(0, 0.05))
                with suppress(StoreBusy):  # another process is frozen, and has the lock
                    checkpoint = await kernel.audit.checkpoint(key, now=kernel.now())
                    if checkpoint:
                        note(folder, KEPT, json.dumps(asdict(checkpoint)))

        await asyncio.gather(sign(), *(call() for _ in range(WORKERS)))
