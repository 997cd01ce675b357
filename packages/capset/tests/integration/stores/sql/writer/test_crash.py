"""Processes that die, live on, or write at the same time (spec 4, G19, G21)."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from capset.stores.base import AuditQuery
from capset_testing.store_suite.support import entry, intent
from tests.helpers.stores.sql.support import let_go, line_of, opened_at, process

INTENT_THEN_WAIT = """
import asyncio, sys
from capset_testing.store_suite.support import entry, intent

async def main():
    store = store_at(sys.argv[1])
    await store.open()
    await store.audit.commit(intent("done"))
    await store.audit.commit(intent("cut off"))
    await store.audit.commit(entry("done"))
    print("committed", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await store.audit.commit(entry("cut off"))
    await store.close()

asyncio.run(main())
"""

APPEND_MANY = """
import asyncio, sys
from capset_testing.store_suite.support import entry, intent

async def main():
    store = store_at(sys.argv[1])
    print("ready", flush=True)
    sys.stdin.readline()
    await store.open()
    for number in range(50):
        store.audit.append(entry(f"{sys.argv[2]} buffered {number}"))
        await store.audit.commit(intent(f"{sys.argv[2]} {number}"))
        store.audit.append(entry(f"{sys.argv[2]} {number}"))
    await store.close()

asyncio.run(main())
"""

LEAVE_WITHOUT_CLOSING = """
import asyncio, sys
from capset_testing.store_suite.support import entry

async def main():
    store = store_at(sys.argv[1])
    await store.open()
    for number in range(100):
        store.audit.append(entry(f"a{number}"))

asyncio.run(main())
"""


@pytest.mark.realtime
@pytest.mark.spec("G19", "G23")
async def test_an_intent_whose_process_was_killed_is_closed_once(url: str) -> None:
    with process(INTENT_THEN_WAIT, url) as child:
        assert line_of(child) == "committed"
        child.send_signal(signal.SIGKILL)
        child.wait()
    for _ in range(2):
        async with opened_at(url) as store:
            page = await store.audit.query(AuditQuery())
            verification = await store.audit.verify()
        assert [(record.id, record.outcome) for record in page.items] == [
            ("cut off", "interrupted"),
            ("done", "succeeded"),
        ]
        assert (verification.problem, verification.checked) == (None, 4)
        assert page.items[0].code == "interrupted"
    assert not url.startswith("sqlite") or not list(Path(url.removeprefix("sqlite:///")).parent.glob("a.db-writers/*"))


@pytest.mark.realtime
@pytest.mark.spec("G19")
async def test_an_intent_whose_process_lives_is_left_alone(url: str) -> None:
    with process(INTENT_THEN_WAIT, url) as child:
        assert line_of(child) == "committed"
        async with opened_at(url) as store:
            page = await store.audit.query(AuditQuery())
            assert [record.id for record in page.items] == ["done"]
        child.communicate("go on\n")
        assert child.returncode == 0
    async with opened_at(url) as store:
        page = await store.audit.query(AuditQuery(id="cut off"))
        assert [record.outcome for record in page.items] == ["succeeded"]
        assert (await store.audit.verify()).checked == 4


@pytest.mark.realtime
@pytest.mark.spec("G19")
async def test_two_stores_of_one_process_do_not_take_each_other_for_gone(url: str) -> None:
    async with opened_at(url) as first:
        await first.audit.commit(intent("a"))
        async with opened_at(url) as second:
            assert (await second.audit.query(AuditQuery())).items == ()
        await first.audit.commit(entry("a"))
        assert [record.outcome for record in (await first.audit.query(AuditQuery())).items] == ["succeeded"]


@pytest.mark.realtime
@pytest.mark.gate
@pytest.mark.nightly
@pytest.mark.spec("G21")
async def test_processes_that_append_at_once_make_one_chain(url: str) -> None:
    with (
        process(APPEND_MANY, url, "a") as a,
        process(APPEND_MANY, url, "b") as b,
        process(APPEND_MANY, url, "c") as c,
    ):
        let_go(a, b, c)  # all three make the tables at once, where there are none
    async with opened_at(url) as store:
        verification = await store.audit.verify()
        page = await store.audit.query(AuditQuery(limit=1000))
    assert (verification.problem, verification.checked) == (None, 450)
    assert len({record.id for record in page.items}) == 300
    assert {record.outcome for record in page.items} == {"succeeded"}
    assert len({record.writer for record in page.items}) == 3


@pytest.mark.gate
@pytest.mark.realtime
@pytest.mark.spec("G23")
async def test_a_program_that_ends_without_closing_loses_nothing(url: str) -> None:
    with process(LEAVE_WITHOUT_CLOSING, url) as child:
        assert child.wait(60) == 0
    async with opened_at(url) as store:
        assert (await store.audit.verify()).checked == 100
