"""Validators of the host's own run in a thread of their caller's: a slow one holds up nobody else (spec 1, C34)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from threading import Event
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from capset import Agent, Capability, Context, Kernel, Principal, Resource, tool
from capset.errors import StateError
from tests.helpers.kernel.state.calls import done

total = Resource("total", int, scope="session", default=0)


class Gate:
    """Stops a validator until it is opened."""

    def close(self) -> None:
        self.reached, self.opened = Event(), Event()

    def pass_through(self) -> None:
        self.reached.set()
        if not self.opened.wait(20):
            raise ValueError("nothing else could go on meanwhile")


gate = Gate()


class Slow(BaseModel):
    name: str = ""
    count: int = 0
    log: list[str] = []

    @field_validator("name")
    @classmethod
    def wait(cls, name: str) -> str:
        if name == "slow":
            gate.pass_through()
        return name


SLOW = Resource("slow", Slow, scope="session", default=Slow)
Work = Callable[[Any], Awaitable[Any]]
WORK: dict[str, Work] = {
    "set": lambda handle: handle.set(Slow.model_construct(name="slow", count=0, log=[])),
    "patch": lambda handle: handle.patch(name="slow"),
    "update": lambda handle: handle.update(lambda value: value.model_copy(update={"name": "slow"})),
}
AGAIN: dict[str, Work] = {
    "get": lambda handle: handle.get(),
    "increment": lambda handle: handle.increment("count"),
    "push": lambda handle: handle.push("x", field="log"),
}


@pytest.mark.timeout(60)
@pytest.mark.spec("C34")
@pytest.mark.parametrize("kind", ["state", "resource"])
@pytest.mark.parametrize("operation", [*WORK, *AGAIN])
async def test_a_slow_validator_holds_up_nobody_else(operation: str, kind: str, store: str) -> None:
    async def do(ctx: Context) -> None:
        handle = ctx.state(Slow) if kind == "state" else ctx.resource(SLOW)
        gate.close()
        if operation in AGAIN:
            gate.opened.set()
            await handle.patch(name="slow")
            gate.close()
        running = asyncio.ensure_future((WORK | AGAIN)[operation](handle))
        await asyncio.to_thread(gate.reached.wait, 20)
        async with asyncio.timeout(60):
            assert await ctx.resource(total).increment() > 0
        assert not running.done()
        gate.opened.set()
        await running
        assert (await handle.get()).name == "slow"

    await done(do, SLOW, total, store=store, state={"session": Slow})


class Checked(BaseModel):
    """A model with a validator, which many change at once."""

    count: int = 0
    log: list[int] = []

    @field_validator("count")
    @classmethod
    def positive(cls, count: int) -> int:
        if count < 0:
            raise ValueError("a count is positive")
        return count


@tool
async def count(ctx: Context, times: int) -> int:
    """Count up and note it, many times at once."""
    state = ctx.state(Checked)
    async with asyncio.TaskGroup() as group:
        for number in range(times):
            group.create_task(state.increment("count"))
            group.create_task(state.push(number, field="log"))
    return (await state.get()).count


@tool(effect="read")
async def look(ctx: Context) -> Checked:
    """Return the state."""
    return await ctx.state(Checked).get()


COUNTING = Agent("counting", uses=[Capability("kit", state={"session": Checked}, tools=[count, look])])


@pytest.mark.timeout(120)
@pytest.mark.spec("C34")
async def test_no_update_is_lost_between_kernels_although_validators_run_outside_of_transactions(store: str) -> None:
    principal, times = Principal("ada"), 20
    async with Kernel(store=store) as first_kernel, first_kernel.open(COUNTING, principal=principal) as first:
        if store == "memory://":
            await asyncio.gather(first.call(count, times), first.call(count, times))
        else:
            async with (
                Kernel(store=store) as two,
                two.open(COUNTING, principal=principal, session_id=first.id) as second,
            ):
                await asyncio.gather(first.call(count, times), second.call(count, times))
        state = await first.call(look)
    assert state.count == 2 * times
    assert sorted(state.log) == sorted([*range(times)] * 2)


@pytest.mark.spec("C34", "C35")
async def test_what_a_validator_refuses_changes_nothing_and_says_why(store: str) -> None:
    async def do(ctx: Context) -> None:
        state = ctx.state(Checked)
        await state.patch(count=3)
        for refused in (state.increment("count", -5), state.patch(count=-1)):
            with pytest.raises(StateError, match="a count is positive"):
                await refused
        assert (await state.get()).count == 3

    await done(do, store=store, state={"session": Checked})


@pytest.mark.spec("C34")
async def test_a_patch_inside_an_update_of_the_same_value_is_refused_instead_of_waiting_for_itself() -> None:
    async def do(ctx: Context) -> None:
        state = ctx.state(Checked)

        async def patch_within(value: Checked) -> Checked:
            return await state.patch(count=value.count + 1)

        with pytest.raises(StateError, match="it would wait for itself"):
            await state.update(patch_within)

    await done(do, state={"session": Checked})
