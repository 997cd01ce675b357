"""Blocks to try things with, and a short way to run one."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from capset import Kernel, Principal, Record, Session
from capset.definitions.blocks import Block
from capset.flows import Handler
from capset.kernel.blocks.generation import GeneratorRunner
from capset.stores.base import AuditQuery

ADA = Principal("ada", org="acme", permissions=["orders:write"])


@asynccontextmanager
async def opened(
    block: Block, *, store: str = "memory://", runner: GeneratorRunner | None = None
) -> AsyncGenerator[Session]:
    """Open a session of a block, in a kernel of its own."""
    async with Kernel(store, generator=runner) as kernel, kernel.open(block, principal=ADA) as session:
        yield session


async def run(
    block: Block, input: object = None, *, store: str = "memory://", runner: GeneratorRunner | None = None
) -> Any:
    """Run a block once."""
    async with opened(block, store=store, runner=runner) as session:
        return await session.run(input)


async def records(kernel: Kernel) -> list[Record]:
    """Return every outcome record, oldest first."""
    await kernel.audit.flush()
    return list((await kernel.audit.query(AuditQuery(limit=1000))).items[::-1])


def add(name: str, more: int) -> Handler:
    """Return a handler that adds to a number."""

    def function(value: int) -> int:
        return value + more

    return Handler(name, function)
