"""Processes that die, live on, or write at the same time (spec 4, G19, G21)."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from capset.stores.base import AuditQuery
from capset.stores.sql.store import SqlStore
from capset_testing.store_suite.support import entry, intent
from tests.helpers.stores.sql.support import let_go, line_of, opened_at, process

pytestmark = pytest.mark.realtime

INTENT_THEN_WAIT = """
    await store.open()
    await store.audit.commit(intent("done"))
    await store.audit.commit(intent("cut off"))
    await store.audit.commit(entry("done"))
    print("committed", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await store.audit.commit(entry("cut off"))
    await store.close()
"""
APPEND_MANY = """
    print("ready", flush=True)
    sys.stdin.readline()
    await store.open()
    for number in range(50):
        store.audit.append(entry(f"{sys.argv[2]} buffered {number}"))
        await store.audit.commit(intent(f"{sys.argv[2]} {number}"))
        store.audit.append(entry(f"{sys.argv[2]} {number}"))
    await store.close()
"""
LEAVE_WITHOUT_CLOSING = """
    await store.open()
    for number in range(100):
        store.audit.append(entry(f"a{number}"))
"""


def program(steps: str) -> str:
    """Return a program that takes these steps with the store at its first argument."""
    imports = "import asyncio, sys\nfrom capset_testing.store_suite.support import entry, intent"
    return f"{imports}\n\nasync def main():\n    store = store_at(sys.argv[1]){steps}\n\nasyncio.run(main())\n"


async def outcomes_in(store: SqlStore) -> dict[str, str | None]:
    return {record.id: record.outcome for record in (await store.audit.query(AuditQuery(limit=1000))).items}


@pytest.mark.spec("G19", "G23")
async def test_an_intent_whose_process_was_killed_is_closed_once(url: str) -> None:
    with process(program(INTENT_THEN_WAIT), url) as child:
        assert line_of(child) == "committed"
        child.send_signal(signal.SIGKILL)
        child.wait()
    for _ in range(2):
        async with opened_at(url) as store:
            verification = await store.audit.verify()
            assert await outcomes_in(store) == {"cut off": "interrupted", "done": "succeeded"}
            assert (await store.audit.query(AuditQuery(code="interrupted"))).items[0].id == "cut off"
        assert (verification.problem, verification.checked) == (None, 4)
    assert not url.startswith("sqlite") or not list(Path(url.removeprefix("sqlite:///")).parent.glob("a.db-writers/*"))


@pytest.mark.spec("G19")
async def test_an_intent_whose_process_lives_is_left_alone(url: str) -> None:
    with process(program(INTENT_THEN_WAIT), url) as child:
        assert line_of(child) == "committed"
        async with opened_at(url) as store:
            assert await outcomes_in(store) == {"done": "succeeded"}
        child.communicate("go on\n")
        assert child.returncode == 0
    async with opened_at(url) as store:
        assert await outcomes_in(store) == {"cut off": "succeeded", "done": "succeeded"}
        assert (await store.audit.verify()).checked == 4


@pytest.mark.spec("G19")
async def test_two_stores_of_one_process_do_not_take_each_other_for_gone(url: str) -> None:
    async with opened_at(url) as first:
        await first.audit.commit(intent("a"))
        async with opened_at(url) as second:
            assert await outcomes_in(second) == {}
        await first.audit.commit(entry("a"))
        assert await outcomes_in(first) == {"a": "succeeded"}


@pytest.mark.gate
@pytest.mark.nightly
@pytest.mark.spec("G21")
async def test_processes_that_append_at_once_make_one_chain(url: str) -> None:
    with ExitStack() as stack:  # all three make the tables at once, where there are none
        let_go(*[stack.enter_context(process(program(APPEND_MANY), url, name)) for name in "abc"])
    async with opened_at(url) as store:
        verification, outcomes = await store.audit.verify(), await outcomes_in(store)
        records = await store.audit.read(limit=1000)
    assert (verification.problem, verification.checked) == (None, 450)
    assert (len(outcomes), set(outcomes.values())) == (300, {"succeeded"})
    assert len({record.writer for record in records}) == 3


@pytest.mark.gate
@pytest.mark.spec("G23")
async def test_a_program_that_ends_without_closing_loses_nothing(url: str) -> None:
    with process(program(LEAVE_WITHOUT_CLOSING), url) as child:
        assert child.wait(60) == 0
    async with opened_at(url) as store:
        assert (await store.audit.verify()).checked == 100
