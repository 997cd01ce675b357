"""Turns of several processes: whose hold lapses while theirs lives, and that begin as another ends (spec 10, D40)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

from capset.clock import SystemClock
from capset.definitions.governance.hooks import Hooks
from capset.errors import ApprovalExpired, StoreError, TurnRunning
from capset.kernel.call.session import Session
from capset.stores.base import ApprovalQuery, AuditQuery, Begun, Claim, Entry, NewEvent, SessionRow, TurnRow
from capset_agents.checkpoints import TurnCheckpoint, write_checkpoint
from capset_agents.hosts import WrongProcess
from capset_agents.journal import TurnJournal
from capset_agents.playback.scripts import Call
from capset_agents.turns import process_of
from tests.helpers.agents.support import Shelf, Site, site
from tests.waiting import until


@pytest.mark.spec("D40")
@pytest.mark.parametrize("is_same", [False, True], ids=["another", "the same, later"])
async def test_a_process_that_lost_its_turn_has_no_further_effect(
    url: str, shelf: Shelf, monkeypatch: pytest.MonkeyPatch, is_same: bool
) -> None:
    """It was frozen for longer than its hold, at the last moment before a call: that is refused, on record."""
    async with site(url, shelf, [Call("put", text="a"), "Done."]) as host:
        row, events, admissions = await host.session(), host.kernel.store.events, host.kernel.store.admissions
        admit, holders = admissions.admit, list[str]()

        async def frozen(claim: Claim, intent: Entry | None) -> None:
            is_taken = False
            while not is_taken:  # the journal may renew its hold in between
                turn_row = (await events.read(row.id, after=0, limit=1)).running
                assert turn_row is not None
                holders.append(f"{process_of(turn_row.holder)}/later" if is_same else "another")
                is_taken = await events.take(turn_row, replace(turn_row, holder=holders[-1]))
            await admit(claim, intent)

        monkeypatch.setattr(admissions, "admit", frozen)
        turn = await host.say(row, "go")
        assert shelf.done == []
        (record,) = (await host.kernel.audit.query(AuditQuery(correlation=turn))).items
        assert (record.tool, record.outcome, record.code) == ("put", "denied", "turn_lost")
        turn_row = (await events.read(row.id, after=0, limit=1)).running
        assert turn_row is not None
        assert turn_row.holder == holders[-1], "it does not end what is another's"
        assert [kind for kind, _ in await host.told(row)][-1] != "turn.failed"


@pytest.mark.spec("D40", "R6")
async def test_a_call_waits_until_the_answer_that_made_it_is_stored(
    url: str, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another transaction fails to store it at that moment; otherwise a next process would ask the model again."""
    async with site(url, shelf, [Call("put", text="a"), "Done."]) as host:
        events, admissions = host.kernel.store.events, host.kernel.store.admissions
        append, admit, store = events.append, admissions.admit, TurnJournal.store
        steps = list[str]()
        is_storing, may_fail = asyncio.Event(), asyncio.Event()

        async def append_later(row: TurnRow, new: Sequence[NewEvent], **options: Any) -> None:
            if options["messages"] and not is_storing.is_set():
                is_storing.set()
                await may_fail.wait()
                steps.append("failed")
                raise StoreError("the disk is full")
            await append(row, new, **options)
            if options["messages"]:
                steps.append("stored")

        async def store_later(journal: TurnJournal, results: Mapping[str, str] | None = None) -> None:
            if not may_fail.is_set():
                await is_storing.wait()  # the writer was first
                may_fail.set()
            await store(journal, results)

        async def noted(claim: Claim, intent: Entry | None) -> None:
            steps.append("called")
            await admit(claim, intent)

        monkeypatch.setattr(events, "append", append_later)
        monkeypatch.setattr(admissions, "admit", noted)
        monkeypatch.setattr(TurnJournal, "store", store_later)
        await host.say(await host.session(), "go")
        assert (steps[:3], shelf.done) == (["failed", "stored", "called"], ["put a"])


class JumpingClock(SystemClock):
    """The machine's clock, some nanoseconds ahead."""

    ahead = 0

    def time_ns(self) -> int:
        return time.time_ns() + self.ahead


@pytest.mark.spec("D40")
async def test_a_process_does_not_take_over_its_own_turn(url: str, shelf: Shelf) -> None:
    """Its clock has jumped ahead, so that its own hold has lapsed: the turn goes on, once."""
    clock = JumpingClock()
    async with site(url, shelf, [Call("hang"), "Done."], clock=clock) as host:
        row = await host.session()
        turn = await host.begin(row, "go")
        await until(lambda: shelf.done == ["hang"])
        clock.ahead = 3_600 * 1_000_000_000
        assert await host.turns.continue_due() == 0
        with pytest.raises(TurnRunning):
            await host.resume(row, turn)
        assert shelf.done == ["hang"]
        assert [kind for kind, _ in await host.told(row)].count("turn.resumed") == 0
        await host.turns.cancel(row, turn, by="ada")


