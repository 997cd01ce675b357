"""A worker in this process: what it leaves to others, and what must not end it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from capset import Kernel, Principal
from capset.definitions.governance.approvals import Answer
from capset.stores.base import ApprovalQuery, RunRow
from capset_server.auth.keys import create_key
from capset_server.runs.submission import submit
from capset_server.service import Service
from tests.helpers.server.runners import Parrot
from tests.helpers.server.runs.engines import worker_of
from tests.helpers.server.runs.working import ADA, Notes, ended, look_at, queued, scheduled, service_on
from tests.helpers.server.support import registry_of
from tests.waiting import until


@pytest.mark.spec("D16", "D18")
@pytest.mark.parametrize("caller", ['{"kind":"jwt"}', '{"kind":"none"}', "{", "[]"])
async def test_a_run_that_cannot_be_done_ends_no_worker(tmp_path: Path, caller: str) -> None:
    """Its caller is not known here, or what was stored of it cannot be read: the next run is done."""
    notes = Notes(tmp_path / "notes")
    async with service_on(f"sqlite:///{tmp_path}/a.db", notes.path) as service, worker_of(service):
        for call in (None, ("put", {"text": "zero"})):
            bad = await queued(service, call=call, queue="other")
            assert await service.kernel.store.runs.change(bad, replace(bad, caller=caller, queue="default"))
        good = await queued(service, call=("put", {"text": "one"}))
        assert (await ended(service, good)).state == "succeeded"
    assert notes.deeds == ["put one"]


@pytest.mark.spec("D18")
async def test_a_schedule_of_an_unknown_caller_ends_no_worker(tmp_path: Path) -> None:
    """It was made on a server without keys, and this worker does the runs of keys alone."""
    notes = Notes(tmp_path / "notes")
    async with service_on(f"sqlite:///{tmp_path}/a.db", notes.path) as insecure:
        await scheduled(insecure)
        secure = Service(insecure.kernel, insecure.registry)
        _, key = await create_key(insecure.kernel, "ada", ADA.principal, scopes=["capset:call"])
        caller = await secure.callers.identify(f"Bearer {key}")
        async with worker_of(secure):
            run = await queued(secure, call=("put", {"text": "one"}), by=caller)
            assert (await ended(secure, run)).state == "succeeded"
    assert notes.deeds == ["put one"]


@pytest.mark.realtime
@pytest.mark.spec("D12")
async def test_a_worker_without_a_model_leaves_turns_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that servers began, and those that are runs; it makes calls."""
    monkeypatch.setenv("ASKING", "1")
    notes, store = Notes(tmp_path / "notes"), f"sqlite:///{tmp_path}/a.db"
    async with service_on(store, notes.path) as server, Kernel(store) as kernel:
        session = await server.new_session(ADA, "scribe")
        begun = await server.turns.begin(ADA, session, "Go on.", "c-1")
        await server.turns.turns.wait(begun.turn)
        (request,) = (await server.kernel.store.approvals.list(ApprovalQuery("acme"))).items
        async with worker_of(Service(kernel, server.registry, anyone=ADA)) as engine:
            await server.kernel.approvals.decide(request.id, Answer(approved=True), by=Principal("eve", org="acme"))
            turn = await queued(server)
            call = await queued(server, call=("put", {"text": "call"}))
            assert (await ended(server, call)).state == "succeeded"
            await asyncio.sleep(1.5)  # for longer than it is from one look to the next
            assert (await look_at(server, turn)).state == "queued"
            types = [
                event.type for event in (await server.kernel.store.events.read(session.id, after=0, limit=99)).items
            ]
            assert types[-1] == "turn.suspended"
            assert engine.queued == [call.id], "or it would count in the rate of the queue"
        assert await server.turns.turns.continue_due() == 1
        await server.turns.turns.wait(begun.turn)
    assert sorted(notes.deeds) == ["burn two", "put call", "put one"]


@pytest.mark.spec("D15")
async def test_a_turn_waits_for_its_session_without_the_engine() -> None:
    """It would count in the rate of its queue each time that it was handed on in vain."""
    parrot = Parrot()
    async with Kernel("memory://", generator=parrot) as kernel:
        service = Service(kernel, registry_of(), anyone=ADA)
        session = await service.new_session(ADA, "foreman")
        before = await service.turns.begin(ADA, session, {"wait": True}, "c-1")
        await parrot.started.wait()
        run = await submit(service, ADA, session, "turn", {"say": "hi"}, queue="default", correlation="c-2")
        async with worker_of(service) as engine:

            async def put_off() -> list[RunRow]:
                row = await look_at(service, run)
                return [row] if str(row.due_at) > kernel.now() else []

            (waiting,) = await until(put_off, "the run to be put off")
            assert (engine.queued, waiting.attempts) == ([], 0)
            parrot.go.set()
            await service.turns.turns.wait(before.turn)
            assert await kernel.store.runs.change(waiting, replace(waiting, due_at=kernel.now()))
            assert (await ended(service, run)).state == "succeeded"
            assert engine.queued == [run.id]
