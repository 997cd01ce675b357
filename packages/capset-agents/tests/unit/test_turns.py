"""Turns of agents: from the first message to the last event, and on in another process."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from capset.definitions.governance.approvals import Answer, ApprovalRow
from capset.definitions.governance.hooks import Hooks
from capset.errors import Conflict, NotFound, StateError, TurnRunning, TurnSuspended
from capset.stores.base import ApprovalQuery, AuditQuery, LinkQuery, NewEvent, TurnRow
from capset_agents.budgets import TurnBudget
from capset_agents.checkpoints import TurnCheckpoint, write_checkpoint
from capset_agents.content import MAX_FILE_BYTES
from capset_agents.execution import TooManyTurns
from capset_agents.playback.scripts import Call, Condition, ScriptStep, ToolCall
from tests.helpers.agents.support import EVE, READER, Moves, Shelf, site
from tests.waiting import moment, until


@pytest.mark.spec("R1", "R6")
async def test_a_turn_calls_tools_and_ends_with_its_text(url: str, shelf: Shelf) -> None:
    moves: Moves = [Call("look", text="a"), [Call("put", text="b"), Call("fail")], "All done."]
    async with site(url, shelf, moves) as host:
        row = await host.session()
        turn = await host.say(row, "tidy up")
        events = await host.told(row)
        assert events[0][0] == "turn.started"
        assert events[-1] == ("turn.ended", {"output": "All done."})
        assert shelf.done == ["look a", "put b"]
        text = "".join(data["text"] for kind, data in events if kind == "text.delta")
        assert text == "All done."
        called = [(data["tool"], data["arguments"]) for kind, data in events if kind == "tool.called"]
        assert called == [("look", {"text": "a"}), ("put", {"text": "b"}), ("fail", {})]
        results = {data["tool"]: data for kind, data in events if kind == "tool.result"}
        assert results["look"]["data"] == "seen a"
        assert results["put"]["success"]
        assert results["fail"]["code"] == "tool_error"
        assert "the shelf is broken" in results["fail"]["text"]
        page = await host.kernel.audit.query(AuditQuery(correlation=turn))
        calls = {record.id: (record.tool, record.causation) for record in page.items}
        assert calls[results["put"]["record"]] == ("put", results["put"]["call"])
        assert len(calls) == 3


@pytest.mark.spec("F36", "P99")
async def test_a_turn_leaves_a_link_and_a_run(url: str, shelf: Shelf) -> None:
    moves: Moves = [Call("burn", text="b"), "Burnt."]
    async with site(url, shelf, moves) as host:
        row = await host.session()
        turn = await host.say(row, "burn it")
        lineage, runs = host.kernel.store.lineage, host.kernel.store.runs
        (link,) = (await lineage.links(LinkQuery(None, session=row.id))).items
        assert (link.agent_name, json.loads(link.metadata)) == ("scribe", {"turn": turn})
        for name in (link.static_hash, link.runtime_hash, link.prompt_hash, *[ref.hash for ref in link.tool_refs]):
            assert await lineage.payload(None, name) is not None
        run = await runs.get(turn)
        assert run is not None
        assert (run.state, run.session, run.principal, run.queue, run.due_at) == ("waiting", row.id, "ada", None, None)
        await host.approve()
        await host.go_on()
        run = await runs.get(turn)
        assert run is not None
        assert (run.state, run.due_at, run.outcome) == ("succeeded", None, '{"output":"Burnt."}')
        assert run.begun_at is not None
        assert run.ended_at is not None
        assert run.usage is not None
        assert json.loads(run.usage)["steps"] == 2
        assert (await lineage.links(LinkQuery(None, session=row.id))).items == (link,), "the tools are the same"


@pytest.mark.spec("R4", "R5")
async def test_the_next_turn_goes_on_with_the_conversation(url: str, shelf: Shelf) -> None:
    async with site(url, shelf, ["Hello.", Call("look", text="x"), "Bye."]) as host:
        row = await host.session()
        await host.say(row, "first")
        await host.say(row, "second")
        messages = await host.said(row)
        prompts = [
            part["content"] for message in messages for part in message["parts"] if part["part_kind"] == "user-prompt"
        ]
        assert prompts == ["first", "second"]
        assert (await host.last(row))[1] == {"output": "Bye."}
        assert all(message.get("instructions") is None for message in messages)
        rows = (await host.kernel.store.events.messages(row.id)).items
        assert len({message_row.turn for message_row in rows}) == 2


@pytest.mark.spec("R7")
async def test_a_turn_that_needs_an_approval_goes_on_in_another_process(url: str, shelf: Shelf) -> None:
    moves: Moves = [[Call("put", text="a"), Call("burn", text="b")], "Burnt."]
    async with site(url, shelf, moves) as host:
        row = await host.session()
        turn = await host.say(row, "burn it")
        events = await host.told(row)
        assert [kind for kind, _ in events][-2:] == ["approval.requested", "turn.suspended"]
        assert events[-2][1]["arguments"] == {"text": "b"}
        with pytest.raises(TurnSuspended):
            await host.begin(row, "another")
        await host.turns.continue_due()
        assert (await host.last(row))[0] == "turn.suspended"
    assert shelf.done == ["put a"]
    async with site(url, shelf, moves, agent=host.agent) as second_host:
        await second_host.go_on()
        assert (await second_host.last(row))[0] == "turn.suspended"
        await second_host.approve()
        await second_host.go_on()
        events = await second_host.told(row)
        assert events[-1] == ("turn.ended", {"output": "Burnt."})
        assert shelf.done == ["put a", "burn b"]
        resumed = next(data for kind, data in events if kind == "turn.resumed")
        assert not resumed["changed"]
        assert len([1 for kind, _ in events if kind == "tool.called"]) == 2
        assert {event.turn for event in await second_host.events(row)} == {turn}


@pytest.mark.spec("R7")
async def test_a_rejection_is_read_by_the_model(url: str, shelf: Shelf) -> None:
    moves: Moves = [Call("burn", text="b"), "I may not."]
    async with site(url, shelf, moves) as host:
        row = await host.session()
        await host.say(row, "burn it")
        await host.approve(approved=False, note="not today")
        await host.go_on()
        results = [data for kind, data in await host.told(row) if kind == "tool.result"]
        assert results[0]["code"] == "approval_rejected"
        assert "not today" in results[0]["text"]
        assert (await host.last(row))[1] == {"output": "I may not."}
        assert shelf.done == []


@pytest.mark.spec("R10")
async def test_a_second_turn_is_refused_while_one_runs(url: str, shelf: Shelf) -> None:
    async with site(url, shelf, [Call("hang"), "x"]) as host:
        row = await host.session()
        turn = await host.begin(row, "hang")
        with pytest.raises(TurnRunning):
            await host.begin(row, "again")
        await until(lambda: bool(shelf.done))
        await host.turns.cancel(row, turn, by="user:ada")
        assert await host.last(row) == ("turn.cancelled", {"by": "user:ada"})
        with pytest.raises(NotFound):
            await host.turns.cancel(row, turn, by="user:ada")


@pytest.mark.spec("R10")
async def test_a_turn_is_cancelled_before_it_has_done_anything(url: str, shelf: Shelf) -> None:
    async with site(url, shelf, [Call("put", text="a"), "Done."]) as host:
        row = await host.session()
        turn = await host.begin(row, "go")
        await host.turns.cancel(row, turn, by="user:ada")
        assert await host.last(row) == ("turn.cancelled", {"by": "user:ada"})
        assert shelf.done == []


@pytest.mark.spec("R10")
async def test_a_turn_is_cancelled_while_it_is_being_suspended(
    url: str, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site(url, shelf, [Call("burn", text="a"), "Burnt."]) as host:
        row, approvals, reads = await host.session(), host.kernel.store.approvals, asyncio.Event()
        get = approvals.get

        async def slow(org: str | None, id: str) -> ApprovalRow | None:
            reads.set()
            await moment(0.05)
            return await get(org, id)

        monkeypatch.setattr(approvals, "get", slow)
        turn = await host.begin(row, "go")
        await reads.wait()
        await host.turns.cancel(row, turn, by="user:ada")
        assert await host.last(row) == ("turn.cancelled", {"by": "user:ada"})
        (request,) = (await host.kernel.store.approvals.list(ApprovalQuery(None))).items
        assert request.status == "expired"


@pytest.mark.spec("R10")
async def test_a_turn_is_cancelled_twice_at_once(url: str, shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    async with site(url, shelf, [Call("hang"), "Done."]) as host:
        row, events, ends = await host.session(), host.kernel.store.events, asyncio.Event()
        append = events.append

        async def slow(turn_row: TurnRow, new_events: Any, *, then: TurnRow | None, **rest: Any) -> int:
            if then is None:
                ends.set()
                await moment(0.05)
            return await append(turn_row, new_events, then=then, **rest)

        monkeypatch.setattr(events, "append", slow)
        turn = await host.begin(row, "go")
        await until(lambda: bool(shelf.done))
        first = asyncio.create_task(host.turns.cancel(row, turn, by="user:ada"))
        await ends.wait()
        await host.turns.cancel(row, turn, by="user:ada")
        await first
        assert [kind for kind, _ in await host.told(row)].count("turn.cancelled") == 1


@pytest.mark.spec("R5")
async def test_after_a_cancelled_turn_the_conversation_goes_on(url: str, shelf: Shelf) -> None:
    """Its open call is closed, so that any provider accepts the history."""
    async with site(url, shelf, [Call("hang"), "Where were we?"]) as host:
        row = await host.session()
        turn = await host.begin(row, "hang")
        await until(lambda: bool(shelf.done))
        await host.turns.cancel(row, turn, by="user:ada")
        await host.say(row, "still there?")
        assert (await host.last(row))[1] == {"output": "Where were we?"}
        kinds = [[part["part_kind"] for part in message["parts"]] for message in await host.said(row)]
        assert kinds == [["user-prompt"], ["tool-call"], ["tool-return"], ["text"], ["user-prompt"], ["text"]]


@pytest.mark.spec("R3")
async def test_a_turn_has_a_deadline(url: str, shelf: Shelf) -> None:
    async with site(url, shelf, [Call("hang"), "x"], seconds=0.3) as host:
        row = await host.session()
        await host.say(row, "hang")
        kind, data = await host.last(row)
        assert (kind, data["error"]["code"]) == ("turn.failed", "deadline_exceeded")


@pytest.mark.spec("R3")
async def test_a_model_that_never_stops_is_stopped(url: str, shelf: Shelf) -> None:
    async with site(
        url, shelf, [ScriptStep(calls=[ToolCall(tool="look")], repeat=100)], budget=TurnBudget(steps=5)
    ) as host:
        row = await host.session()
        await host.say(row, "go")
        kind, data = await host.last(row)
        assert (kind, data["error"]["code"]) == ("turn.failed", "budget_exceeded")
        assert len(shelf.done) == 2, "and equal calls are stopped before"


@pytest.mark.spec("R1")
async def test_calls_of_unknown_tools_and_broken_arguments_are_on_record(url: str, shelf: Shelf) -> None:
    broken = ScriptStep(calls=[ToolCall(tool="put", arguments="{broken")])
    moves: Moves = [Call("no_such_tool"), broken, "Sorry."]
    async with site(url, shelf, moves) as host:
        row = await host.session()
        turn = await host.say(row, "go")
        assert (await host.last(row))[1] == {"output": "Sorry."}
        page = await host.kernel.audit.query(AuditQuery(correlation=turn))
        assert sorted((record.tool, record.outcome) for record in page.items) == [
            ("no_such_tool", "not_found"),
            ("put", "invalid"),
        ]
        assert shelf.done == []


async def test_a_session_that_is_deleted_ends_its_turn(url: str, shelf: Shelf) -> None:
    async with site(url, shelf, [Call("hang"), "x"]) as host:
        row = await host.session()
        turn = await host.begin(row, "hang")
        await until(lambda: bool(shelf.done))
        await host.kernel.store.sessions.delete(row.id)
        host.turns.running[turn].journal.emit("x", {})
        async with asyncio.timeout(60):
            await host.turns.wait(turn)
        assert not host.turns.running
        assert await host.kernel.find_session(row.id) is None


@pytest.mark.spec("R9")
async def test_a_turn_of_a_closed_process_goes_on_in_the_next(url: str, shelf: Shelf, monkeypatch: Any) -> None:
    """The call that was cut off has an unknown outcome, and is not repeated."""
    monkeypatch.setattr("capset.kernel.kernel.DRAIN_SECONDS", 0.1)
    moves: Moves = [
        Call("put", text="a"),
        Call("hang"),
        ScriptStep(when=Condition(contains="not known"), text="Careful."),
    ]
    async with site(url, shelf, moves) as host:
        row = await host.session()
        await host.begin(row, "go")
        await until(lambda: "hang" in shelf.done)
    async with site(url, shelf, moves, agent=host.agent) as second_host:
        await second_host.go_on()
        events = await second_host.told(row)
        results = [data for kind, data in events if kind == "tool.result"]
        assert results[-1]["code"] == "outcome_unknown", events
        assert shelf.done == ["put a", "hang"]


async def test_no_turn_without_a_runner_of_models(url: str, shelf: Shelf) -> None:
    async with site(url, shelf, []) as host:
        row = await host.session()
        await host.say(row, "hello")
        kind, data = await host.last(row)
        assert (kind, data["error"]["code"]) == ("turn.failed", "script_error")


@pytest.mark.spec("R9")
async def test_a_turn_whose_process_died_at_once_begins_again(url: str, shelf: Shelf) -> None:
    """Before anything but its beginning was stored; and after three more deaths it ends."""
    moves: Moves = [Call("put", text="a"), "Done."]
    async with site(url, shelf, moves) as host:
        row, dead = await host.session(), await host.session()
        for session_row, takeovers in ((row, 0), (dead, 3)):
            checkpoint = TurnCheckpoint(
                content="go", correlation="c", caller={}, runtime_hash="0" * 64, takeovers=takeovers
            )
            turn_row = TurnRow(
                session_row.id, host.kernel.new_id(), "dead", host.kernel.now(), write_checkpoint(checkpoint)
            )
            started = NewEvent("turn.started", "{}")
            await host.kernel.store.events.begin(turn_row, started, now=host.kernel.now(), interrupted=started)
        await host.go_on()
        assert (await host.last(row))[1] == {"output": "Done."}
        resumed = next(data for kind, data in await host.told(row) if kind == "turn.resumed")
        assert (resumed["takeovers"], resumed["changed"]) == (1, True)
        kind, data = await host.last(dead)
        assert (kind, data["error"]["code"]) == ("turn.failed", "interrupted")
        assert shelf.done == ["put a"]


async def test_a_checkpoint_of_a_newer_version_is_left_to_it(url: str, shelf: Shelf) -> None:
    """And can be cancelled here."""
    async with site(url, shelf, []) as host:
        row = await host.session()
        turn_row = TurnRow(row.id, host.kernel.new_id(), "dead", host.kernel.now(), '{"format": 2}')
        started = NewEvent("turn.started", "{}")
        await host.kernel.store.events.begin(turn_row, started, now=host.kernel.now(), interrupted=started)
        await host.go_on()
        assert (await host.last(row))[0] == "turn.started"
        with pytest.raises(StateError, match="cannot read"):
            await host.turns.resume(row, turn_row.turn, {}, lambda hooks: host.reopen(row, {}, hooks))
        await host.turns.cancel(row, turn_row.turn, by="user:ada")
        assert (await host.last(row))[0] == "turn.cancelled"


@pytest.mark.spec("R1")
async def test_files_of_the_session_are_part_of_what_is_said(url: str, shelf: Shelf) -> None:
    """Texts as text, images as they are; what does not fit, or is not there, ends the turn with a clear error."""
    async with site(url, shelf, ["I see.", "Yes."], principal=READER) as host:
        row = await host.session()
        session = await host.reopen(row, {}, Hooks())
        await session.files.write("/a.txt", b"hello")
        await session.files.write("/b.png", b"\x89PNG")
        parts = [{"type": "text", "text": "look:"}, *({"type": "file", "path": path} for path in ("/a.txt", "/b.png"))]
        await host.say(row, parts)
        assert (await host.last(row))[1] == {"output": "I see."}
        (prompt,) = (await host.said(row))[0]["parts"]
        assert prompt["content"][:2] == ["look:", "/a.txt:\nhello"]
        assert (prompt["content"][2]["kind"], prompt["content"][2]["media_type"]) == ("binary", "image/png")
        await session.files.write("/c.bin", bytes(MAX_FILE_BYTES - 4))
        large = [{"type": "file", "path": path} for path in ("/c.bin", "/a.txt")]
        typed = {"type": "file", "path": "/b.png", "media_type": "png"}
        missing = {"type": "file", "path": "/none"}
        for bad in (large, [missing], [{"type": "url", "url": "x"}], [{"type": "text"}], [typed]):
            await host.say(row, bad)
            kind, data = await host.last(row)
            assert (kind, data["error"]["code"]) == ("turn.failed", "invalid_arguments"), bad
        await host.say(row, {"any": ["json"]})
        assert (await host.last(row))[1] == {"output": "Yes."}


@pytest.mark.spec("R27", "T51")
async def test_a_file_that_its_sender_may_not_read_is_not_given_to_the_model(url: str, shelf: Shelf) -> None:
    """Refused whether or not it is there, so that nothing is learnt of it either; texts are taken as ever."""
    async with site(url, shelf, ["Nothing."]) as host:
        row = await host.session()
        session = await host.reopen(row, {}, Hooks())
        await session.files.write("/a.txt", b"hello")
        for path in ("/a.txt", "/none.txt"):
            await host.say(row, [{"type": "text", "text": "look:"}, {"type": "file", "path": path}])
            kind, data = await host.last(row)
            assert (kind, data["error"]["code"]) == ("turn.failed", "permission_denied"), path
        await host.say(row, [{"type": "text", "text": "look:"}])
        assert (await host.last(row))[1] == {"output": "Nothing."}
        assert "hello" not in str(await host.said(row))


@pytest.mark.spec("R13", "T38")
async def test_the_same_call_three_times_is_stopped_unless_something_changed(url: str, shelf: Shelf) -> None:
    look = Call("look", text="x")
    moves: Moves = [look, look, look, Call("put", text="y"), look, look, "Enough."]
    async with site(url, shelf, moves) as host:
        row = await host.session()
        turn = await host.say(row, "go")
        codes = [data["code"] for kind, data in await host.told(row) if kind == "tool.result"]
        assert codes == [None, None, "call_repeated", None, None, None]
        page = await host.kernel.audit.query(AuditQuery(correlation=turn, code="call_repeated"))
        assert [(record.tool, record.outcome) for record in page.items] == [("look", "limited")]
        assert shelf.done == ["look x", "look x", "put y", "look x", "look x"]


@pytest.mark.spec("R13")
async def test_the_same_call_is_made_again_where_it_has_its_effect_each_time(url: str, shelf: Shelf) -> None:
    moves: Moves = [*([Call("put", text="y")] * 4), "Enough."]
    async with site(url, shelf, moves) as host:
        row = await host.session()
        await host.say(row, "go")
        assert await host.last(row) == ("turn.ended", {"output": "Enough."})
        assert shelf.done == ["put y"] * 4


@pytest.mark.spec("R13")
async def test_a_tool_that_keeps_failing_is_left_out_for_the_turn(url: str, shelf: Shelf) -> None:
    fails = [Call("fail", **{f"arg{number}": number}) for number in range(5)]
    moves: Moves = [*fails, Call("fail"), "I give up.", Call("look"), "Fine."]
    async with site(url, shelf, moves) as host:
        row = await host.session()
        turn = await host.say(row, "go")
        codes = [data["code"] for kind, data in await host.told(row) if kind == "tool.result"]
        assert codes == [*(["invalid_arguments"] * 5), "tool_left_out"]
        page = await host.kernel.audit.query(AuditQuery(correlation=turn, code="tool_left_out"))
        assert len(page.items) == 1
        assert (await host.last(row))[1] == {"output": "I give up."}


@pytest.mark.spec("R10")
async def test_the_requests_of_a_cancelled_turn_are_withdrawn(url: str, shelf: Shelf) -> None:
    """Nobody approves what nothing waits for, and no equal call is let through by it later."""
    moves: Moves = [[Call("burn", text="a"), Call("burn", text="b")], Call("burn", text="a"), "Done."]
    async with site(url, shelf, moves) as host:
        row = await host.session()
        turn = await host.say(row, "go")
        await host.approve()
        await host.turns.cancel(row, turn, by="user:ada")
        approvals = (await host.kernel.store.approvals.list(ApprovalQuery(None, session=row.id))).items
        assert [(approval.status, approval.note) for approval in approvals] == [("expired", "withdrawn")] * 2
        with pytest.raises(Conflict, match="it was expired by user:ada"):
            await host.kernel.approvals.decide(approvals[0].id, Answer(approved=True), by=EVE)
        await host.say(row, "again")
        assert (await host.last(row))[0] == "turn.suspended", "it is asked for again"
        assert shelf.done == []


@pytest.mark.spec("R17", "T38")
async def test_a_principal_has_so_many_turns_at_once(url: str, shelf: Shelf) -> None:
    """Those that are to be continued wait until there is room."""
    async with site(url, shelf, [Call("hang"), "x"], max_turns=2) as host:
        rows = [await host.session() for _ in range(4)]
        running = [await host.begin(row, "hang") for row in rows[:2]]
        with pytest.raises(TooManyTurns, match="is 2 turns at once"):
            await host.begin(rows[2], "hang")
        assert await host.events(rows[2]) == []
        checkpoint = write_checkpoint(TurnCheckpoint(content="go", correlation="c", caller={}, runtime_hash="0" * 64))
        turn_row = TurnRow(rows[3].id, host.kernel.new_id(), "dead", host.kernel.now(), checkpoint)
        started = NewEvent("turn.started", "{}")
        await host.kernel.store.events.begin(turn_row, started, now=host.kernel.now(), interrupted=started)
        assert await host.turns.continue_due() == 0
        await host.turns.cancel(rows[0], running[0], by="user:ada")
        assert await host.turns.continue_due() == 1
        for row, turn in ((rows[1], running[1]), (rows[3], turn_row.turn)):
            await host.turns.cancel(row, turn, by="user:ada")