@pytest.mark.spec("R7")
async def test_a_request_that_has_expired_ends_a_turn_that_its_caller_resumes(url: str, shelf: Shelf) -> None:
    clock = JumpingClock()
    async with site(url, shelf, [Call("burn", text="a"), Call("burn", text="a"), "Burnt."], clock=clock) as host:
        row = await host.session()
        turn = await host.say(row, "go")
        clock.ahead = 48 * 3_600 * 1_000_000_000
        with pytest.raises(ApprovalExpired, match="did not come in time"):
            await host.resume(row, turn)
        kind, data = await host.last(row)
        assert (kind, data["error"]["code"]) == ("turn.failed", "approval_expired")
        assert len((await host.kernel.store.approvals.list(ApprovalQuery(None))).items) == 1
        assert shelf.done == []


@pytest.mark.spec("R5", "R6")
async def test_a_turn_that_begins_as_another_ends_has_its_answer(
    url: str, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On another server: of the answer that came between its opening and its first event, the model knows."""
    requests = list[list[ModelMessage]]()
    answers = asyncio.Event()

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> AsyncGenerator[str]:
        requests.append(messages)
        await answers.wait()
        yield f"answer {len(requests)}"

    model = FunctionModel(stream_function=answer)
    async with (
        site(url, shelf, [], model=model) as host,
        site(url, shelf, [], model=model, agent=host.agent) as second_host,
    ):
        row = await host.session()
        first = await host.begin(row, "one")
        await until(lambda: bool(requests))
        begin = second_host.kernel.store.events.begin

        async def late(*args: Any, **options: Any) -> Begun:
            answers.set()
            await host.turns.wait(first)
            return await begin(*args, **options)

        monkeypatch.setattr(second_host.kernel.store.events, "begin", late)
        await second_host.say(row, "two")
        parts = [part for message in requests[-1] for part in message.parts]
        texts = [part.content for part in parts if isinstance(part, TextPart | UserPromptPart)]
        assert texts == ["one", "answer 1", "two"]


@pytest.mark.spec("R7", "R9")
async def test_a_model_may_give_its_calls_the_same_id_again(url: str, shelf: Shelf) -> None:
    """A call that was approved is made, though another one of its id was made before it was suspended."""
    moves = [("put", "a"), ("burn", "b"), ("put", "c"), ("put", "d")]

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> AsyncGenerator[str | DeltaToolCalls]:
        match sum(isinstance(message, ModelResponse) for message in messages):
            case 0 | 1 as step:
                yield {0: DeltaToolCall(moves[step][0], f'{{"text": "{moves[step][1]}"}}', tool_call_id="call_0")}
            case 2:
                calls = enumerate(moves[2:])
                yield {
                    at: DeltaToolCall(name, f'{{"text": "{text}"}}', tool_call_id="call_0")
                    for at, (name, text) in calls
                }
            case _:
                yield "Done."

    async with site(url, shelf, [], model=FunctionModel(stream_function=answer)) as host:
        row = await host.session()
        await host.say(row, "go")
        await host.approve()
        await host.go_on()
        assert await host.last(row) == ("turn.ended", {"output": "Done."})
        assert sorted(shelf.done) == ["burn b", "put a", "put c", "put d"]
        called = [data["call"] for kind, data in await host.told(row) if kind == "tool.called"]
        assert called == ["call_0", "call_0_2", "call_0_3", "call_0_4"]


async def leave(host: Site, caller_name: str) -> SessionRow:
    """Leave a turn of a new session, begun by a caller of a name, as a process leaves it that dies at once."""
    row, now = await host.session(), host.kernel.now()
    checkpoint = TurnCheckpoint(content="go", correlation="c", caller={"who": caller_name}, runtime_hash="")
    turn_row = TurnRow(row.id, host.kernel.new_id(), "dead", now, write_checkpoint(checkpoint))
    started = NewEvent("turn.started", "{}")
    await host.kernel.store.events.begin(turn_row, started, now=now, interrupted=started)
    return row


@pytest.mark.spec("R9")
async def test_turns_that_are_left_to_others_hold_up_no_others(
    url: str, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of command lines that were killed, on a server's database."""
    async with site(url, shelf, ["Done."]) as host:
        for _ in range(100):
            await leave(host, "another")
        row, reopen = await leave(host, "ada"), host.reopen

        async def reopen_own(row: SessionRow, caller: Mapping[str, Any], hooks: Hooks) -> Session:
            if caller["who"] != "ada":
                raise WrongProcess
            return await reopen(row, caller, hooks)

        monkeypatch.setattr(host, "reopen", reopen_own)
        await host.go_on()
        await host.go_on()
        assert await host.last(row) == ("turn.ended", {"output": "Done."})


@pytest.mark.spec("R9")
async def test_a_turn_that_fails_to_be_continued_holds_up_no_others(
    url: str, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site(url, shelf, ["Done."]) as host:
        broken, busy, row = [await leave(host, caller_name) for caller_name in ("broken", "busy", "ada")]
        reopen = host.reopen

        async def fails(row: SessionRow, caller: Mapping[str, Any], hooks: Hooks) -> Session:
            if caller["who"] == "broken":
                raise RuntimeError("the code of a host is wrong")
            if caller["who"] == "busy":
                raise StoreError("the store is away for a moment")
            return await reopen(row, caller, hooks)

        monkeypatch.setattr(host, "reopen", fails)
        await host.go_on()
        kind, data = await host.last(broken)
        assert (kind, data["error"]["code"]) == ("turn.failed", "internal_error")
        assert await host.last(row) == ("turn.ended", {"output": "Done."})
        monkeypatch.setattr(host, "reopen", reopen)
        await host.go_on()
        assert await host.last(busy) == ("turn.ended", {"output": "Done."})
