"""The kernel: opening, going on with a session, two at once, and closing (spec 3, K17)."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from capset import Agent, Capability, Kernel, Principal, Progress, Reply, Session, tool
from capset.errors import CapsetError, DefinitionError, FileError, NotFound, StoreError
from capset.kernel import kernel as kernel_module
from capset.kernel import runtime
from capset.stores.base import make_store
from capset_testing import FakeClock
from tests.helpers.kernel.support import desk, read, records_of, rows_of, turns
from tests.waiting import until

ME = Principal("user-1", org="org-1")
RELEASE: list[asyncio.Event] = []
ENDED: list[str] = []


@tool
async def act() -> int:
    """Act."""
    return 1


@tool(effect="read")
async def look() -> int:
    """Look."""
    return 1


@tool
async def slow() -> AsyncIterator[Progress | Reply[int]]:
    """Wait to be released."""
    try:
        yield Progress(0.0)
        await RELEASE[-1].wait()
        yield Reply(1)
    finally:
        ENDED.append("slow")


@tool
async def deaf() -> int:
    """Hear no cancellation."""
    while not RELEASE[-1].is_set():
        try:
            await RELEASE[-1].wait()
        except asyncio.CancelledError:
            ENDED.append("swallowed")
    return 1


AGENT = Agent("tester", uses=[Capability("kit", tools=[act, look, slow, deaf])])


@pytest.fixture(autouse=True)
def anew() -> None:
    RELEASE[:] = [asyncio.Event()]
    ENDED.clear()


async def test_a_session_goes_on_with_its_files_in_the_same_kernel_and_the_next(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/capset.db"
    async with Kernel(store=url) as kernel:
        async with kernel.open(AGENT, principal=ME) as session:
            await session.files.write("/a.txt", b"kept")
        async with kernel.open(AGENT, principal=ME, session_id=session.id) as reopened:
            assert (await reopened.files.read("/a.txt"))[1] == b"kept"
    async with Kernel(store=url) as kernel, kernel.open(AGENT, principal=ME, session_id=session.id) as reopened:
        assert reopened.id == session.id
        assert (await reopened.files.read("/a.txt"))[1] == b"kept"
        row = await kernel.find_session(session.id)
        assert row is not None
        assert (row.principal, row.org, row.agent) == ("user-1", "org-1", "tester")
        assert row.static_hash == reopened.snapshot.static_hash


@pytest.mark.parametrize(
    "stranger",
    [
        *(Principal(name, org="org-1") for name in ("user-2", "USER-1", "user-1 ")),
        *(Principal("user-1"), Principal("user-1", org="org-2"), Principal("user-1", org="org-1", kind="agent")),
    ],
    ids=repr,
)
async def test_a_session_of_another_is_as_if_it_were_not_there(stranger: Principal, store: str) -> None:
    async with Kernel(store=store) as kernel, kernel.open(AGENT, principal=ME) as session:
        unknown = "01a1fd5b-4581-78f0-8000-038ceb18cfc9"
        for principal, session_id in ((stranger, session.id), (ME, unknown)):
            with pytest.raises(NotFound) as raised:
                async with kernel.open(AGENT, principal=principal, session_id=session_id):
                    pass
            assert raised.value.message == f"there is no session {session_id!r} of {principal.id!r}"


async def test_a_session_is_not_opened_by_another_agent(store: str) -> None:
    async with Kernel(store=store) as kernel, kernel.open(AGENT, principal=ME) as session:
        other = Agent("another", uses=AGENT.uses)
        with pytest.raises(NotFound, match="belongs to the agent 'tester', not to 'another'"):
            async with kernel.open(other, principal=ME, session_id=session.id):
                pass


@pytest.mark.parametrize("id", ["", " ", "x", "\ud800", "' OR 1=1 --", "%", "\0", "../..", "x" * 100_000])
async def test_no_id_of_a_session_is_too_strange_to_be_refused(id: str, store: str) -> None:
    async with Kernel(store=store) as kernel:
        with pytest.raises(NotFound):
            async with kernel.open(AGENT, principal=ME, session_id=id):
                pass
        assert await kernel.find_session(id) is None


async def test_a_kernel_that_is_not_entered_does_nothing() -> None:
    kernel = Kernel(store="memory://")
    with pytest.raises(CapsetError, match="not open") as raised:
        async with kernel.open(AGENT, principal=ME):
            pass
    assert raised.value.hint == "use it as: async with Kernel(…) as kernel"
    with pytest.raises(CapsetError, match="not open"):
        _ = kernel.audit
    with pytest.raises(CapsetError, match="not open"):
        await kernel.find_session("x")


async def test_a_closed_kernel_lets_nothing_through_that_has_effects(store: str) -> None:
    async with Kernel(store=store) as kernel, kernel.open(AGENT, principal=ME) as session:
        pass
    assert isinstance((await session.try_call(act)).error, StoreError)
    assert not (await session.try_call(look)).success
    (error,) = await read(session.stream(act))
    assert error.data["status"] == 503
    with pytest.raises(CapsetError):
        await session.files.write("/a.txt", b"")
    with pytest.raises(CapsetError, match="not open"):
        async with kernel.open(AGENT, principal=ME):
            pass


async def test_a_kernel_can_be_entered_again_and_keeps_its_store(store: str) -> None:
    kernel = Kernel(store=store)
    for runs in (1, 2):
        async with kernel, kernel.open(AGENT, principal=ME) as session:
            await session.call(act)
            assert len(await records_of(kernel.audit)) == runs
            assert (await kernel.audit.verify()).ok


async def test_a_kernel_that_could_not_open_leaves_its_store_closed(tmp_path: Path) -> None:
    url, path = f"sqlite:///{tmp_path}/capset.db", tmp_path / "capset.db"
    async with Kernel(store=url) as kernel:
        pass
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE settings SET value = 'broken' WHERE name = 'digest_key'")
    with pytest.raises(StoreError, match="damaged"):
        await kernel.__aenter__()
    assert [thread.name for thread in threading.enumerate() if thread.name == "capset-writer"] == []
    with pytest.raises(CapsetError, match="not open"):
        _ = kernel.audit


@pytest.mark.parametrize("url", ["nothing://", "sqlit:///x", "", "x", "memory://named"])
async def test_a_store_that_there_is_not_is_refused_at_once(url: str) -> None:
    with pytest.raises(DefinitionError):
        Kernel(store=url)


@pytest.mark.spec("C39")
async def test_compositions_and_roads_are_made_once_for_each_agent() -> None:
    async with Kernel(store="memory://") as kernel:
        composition = kernel.compose(AGENT)
        assert kernel.compose(AGENT) is composition
        assert kernel.compile_tools(composition) is kernel.compile_tools(composition)
        twin = Agent("tester", uses=AGENT.uses)
        assert kernel.compose(twin) is not composition
        assert kernel.compose(twin).static_hash == composition.static_hash
        async with kernel.open(AGENT, principal=ME) as first, kernel.open(AGENT, principal=ME) as other:
            assert first.snapshot.composition is other.snapshot.composition is composition


@pytest.mark.spec("G21")
async def test_two_kernels_on_one_file_share_one_chain(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/capset.db"
    async with Kernel(store=url) as kernel, Kernel(store=url) as other:
        async with kernel.open(AGENT, principal=ME) as first, other.open(AGENT, principal=ME) as second:
            calls = [session.call(door) for session in (first, second) for door in (act, look) for _ in range(20)]
            assert await asyncio.gather(*calls) == [1] * 80
        records = await records_of(kernel.audit)
        assert len(records) == len({record.id for record in records}) == len(await records_of(other.audit)) == 80
        assert len({record.writer for record in records}) == 2
        assert (await kernel.audit.verify()).ok
        assert await kernel.audit.digest_key() == await other.audit.digest_key()
        async with other.open(AGENT, principal=ME, session_id=first.id) as reopened:
            assert reopened.id == first.id


async def test_the_times_of_records_are_of_the_kernels_clock() -> None:
    clock = FakeClock()
    async with Kernel(store="memory://", clock=clock) as kernel, kernel.open(AGENT, principal=ME) as session:
        clock.advance(3_600)
        await session.call(look)
        (record,) = await records_of(kernel.audit)
        assert (record.time, record.duration_us) == ("2026-01-01T01:00:00.000000Z", 0)


async def start(session: Session, *, read_on: bool) -> asyncio.Task[list[str]]:
    """Start a stream in a task of its own, and return once its handler runs."""
    kinds: list[str] = []

    async def go() -> list[str]:
        async with session.stream(slow) as messages:
            async for message in messages:
                kinds.append(message.kind)
                if not read_on:
                    await asyncio.get_running_loop().create_future()
        return kinds

    task = asyncio.create_task(go())
    await until(lambda: kinds)
    return task


@pytest.mark.spec("K17")
async def test_closing_waits_for_streams_that_end_in_time(store: str) -> None:
    kernel = Kernel(store=store)
    async with kernel:
        async with kernel.open(AGENT, principal=ME) as session:
            reading = await start(session, read_on=True)
        asyncio.get_running_loop().call_later(0.02, RELEASE[-1].set)
    assert await reading == ["event", "reply"]
    async with kernel:
        assert [record.outcome for record in await records_of(kernel.audit)] == ["succeeded"]


@pytest.mark.spec("K17")
async def test_closing_cancels_streams_that_do_not_end_in_time(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_module, "DRAIN_SECONDS", 0.02)
    kernel = Kernel(store=store)
    async with asyncio.timeout(60), kernel, kernel.open(AGENT, principal=ME) as session:
        readings = [await start(session, read_on=read_on) for read_on in (True, False)]
    assert ENDED == ["slow", "slow"]
    assert await readings[0] == ["event", "error"]  # the reader is told, and does not take it for the end
    readings[1].cancel()
    await asyncio.wait(readings)
    async with kernel:
        assert [record.outcome for record in await records_of(kernel.audit)] == ["cancelled", "cancelled"]
        assert (await kernel.audit.verify()).ok


@pytest.mark.spec("K17", "G19")
async def test_closing_waits_for_calls_in_their_callers_tasks_too(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_module, "DRAIN_SECONDS", 3_600)
    kernel = Kernel(store=store)
    async with kernel:
        async with kernel.open(AGENT, principal=ME) as session:
            calls = [asyncio.create_task(session.call(door)) for door in (deaf, look, deaf)]
            await turns()
        asyncio.get_running_loop().call_later(0.02, RELEASE[-1].set)
    assert await asyncio.gather(*calls) == [1, 1, 1]
    async with kernel:
        assert [record.outcome for record in await records_of(kernel.audit)] == ["succeeded"] * 3


@pytest.mark.realtime
@pytest.mark.spec("K17")
async def test_a_call_that_outlives_its_kernel_is_reported_and_its_caller_told(
    store: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kernel_module, "DRAIN_SECONDS", 0.02)
    kernel = Kernel(store=store)
    async with asyncio.timeout(60), kernel, kernel.open(AGENT, principal=ME) as session:
        call = asyncio.create_task(session.try_call(deaf))
        await asyncio.sleep(0.02)
    assert "the kernel was closed with 1 call still running" in caplog.text
    RELEASE[-1].set()
    assert isinstance((await call).error, StoreError)
    async with kernel:
        assert [record.outcome for record in await records_of(kernel.audit)] == ["interrupted"]


@pytest.mark.spec("K15", "K17", "G19")
async def test_closing_is_bounded_and_what_was_abandoned_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kernel_module, "DRAIN_SECONDS", 0.02)
    monkeypatch.setattr(runtime, "CLEANUP_SECONDS", 0.02)
    kernel = Kernel(store=f"sqlite:///{tmp_path}/capset.db")
    async with asyncio.timeout(60), kernel, kernel.open(AGENT, principal=ME) as session:
        stream = session.stream(deaf)
        await stream.__aenter__()
        await until(lambda: rows_of(tmp_path / "capset.db"))
        await turns()
    assert ENDED == ["swallowed"]
    assert "is abandoned" in caplog.text
    async with kernel:
        (record,) = await records_of(kernel.audit)
        assert (record.id, record.outcome) == (stream.record, "cancelled")
    RELEASE[-1].set()
    await turns()


async def test_leaving_a_kernel_by_an_exception_closes_it_and_lets_the_exception_through(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/capset.db"

    async def fail() -> None:
        async with Kernel(store=url) as kernel, kernel.open(AGENT, principal=ME) as session:
            await session.call(look)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert [outcome for *_, outcome in rows_of(tmp_path / "capset.db")] == ["succeeded"]


async def test_the_files_of_a_session_go_by_the_hosts_own_door_too(store: str) -> None:
    async with desk(look, store=store) as opened:
        files = opened.session.files
        assert (await files.write("/a/b.txt", b"x"))[1] is True
        assert [entry.path for entry in await files.list("/a")] == ["/a/b.txt"]
        assert (await files.stat("//a/./b.txt")) == (await files.read("/a/b.txt"))[0]
        with pytest.raises(FileError, match="must not contain"):
            await files.read("/a/../b.txt")
        assert await files.delete("/a", recursive=True) == 2
        assert await opened.records() == []


async def test_what_is_to_be_closed_with_a_kernel_is_closed_after_its_calls_and_before_its_store() -> None:
    ends: list[str] = []

    async def close() -> None:
        ends.append("closed")
        await store.pins.list()  # which a closed one refuses

    async def work() -> None:
        await asyncio.sleep(0)
        ends.append("worked")

    store = make_store("memory://")
    kernel = Kernel(store=store)
    for _ in range(2):
        async with kernel:
            kernel.closing.push_async_callback(close)
            kernel.spawn(work(), name="work")
    assert ends == ["worked", "closed"] * 2
