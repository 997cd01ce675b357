"""One outcome record for every attempt, under every ending, by every door, in any order and at once (spec 4, G19)."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capset import Context, Decision, Json, Message, Progress, Reply, Request, Session, Tool, allow, deny, policy, tool
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
NESTED: Final = ("succeeded", "failed", "crashed", "misshapen", "timed_out", "denied")
ENDINGS: Final = (*NESTED, "invalid", "not_found", "cancelled")
DOORS: Final = ("call", "try_call", "invoke")


ATTEMPTS = st.tuples(st.sampled_from(DOORS), st.sampled_from(sorted(TOOLS)), st.sampled_from(ENDINGS))


def failing(at: str, error: Exception) -> TappedStore:
    """Return a store whose log fails at a phase."""

    def fail(phase: str) -> None:
        if phase == at:
            raise error

    return TappedStore(fail)


def made_pay(paid: list[int], effect: Any = "write") -> Tool[[], int]:
    @tool(effect=effect)
    async def pay() -> int:
        """Pay."""
        paid.append(1)
        return 1

    return pay


async def attempt(session: Session, door: str, name: str, ending: str) -> None:
    """Make one attempt, whatever comes of it; one that never ends by itself is cancelled."""
    arguments: dict[str, Any] = {"ending": 5} if ending == "invalid" else {"ending": ending}
    if ending == "not_found":
        go = read(session.invoke(Message("command", "nothing_such", arguments)))
    elif door == "invoke":
        go = read(session.invoke(session.message(name, Json(json.dumps(arguments).encode()))))
    else:
        go = getattr(session, door)(TOOLS[name], **arguments)
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


async def check(opened: Desk, attempts: list[tuple[str, str, str]]) -> None:
    records = await opened.records()
    outcomes = Counter(OUTCOMES.get(ending, ending) for _, _, ending in attempts)
    assert Counter(record.outcome for record in records) == outcomes
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
@pytest.mark.parametrize("door", DOORS)
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
@pytest.mark.parametrize(
    ("error", "status", "code", "outcome"),
    [
        (StoreError("the database '/srv/private/capset.db' is full"), 503, "store_unavailable", "unavailable"),
        (ZeroDivisionError("/srv/private/capset.db"), 500, "internal_error", "failed"),
    ],
    ids=["store", "defect"],
)
async def test_without_an_intent_nothing_runs_and_the_attempt_is_on_record(
    error: Exception, status: int, code: str, outcome: str, caplog: pytest.LogCaptureFixture
) -> None:
    pay = made_pay(paid := [])
    async with desk(pay, store=failing("intent", error)) as opened:
        (message,) = await ask(opened.session, "pay")
        assert (message.data["status"], message.data["code"]) == (status, code)
        assert message.data["retryable"] is (status == 503)
        assert "/srv" not in message.data["message"]
        assert paid == []
        record = await opened.record()
        assert (record.outcome, record.code, record.decision) == (outcome, code, None)
    assert "/srv/private/capset.db" in caplog.text


@pytest.mark.spec("G19", "G23")
@pytest.mark.parametrize("effect", ["write", "read"])
async def test_a_caller_whose_outcome_could_not_be_recorded_is_told_503_and_not_to_repeat_a_write(effect: Any) -> None:
    pay = made_pay([], effect)
    async with desk(pay, store=failing("outcome", StoreError("the disk is full"))) as opened:
        result = await opened.session.try_call(pay)
        assert (result.success, result.data) == (False, None)
        assert isinstance(result.error, StoreError)
        assert (result.error.status, result.error.retryable) == (503, effect == "read")
        assert ("ran, but its outcome could not be put on record" in result.error.message) is (effect == "write")


async def test_a_cancellation_goes_on_even_if_it_cannot_be_recorded(caplog: pytest.LogCaptureFixture) -> None:
    async with desk(act, store=failing("outcome", StoreError("the disk is full"))) as opened:
        running = asyncio.create_task(opened.session.call(act, "cancelled"))
        await turns()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert "is not on record: the disk is full" in caplog.text


@pytest.mark.spec("G19", "C31")
@pytest.mark.parametrize("ending", NESTED)
async def test_a_nested_call_is_an_attempt_of_its_own(ending: str) -> None:
    async with desk(act, act_for) as opened:
        outer = await opened.session.try_call(act_for, ending)
        nested, around = await opened.records()
        assert (nested.tool, around.tool) == ("act", "act_for")
        assert nested.outcome == OUTCOMES.get(ending, ending)
        assert around.outcome == ("succeeded" if ending == "succeeded" else "failed")
        assert around.id == outer.record
        assert (nested.causation, nested.correlation) == (around.id, around.correlation)


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
        allowed = [json.loads(record.arguments)["depth"] for record in records if record.decision == "allow"]
        assert sorted(allowed) == list(range(51))
        assert {record.outcome for record in records} == {"failed"}
        assert len(records) == 52
        assert (await opened.kernel.audit.verify()).ok


@pytest.mark.spec("D42")
async def test_an_outcome_that_could_not_be_put_on_record_is_once_the_store_is_back() -> None:
    failures = [StoreError("the server ended the connection")]

    def fail(phase: str) -> None:
        if phase == "outcome" and failures:
            raise failures.pop()

    pay = made_pay([])
    async with desk(pay, store=TappedStore(fail)) as opened:
        result = await opened.session.try_call(pay)
        assert result.error is not None
        assert not result.error.retryable, "it ran, and what came of it was not known to be on record"
        record = await opened.record()
        assert (record.id, record.outcome) == (result.record, "succeeded")
        assert (await opened.kernel.audit.verify()).ok
