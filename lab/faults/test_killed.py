"""SIGKILL while calls run: nothing that was told is lost, and what was open is closed, once (spec 4, G19, G22, G23)."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from capset import Kernel
from capset.stores.sql import store
from tests.helpers.kernel.support import records_of
from tests.helpers.stores.sql.support import run_at
from tests.waiting import until

pytestmark = pytest.mark.realtime

PROGRAM = Path(__file__).with_name("program.py")


def run_and_kill(url: str, calls: int, enough: Callable[[list[list[str]]], bool]) -> list[list[str]]:
    """Run the program until it has said enough, kill it, and return all that it said."""
    command = [sys.executable, str(PROGRAM), url, str(calls)]
    lines: list[list[str]] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        for line in process.stdout:
            lines.append(line.split())
            if enough(lines):
                break
        process.send_signal(signal.SIGKILL)
        lines += [line.split() for line in process.stdout if line.endswith("\n")]
    assert process.returncode == -signal.SIGKILL
    return lines


def links_of(url: str) -> list[tuple[str, str, str | None]]:
    """Return id, phase and outcome of every link, through a connection of its own."""
    return run_at(url, "SELECT id, phase, outcome FROM records ORDER BY seq")


def open_intents(url: str) -> set[str]:
    rows = links_of(url)
    return {call_id for call_id, phase, _ in rows if phase == "intent"} - {
        call_id for call_id, phase, _ in rows if phase == "outcome"
    }


@pytest.mark.gate
@pytest.mark.spec("G19", "G23", "T14")
async def test_a_call_that_was_killed_has_one_outcome_interrupted(url: str) -> None:
    run_and_kill(url, 1, lambda lines: lines[-1][0] == "started")
    (lost,) = open_intents(url)
    for _ in range(2):  # the second opening finds nothing more to do
        async with Kernel(store=url) as kernel:
            (record,) = await records_of(kernel.audit)
            assert (record.id, record.outcome, record.code) == (lost, "interrupted", "interrupted")
            assert (record.tool, record.effect, record.decision) == ("act", "write", "allow")
            assert record.arguments == '{"number":0,"seconds":60}'
            verified = await kernel.audit.verify()
            assert (verified.ok, verified.checked) == (True, 2)


@pytest.mark.spec("G19", "G22", "G23")
@pytest.mark.parametrize(
    "acknowledged", [0, *(pytest.param(count, marks=pytest.mark.nightly) for count in (1, 40, 150))]
)
async def test_killed_among_200_concurrent_calls(acknowledged: int, url: str) -> None:
    def enough(lines: list[list[str]]) -> bool:
        return sum(words[0] == "told" for words in lines) >= acknowledged and any(
            words[0] == "started" for words in lines
        )

    output = run_and_kill(url, 200, enough)
    interrupted = open_intents(url)
    before = links_of(url)
    async with Kernel(store=url) as kernel:
        records = await records_of(kernel.audit)
        verified = await kernel.audit.verify()
        assert verified.ok, verified.problem
        assert max(Counter(record.id for record in records).values()) == 1
        assert {record.id for record in records if record.outcome == "interrupted"} == interrupted
        by_id = {record.id: record for record in records}
        intents = {intent_id for intent_id, phase, _ in before if phase == "intent"}
        assert intents <= by_id.keys()
        # Whoever was told that a side-effecting call succeeded finds it on record; reads may be buffered.
        for _, record_id, success in (words for words in output if words[0] == "told"):
            assert success == "True"
            assert record_id not in by_id or by_id[record_id].outcome == "succeeded"
        told_of_effects = {words[1] for words in output if words[0] == "told"} & intents
        assert {by_id[intent_id].outcome for intent_id in told_of_effects} <= {"succeeded"}
        # Nothing started that has no intent: each of these lines was printed by a handler with side effects.
        started = sum(words[0] == "started" for words in output)
        nested = sum(record.tool == "act_through" for record in records if record.id in intents)
        assert started <= len(intents) - nested
    assert links_of(url)[: len(before)] == before


@pytest.mark.gate
@pytest.mark.spec("G19")
async def test_a_session_of_a_killed_process_goes_on(url: str) -> None:
    output = run_and_kill(url, 1, lambda lines: lines[-1][0] == "started")
    session_id = next(words[1] for words in output if words[0] == "session")
    async with Kernel(store=url) as kernel:
        row = await kernel.find_session(session_id)
        assert row
        assert (row.agent, row.principal) == ("tester", "user-1")


@pytest.mark.spec("G19", "P39")
async def test_a_process_that_lives_closes_the_calls_of_one_that_was_killed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MAINTENANCE_SECONDS", 0.2)
    async with Kernel(store=url) as kernel:
        command = [sys.executable, str(PROGRAM), url, "1"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            assert any(line.startswith("started") for line in process.stdout)
            await asyncio.sleep(1)
            assert (await records_of(kernel.audit), len(open_intents(url))) == ([], 1), "it lives"
            process.kill()
        records = await until(lambda: records_of(kernel.audit), "the outcome of the call that was killed")
        assert [record.outcome for record in records] == ["interrupted"]
        assert open_intents(url) == set()
        assert (await kernel.audit.verify()).ok


@pytest.mark.gate
@pytest.mark.spec("G19")
async def test_the_calls_of_a_process_that_lives_are_left_alone(url: str) -> None:
    command = [sys.executable, str(PROGRAM), url, "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert any(line.startswith("started") for line in process.stdout)
        async with Kernel(store=url) as kernel:
            assert await records_of(kernel.audit) == []
        assert len(open_intents(url)) == 1
        process.kill()
    async with Kernel(store=url) as kernel:
        assert [record.outcome for record in await records_of(kernel.audit)] == ["interrupted"]
