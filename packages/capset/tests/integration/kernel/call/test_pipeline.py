"""One outcome record for every attempt, under every ending, by every door, in any order and at once (spec 4, G19)."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capset import Context, Decision, Json, Message, Progress, Reply, Request, Session, allow, deny, policy, tool
from capset.errors import CapsetError, StoreError, ToolError
from tests.helpers.kernel.support import Desk, TappedStore, ask, desk, read, rows_of, turns


@policy
def three_is_too_many(request: Request) -> Decision:
    return deny("three") if request.arguments and request.arguments["ending"] == "denied" else allow()


async def end(ending: str) -> int:
    match ending:
        case "succeeded":
            return 1
        case "failed":
            raise ToolError("no")
        case "crashed":
            raise ValueError("no")
        case "misshapen":
            return "x"  # pyright: ignore[reportReturnType]
        case "timed_out":
            await asyncio.sleep(5)
        case "cancelled":
            await asyncio.get_running_loop().create_future()
        case _:
            pass
    raise AssertionError(f"{ending} ran")


@tool(policies=[three_is_too_many], timeout=0.02)
async def act(ending: str) -> int:
    """End as told."""
    return await end(ending)


@tool(effect="read", policies=[three_is_too_many], timeout=0.02)
async def look(ending: str) -> int:
    """End as told."""
    return await end(ending)


@tool(policies=[three_is_too_many], timeout=0.02)
async def flow(ending: str) -> AsyncIterator[Progress | Reply[int]]:
    """End as told, after an event."""
    yield Progress(0.5)
    yield Reply(await end(ending))


@tool(effect="read")
async def act_for(ctx: Context, ending: str) -> int:
    """Have another end as told."""
    return await ctx.call(act, ending)


TOOLS: Final = {"act": act, "look": look, "flow": flow}
OUTCOMES: Final = {"crashed": "failed", "misshapen": "failed"}
ENDINGS: Final = (
    "succeeded",
    "failed",
    "crashed",
    "misshapen",
    "timed_out",
    "denied",
    "invalid",
    "not_found",
    "cancelled",
)


async def by_call(session: Session, name: str, arguments: dict[str, Any]) -> None:
    if name in TOOLS:
        await session.call(TOOLS[name], **arguments)
    else:
        await read(session.invoke(Message("command", name, arguments)))


async def by_try_call(session: Session, name: str, arguments: dict[str, Any]) -> None:
    if name in TOOLS:
        await session.try_call(TOOLS[name], **arguments)
    else:
        await read(session.invoke(Message("query", name, arguments)))


async def by_invoke(session: Session, name: str, arguments: dict[str, Any]) -> None:
    await read(session.invoke(session.message(name, Json(json.dumps(arguments).encode()))))


DOORS: Final[dict[str, Callable[[Session, str, dict[str, Any]], Awaitable[None]]]] = {
    "call": by_call,
    "try_call": by_try_call,
    "invoke": by_invoke,
}
ATTEMPTS = st.tuples(st.sampled_from(sorted(DOORS)), st.sampled_from(sorted(TOOLS)), st.sampled_from(ENDINGS))


async def attempt(session: Session, door: str, name: str, ending: str) -> None:
    """Make one attempt, whatever comes of it; one that never ends by itself is cancelled."""
    arguments: dict[str, Any] = {"ending": 5} if ending == "invalid" else {"ending": ending}
    go = DOORS[door](session, "nothing_such" if ending == "not_found" else name, arguments)
    if ending != "cancelled":
        try:
            await go
        except CapsetError:
            return
    else:
        running = asyncio.ensure_future(go)
        await turns(2)
        running.cancel()
        await asyncio.wait([running])


def expected(attempts: list[tuple[str, str, str]]) -> Counter[str]:
    return Counter(OUTCOMES.get(ending, ending) for _, _, ending in attempts)


async def check(opened: Desk, attempts: list[tuple[str, str, str]]) -> None:
    records = await opened.records()
    assert Counter(record.outcome for record in records) == expected(attempts)
    assert len({record.id for record in records}) == len(attempts)
    assert (await opened.kernel.audit.verify()).ok


@pytest.mark.spec("G19")
@settings(max_examples=40, deadline=None)
@given(attempts=st.lists(ATTEMPTS, max_size=12))
async def test_one_after_another_each_attempt_has_one_outcome(attempts: list[tuple[str, str, str]]) -> None:
    async with desk(act, look, flow) as opened:
        for parameters in attempts:
            await attempt(opened.session, *parameters)
        await check(opened, attempts)


@pytest.mark.nightly
@pytest.mark.spec("G19")
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(attempts=st.lists(ATTEMPTS, max_size=40))
async def test_all_at_once_each_attempt_has_one_outcome(
    attempts: list[tuple[str, str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    for url in ("memory://", f"sqlite:///{tmp_path_factory.mktemp('run')}/capset.db"):
        async with desk(act, look, flow, store=url) as opened:
            await asyncio.gather(*(attempt(opened.session, *parameters) for parameters in attempts))
            await check(opened, attempts)


@pytest.mark.spec("G19", "G23")
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("door", sorted(DOORS))
async def test_an_intent_is_there_for_what_started_and_only_then(ending: str, door: str, tmp_path: Path) -> None:
    async with desk(act, look, flow, store=f"sqlite:///{tmp_path}/capset.db") as opened:
        for name in TOOLS:
            await attempt(opened.session, door, name, ending)
        records = await opened.records()
        assert [record.outcome for record in records] == [OUTCOMES.get(ending, ending)] * 3
        links = rows_of(tmp_path / "capset.db")
        started = {"denied", "invalid", "not_found"}.isdisjoint({ending})
        intents = {record_id for record_id, phase, _ in links if phase == "intent"}
        assert intents == ({record.id for record in records if record.tool != "look"} if started else set())
        for intent in intents:
            assert [phase for record_id, phase, _ in links if record_id == intent] == ["intent", "outcome"]


@pytest.mark.spec("G23")
@pytest.mark.parametrize("effect", ["write", "external", "destructive"])
async def test_the_intent_is_in_the_file_before_the_handler_starts(effect: Any, tmp_path: Path) -> None:
    reads: list[list[tuple[str, str, str | None]]] = []

    @tool(effect=effect)
    async def look_into_the_file() -> int:
        """See what another connection sees."""
        reads.append(rows_of(tmp_path / "capset.db"))
        return 1

    async with desk(look_into_the_file, store=f"sqlite:///{tmp_path}/capset.db") as opened:
        result = await opened.session.try_call(look_into_the_file)
        assert reads == [[(result.record, "intent", None)]]
        # … and the outcome is there before the caller is told.
        assert rows_of(tmp_path / "capset.db")[1:] == [(result.record, "outcome", "succeeded")]


@pytest.mark.spec("G19", "G23")
@pytest.mark.parametrize("door", ["call", "try_call", "invoke"])
async def test_without_an_intent_there_is_503_and_the_attempt_is_on_record(
    door: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(phase: str) -> None:
        if phase == "intent":
            raise StoreError("the database '/srv/private/capset.db' is full")

    ran: list[int] = []

    @tool
    async def never() -> int:
        """Never run."""
        ran.append(1)
        return 1

    async with desk(never, store=TappedStore(fail)) as opened:
        match door:
            case "call":
                with pytest.raises(StoreError) as raised:
                    await opened.session.call(never)
                error = raised.value
            case "try_call":
                result = await opened.session.try_call(never)
                assert result.error
                error = result.error
            case _:
                (message,) = await ask(opened.session, "never")
                assert (message.data["status"], message.data["retryable"]) == (503, True)
                error = StoreError(message.data["message"])
        assert error.status == 503
        assert "/srv" not in error.message
        assert ran == []
        record = await opened.record()
        assert (record.outcome, record.code, record.decision) == ("unavailable", "store_unavailable", None)
    assert "/srv/private/capset.db" in caplog.text


@pytest.mark.spec("G23")
@pytest.mark.parametrize("effect", ["write", "read"])
async def test_a_caller_whose_outcome_could_not_be_recorded_is_told_503(effect: Any) -> None:
    def fail(phase: str) -> None:
        if phase == "outcome":
            raise StoreError("the disk is full")

    @tool(effect=effect)
    async def done() -> int:
        """Be done."""
        return 1

    async with desk(done, store=TappedStore(fail)) as opened:
        result = await opened.session.try_call(done)
        assert (result.success, result.data) == (False, None)
        assert isinstance(result.error, StoreError)
        (error,) = await ask(opened.session, "done")
        assert error.data["status"] == 503


async def test_a_cancellation_goes_on_even_if_it_cannot_be_recorded(caplog: pytest.LogCaptureFixture) -> None:
    def fail(phase: str) -> None:
        if phase == "outcome":
            raise StoreError("the disk is full")

    async with desk(act, store=TappedStore(fail)) as opened:
        running = asyncio.create_task(opened.session.call(act, "cancelled"))
        await turns()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert "is not on record: the disk is full" in caplog.text


@pytest.mark.spec("G19")
async def test_a_defect_of_a_stage_fails_its_call_closed_and_on_record(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    async def done() -> int:
        """Be done."""
        raise AssertionError("it ran")

    def explode(phase: str) -> None:
        if phase == "intent":
            raise ZeroDivisionError("secret")

    async with desk(done, store=TappedStore(explode)) as opened:
        (error,) = await ask(opened.session, "done")
        assert (error.data["status"], error.data["code"]) == (500, "internal_error")
        assert "secret" not in error.data["message"]
        assert (await opened.record()).outcome == "failed"
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.spec("G19", "C31")
@pytest.mark.parametrize("ending", ["succeeded", "failed", "crashed", "misshapen", "timed_out", "denied"])
async def test_a_nested_call_is_an_attempt_of_its_own(ending: str) -> None:
    async with desk(act, act_for) as opened:
        outer = await opened.session.try_call(act_for, ending)
        nested = await opened.record(tool="act")
        around = await opened.record(tool="act_for")
        assert nested.outcome == OUTCOMES.get(ending, ending)
        assert around.outcome == ("succeeded" if ending == "succeeded" else "failed")
        assert around.id == outer.record
        assert (nested.causation, nested.correlation) == (around.id, around.correlation)
        assert nested.seq < around.seq


@pytest.mark.spec("G19")
@pytest.mark.parametrize("effect", ["read", "write"])
async def test_a_recursion_without_end_is_ended_and_every_attempt_is_on_record(effect: Any, store: str) -> None:
    @tool(effect=effect)
    async def recurse(ctx: Context, depth: int) -> int:
        """Call itself."""
        return await ctx.call(recurse, depth + 1)

    async with desk(recurse, store=store) as opened:
        result = await opened.session.try_call(recurse, 0)
        assert str(result.error) == "Calls are nested too deeply: more than 50 levels."
        records = await opened.records()
        assert {json.loads(record.arguments)["depth"] for record in records if record.decision == "allow"} == set(
            range(51)
        )
        assert {record.outcome for record in records} == {"failed"}
        assert len(records) == 52
        assert (await opened.kernel.audit.verify()).ok


@pytest.mark.spec("G19", "G23")
async def test_a_write_whose_outcome_is_not_on_record_is_not_to_be_repeated() -> None:
    def fail(phase: str) -> None:
        if phase == "outcome":
            raise StoreError("the disk is full")

    @tool
    async def pay() -> int:
        """Pay."""
        return 1

    async with desk(pay, store=TappedStore(fail)) as opened:
        error = (await opened.session.try_call(pay)).error
        assert error is not None
        assert (error.status, error.retryable) == (503, False)
        assert "ran, but its outcome could not be put on record" in error.message


@pytest.mark.spec("D42")
async def test_an_outcome_that_could_not_be_put_on_record_is_once_the_store_is_back() -> None:
    failures = [StoreError("the server ended the connection")]

    def fail(phase: str) -> None:
        if phase == "outcome" and failures:
            raise failures.pop()

    @tool
    async def pay() -> int:
        """Pay."""
        return 1

    async with desk(pay, store=TappedStore(fail)) as opened:
        result = await opened.session.try_call(pay)
        assert result.error is not None
        assert not result.error.retryable, "it ran, and what came of it was not known to be on record"
        record = await opened.record()
        assert (record.id, record.outcome) == (result.record, "succeeded")
        assert (await opened.kernel.audit.verify()).ok


async def test_one_error_that_two_calls_raise_keeps_each_its_own_correlation() -> None:
    shared = ToolError("no")

    @tool(effect="read")
    async def fail() -> int:
        """Fail."""
        raise shared

    async with desk(fail) as opened:
        first, second = [(await opened.session.try_call(fail)).error for _ in range(2)]
        assert first is not None
        assert second is not None
        assert first.correlation != second.correlation
