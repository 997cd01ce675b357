"""Floods of refused calls: beyond a number of them none is looked at, and they share records (spec 4, G15)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from capset import Agent, Capability, CapsetError, Kernel, Principal, Record, Session, ToolError, tool
from capset.definitions.governance.limits import Limit
from capset.definitions.governance.settings import Governance
from capset.errors import NotFound, PermissionDenied, TooManyRefusals
from capset.kernel.governance.refusals import GATHER_SECONDS
from capset_testing import FakeClock
from tests.helpers.kernel.support import records_of
from tests.waiting import until

ADA = Principal("ada", org="acme")


@tool(effect="read")
async def look() -> int:
    """Look."""
    return 1


@tool(permissions={"vault:open"})
async def unlock() -> int:
    """Open the vault."""
    return 1


@tool(effect="read")
async def fail() -> int:
    """Fail."""
    raise ToolError("no")


AGENT = Agent("tester", uses=[Capability("kit", tools=[look, unlock, fail])])


@dataclass
class Gate:
    kernel: Kernel
    session: Session
    clock: FakeClock

    async def refuse(self, times: int) -> list[CapsetError]:
        """Call what is not allowed, so often; return the errors."""
        results = [await self.session.try_call(unlock) for _ in range(times)]
        return [result.error for result in results if result.error is not None]

    async def records(self) -> list[Record]:
        """Return all records, those that are gathered too."""
        await until(lambda: self.kernel._open_runtime().refusals._timer is None)
        return await records_of(self.kernel.audit)


@asynccontextmanager
async def gate(requests: int | None = 3, store: str = "memory://") -> AsyncGenerator[Gate]:
    clock, limit = FakeClock(), None if requests is None else Limit(requests, "1m")
    kernel = Kernel(store, clock=clock, governance=Governance(refusals=limit))
    async with kernel, kernel.open(AGENT, principal=ADA) as session:
        yield Gate(kernel, session, clock)


@pytest.mark.spec("G15", "T9")
async def test_after_so_many_refusals_no_call_is_looked_at() -> None:
    async with gate() as harness:
        errors = await harness.refuse(4)
        assert [type(error) for error in errors] == [*3 * [PermissionDenied], TooManyRefusals]
        assert (errors[3].code, errors[3].status, errors[3].retryable) == ("too_many_refusals", 429, True)
        assert "try again in 60 s" in errors[3].message
        with pytest.raises(TooManyRefusals):
            await harness.session.call(look)
        for name in ("look", "nothing"):
            result = await harness.session.try_message(harness.session.message(name, {}))
            assert isinstance(result.error, TooManyRefusals), "nobody is told whether there is such a tool"


@pytest.mark.spec("G14", "G15")
async def test_it_ends_at_the_millisecond_that_was_told_and_flooding_puts_nothing_off() -> None:
    async with gate() as harness:
        await harness.refuse(1)
        harness.clock.advance(10)
        await harness.refuse(2)
        harness.clock.advance(0.5)
        (error,) = await harness.refuse(1)
        assert error.retry_after == 49.5
        harness.clock.advance(49.499)
        assert [refusal.retry_after for refusal in await harness.refuse(100)] == 100 * [0.001]
        harness.clock.advance(0.001)
        assert await harness.session.call(look) == 1
        refusals = [(type(refusal), refusal.retry_after) for refusal in await harness.refuse(2)]
        assert refusals == [(PermissionDenied, None), (TooManyRefusals, 10)], "one is past, so there is room for one"
        harness.clock.advance(60)
        assert {type(refusal) for refusal in await harness.refuse(3)} == {PermissionDenied}


@pytest.mark.spec("G15", "G19")
async def test_their_records_are_gathered_and_count_every_call(store: str) -> None:
    async with gate(store=store) as harness:
        errors = await harness.refuse(3 + 40)
        assert len({error.correlation for error in errors}) == 43
        records = await harness.records()
        assert [record.code for record in records] == [*3 * ["permission_denied"], "too_many_refusals"]
        assert [record.repeats for record in records] == [None, None, None, 40]
        assert (records[3].outcome, records[3].decision, records[3].principal) == ("limited", None, "ada")
        await harness.refuse(1)
        assert [record.repeats for record in (await harness.records())[4:]] == [None], "one call stands for itself"
        assert (await harness.kernel.audit.verify()).ok


@pytest.mark.spec("G15", "G19")
async def test_nothing_that_was_gathered_is_lost_when_the_kernel_closes(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/capset.db"
    async with gate(store=store) as harness:
        await harness.refuse(3 + 7)
    assert GATHER_SECONDS >= 1, "else it is not the closing that was seen"
    async with Kernel(store) as kernel:
        records = await records_of(kernel.audit)
    assert sum(record.repeats or 1 for record in records) == 10
    assert records[-1].repeats == 7


@pytest.mark.spec("G15")
@pytest.mark.parametrize(
    "other", [Principal("bob", org="acme"), Principal("ada"), Principal("ada", org="acme", kind="agent")]
)
async def test_other_principals_are_looked_at_and_gathered_apart(other: Principal) -> None:
    async with gate() as harness, harness.kernel.open(AGENT, principal=other) as session:
        await harness.refuse(3 + 2)
        assert await session.call(look) == 1
        errors = [(await session.try_call(unlock)).error for _ in range(3 + 4)]
        assert [type(error) for error in errors] == 3 * [PermissionDenied] + 4 * [TooManyRefusals]
        repeats = {record.session: record.repeats for record in await harness.records() if record.repeats}
        assert repeats == {harness.session.id: 2, session.id: 4}


@pytest.mark.spec("G15")
async def test_another_session_of_the_same_principal_is_no_way_around() -> None:
    async with gate() as harness, harness.kernel.open(AGENT, principal=ADA) as session:
        await harness.refuse(3)
        with pytest.raises(TooManyRefusals):
            await session.call(look)


@pytest.mark.spec("G15")
async def test_failures_are_no_refusals_and_without_a_limit_nothing_counts() -> None:
    async with gate() as harness:
        for _ in range(10):
            assert isinstance((await harness.session.try_call(fail)).error, ToolError)
        assert await harness.session.call(look) == 1
    async with gate(None) as harness:
        assert {type(error) for error in await harness.refuse(50)} == {PermissionDenied}


@pytest.mark.spec("G15")
async def test_what_was_called_that_is_not_there_counts_too() -> None:
    async with gate() as harness:
        codes = [(await harness.session.try_message(harness.session.message("x", {}))).error for _ in range(4)]
        assert [type(error) for error in codes] == [*3 * [NotFound], TooManyRefusals]
