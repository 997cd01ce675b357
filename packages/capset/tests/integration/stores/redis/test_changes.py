"""Changes that processes of one store tell each other by Redis, with a real server of it (spec 10, D30-D34)."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from redis.asyncio import Redis

from capset.errors import DefinitionError
from capset.stores.base import ChangeNotice, NewEvent, Store, TurnRow, make_store, share_changes
from capset.stores.redis.store import ANNOUNCED, MAX_ENTRIES
from capset_testing.store_suite import admission_checks, event_checks
from capset_testing.store_suite.support import LATER, NOW, approval_row, checks_of, create_sessions
from tests.certificates import certificate
from tests.redis_servers import RedisServer, redis_server
from tests.waiting import until

pytestmark = pytest.mark.realtime

SOME = NewEvent("said", "{}")
SHARED = (*checks_of(admission_checks), *checks_of(event_checks))


@pytest.fixture(scope="module")
def shared() -> Generator[RedisServer]:
    """Give a server that no test stops."""
    with redis_server() as server:
        yield server


@pytest.fixture
def server() -> Generator[RedisServer]:
    """Give a server that the test may stop."""
    with redis_server() as running:
        yield running


@asynccontextmanager
async def two(file: Path, url: str) -> AsyncGenerator[tuple[Store, Store]]:
    """Give two stores on one SQLite file and one Redis, as two processes have them."""
    stores = [share_changes(make_store(f"sqlite:///{file}"), url) for _ in range(2)]
    for store in stores:
        await store.open()
    try:
        yield stores[0], stores[1]
    finally:
        for store in stores:
            await store.close()


async def begin_turn(store: Store, session: str) -> None:
    """Begin a turn in a session."""
    turn = TurnRow(session, "t", "here", LATER)
    await store.events.begin(turn, SOME, now=NOW, interrupted=SOME)


@pytest.mark.spec("D30")
@pytest.mark.parametrize("check", SHARED, ids=lambda check: check.__name__)
async def test_a_store_beside_redis_keeps_what_its_store_promises(check: Any, shared: RedisServer) -> None:
    await check(lambda: share_changes(make_store("memory://"), shared.url))


@pytest.mark.spec("D30", "D31")
async def test_another_process_of_one_sqlite_file_hears_at_once(tmp_path: Path, shared: RedisServer) -> None:
    heard: list[ChangeNotice | None] = []
    async with two(tmp_path / "a.db", shared.url) as (first, other), first.changes.subscribe(heard.append) as arrives:
        await until(lambda: None in heard)
        assert arrives()
        await create_sessions(other, "s")
        await begin_turn(other, "s")
        row = approval_row("r")
        await other.approvals.open(row, max_pending=9)
        await other.approvals.move(replace(row, status="approved"), "pending")
        await other.keys.revoke("key-1", NOW)
        await other.pins.change("server", [], ["tool"])
        expected = {("events", "s"), ("approval", "r"), ("key", "key-1"), ("lists", "")}
        await until(lambda: expected <= {*heard})
        heard.clear()
        await other.approvals.move(replace(row, status="rejected"), "pending")  # it is not pending any more
        turn = TurnRow("s", "t", "here", LATER)
        await other.events.append(turn, [], now=NOW, then=turn)  # a renewal
        await other.events.append(turn, [SOME], now=NOW, then=None)
        await until(lambda: heard)
        assert heard == [("events", "s")]


@pytest.mark.spec("D31")
async def test_names_of_any_kind_arrive_as_they_are_and_databases_stay_apart(
    tmp_path: Path, shared: RedisServer
) -> None:
    names = ["a b", "{x}:changes", "\r\nFLUSHALL\r\n", "é\U0001f600", '"],["key","k']
    heard: list[ChangeNotice | None] = []
    strange: list[ChangeNotice | None] = []
    async with two(tmp_path / "a.db", shared.url) as (first, other), two(tmp_path / "b.db", shared.url) as (third, _):
        async with first.changes.subscribe(heard.append), third.changes.subscribe(strange.append):
            await until(lambda: None in heard and None in strange)
            for name in names:
                await create_sessions(other, name)
                await begin_turn(other, name)
            await until(lambda: len(heard) > len(names))
        assert heard[1:] == [("events", name) for name in names]
        assert strange == [None]


@pytest.mark.spec("D32")
async def test_what_is_not_heard_of_is_told_as_missed(tmp_path: Path, server: RedisServer) -> None:
    heard: list[ChangeNotice | None] = []
    client: Any = Redis.from_url(server.url, decode_responses=True)
    async with two(tmp_path / "a.db", server.url) as (first, other), first.changes.subscribe(heard.append):
        await until(lambda: None in heard)
        await create_sessions(other, "s")
        await begin_turn(other, "s")
        await until(lambda: ("events", "s") in heard)
        (key,) = [key async for key in client.scan_iter("*")]
        heard.clear()
        entry = (await client.xrange(key))[0][1]
        later = '[["events", "late"], ["future", "x"]]'
        await client.xadd(key, {**entry, "number": int(entry["number"]) + 2, "notices": later})
        await client.xadd(key, {"by": "nobody"})
        await client.xadd(key, {"by": "nobody", "number": "1", "notices": "[[1, 2]]"})
        await client.xadd(key, {"by": "nobody", "number": "1", "notices": "[" * 100_000})
        await client.xadd(key, {"by": b"\xff", "number": "1", b"\xfe": "[]", "notices": b"\xff"})
        with suppress(TimeoutError):
            await until(lambda: len(heard) == 6)
        assert heard == [None, ("events", "late"), None, None, None, None]
        assert 0 < await client.ttl(key) <= 3_600
        for number in range(3 * MAX_ENTRIES):
            await client.xadd(key, {"by": "x", "number": number, "notices": "[]"}, maxlen=MAX_ENTRIES, approximate=True)
        await begin_turn(other, "s")
        assert await client.xlen(key) < 2 * MAX_ENTRIES
    await client.aclose()


@pytest.mark.spec("D33")
async def test_redis_that_is_killed_or_frozen_holds_nothing_up(tmp_path: Path, server: RedisServer) -> None:
    heard: list[ChangeNotice | None] = []
    async with two(tmp_path / "a.db", server.url) as (first, other), first.changes.subscribe(heard.append) as arrives:
        await until(arrives)
        await create_sessions(other, "s")
        server.kill()
        await until(lambda: not arrives())
        async with asyncio.timeout(1.0):  # the store goes on without Redis
            await begin_turn(other, "s")
        heard.clear()
        server.start()  # empty
        await until(lambda: arrives() and None in heard)  # everyone looks
        server.signal(signal.SIGSTOP)
        heard.clear()
        turn = TurnRow("s", "t", "here", LATER)
        async with asyncio.timeout(1.0):
            await other.events.append(turn, [SOME], now=NOW, then=turn)
        await until(lambda: not arrives())
        server.signal(signal.SIGCONT)
        await until(lambda: arrives() and None in heard)


@pytest.mark.spec("D33", "D34")
async def test_a_store_opens_and_closes_without_redis_and_says_so_without_its_password(
    tmp_path: Path, server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.kill()
    url = f"redis://ada:s3cret@127.0.0.1:{server.port}/0"
    with caplog.at_level(logging.WARNING):
        async with two(tmp_path / "a.db", url) as (first, other), first.changes.subscribe(lambda _: None) as arrives:
            await create_sessions(other, "s")
            await begin_turn(other, "s")
            await until(lambda: len(caplog.records) >= 2)
            assert not arrives()
    assert f"127.0.0.1:{server.port}" in caplog.text
    assert "s3cret" not in caplog.text


@pytest.mark.spec("D30", "D34")
async def test_redis_is_reached_by_tls_with_a_password_and_by_a_socket(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files, socket = (tmp_path / "public.pem", tmp_path / "private.pem"), tmp_path / "redis.sock"
    for file, text in zip(files, certificate("127.0.0.1"), strict=True):
        file.write_text(text)
    with redis_server("--requirepass", "s3cret", "--unixsocket", str(socket), tls=files) as server:
        where = f"127.0.0.1:{server.port}/0"
        for url in (f"rediss://:s3cret@{where}?ssl_ca_certs={files[0]}", f"unix://:s3cret@{socket}?db=0"):
            heard: list[ChangeNotice | None] = []
            async with two(tmp_path / "a.db", url) as (first, other), first.changes.subscribe(heard.append) as arrives:
                await until(lambda heard=heard: None in heard)
                await create_sessions(other, session := url[:4])
                await begin_turn(other, session)
                await until(lambda heard=heard, session=session: ("events", session) in heard)
                assert arrives()
        with caplog.at_level(logging.WARNING):
            for url in (f"rediss://:s3cret@{where}", f"rediss://:other@{where}?ssl_ca_certs={files[0]}"):
                caplog.clear()
                async with (
                    two(tmp_path / "a.db", url) as (first, _),
                    first.changes.subscribe(lambda _: None) as arrives,
                ):
                    await until(lambda: caplog.records)
                    assert not arrives(), "an authority that is not known, and a wrong password"
    assert "s3cret" not in caplog.text


@pytest.mark.spec("D34")
@pytest.mark.parametrize(
    "url", ["redis://u:s3cret@h:port/0", "redis://u:s3cret@h/zero", "redis://u:s3cret@h?s3cret=1", "http://u:s3cret@h"]
)
def test_a_url_that_cannot_be_read_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        share_changes(make_store("memory://"), url)
    assert "s3cret" not in str(caught.value)


@pytest.mark.spec("D31")
def test_what_is_announced_are_methods_of_the_ports() -> None:
    parts = {name: get_type_hints(member.fget)["return"] for name, member in vars(Store).items() if name in ANNOUNCED}
    parameters = {"turn", "held", "events", "then", "session", "id", "row", "expected"}
    for part, methods in ANNOUNCED.items():
        for method in methods:
            assert parameters & {*signature(getattr(parts[part], method)).parameters} or part in ("agents", "pins")
