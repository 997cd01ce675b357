"""Large content in SQL: in parts, within an org once, gone with the last file or with its writer (spec 5, P25)."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from capset.definitions.calls.files import FileQuota
from capset.errors import FileError, QuotaExceeded, StoreError
from capset.stores.sql.blobs import PART_BYTES
from capset.stores.sql.store import SqlStore
from capset_testing.store_suite.support import NOW
from tests.helpers.stores.sql.support import run_at
from tests.waiting import until

pytestmark = pytest.mark.spec("P47")

LARGE = b"".join(bytes([number]) * PART_BYTES for number in range(3)) + b"the end"
"""Four parts, no two of them equal."""


def parts_in(url: str) -> list[tuple[str, int]]:
    return run_at(url, "SELECT org, number FROM blob_parts ORDER BY org, number")


def kept_in(url: str) -> list[int]:
    """Return the numbers of blobs, of parts, and of contents with loose parts."""
    return [run_at(url, f"SELECT count(*) FROM {table}")[0][0] for table in ("blobs", "blob_parts", "loose_parts")]


async def uploading(store: SqlStore, url: str, org: str | None = None) -> asyncio.Task[object]:
    """Begin to write large content, and return when a part of it is there."""
    before = len(parts_in(url))
    writing = asyncio.create_task(store.files.write("s", "/a", LARGE, org=org, now=NOW))
    await until(lambda: len(parts_in(url)) > before)
    return writing


@pytest.mark.spec("P25")
@pytest.mark.parametrize("size", [PART_BYTES, PART_BYTES + 1, 2 * PART_BYTES, 3 * PART_BYTES + 7])
async def test_content_of_any_size_is_read_as_it_was_written(store: SqlStore, url: str, size: int) -> None:
    content = LARGE[-size:]
    await store.files.write("s", "/a", content, org=None, now=NOW)
    assert (await store.files.read("s", "/a"))[1] == content
    await store.files.write("s", "/b", b"small", org=None, now=NOW)
    files = await store.files.read_many("s", ["/b", "/none", "/a"])
    assert [(stat.path, body) for stat, body in files] == [("/b", b"small"), ("/a", content)]
    in_parts = size > PART_BYTES
    assert kept_in(url) == [2 - in_parts, -(-size // PART_BYTES) * in_parts, 0]


@pytest.mark.spec("P25")
async def test_large_content_is_kept_once_within_an_org_and_goes_with_the_last_file(store: SqlStore, url: str) -> None:
    write, delete = store.files.write, store.files.delete
    for session, path, org in (("s", "/a", "acme"), ("s", "/b", "acme"), ("t", "/a", "acme"), ("t", "/b", None)):
        await write(session, path, LARGE, org=org, now=NOW)
    assert parts_in(url) == [(org, number) for org in ("", "acme") for number in range(4)]
    await store.files.move("s", "/b", "/d/c", overwrite=False, now=NOW)
    await write("t", "/b", b"small", org=None, now=NOW)
    await delete("s", "/a", recursive=False)
    assert parts_in(url) == [("acme", number) for number in range(4)]
    assert (await store.files.read("s", "/d/c"))[1] == LARGE
    await store.sessions.delete("s")
    assert (await store.files.read("t", "/a"))[1] == LARGE
    await delete("t", "/", recursive=True)
    assert kept_in(url) == [0, 0, 0]


async def test_what_is_refused_is_refused_before_a_part_is_written(store: SqlStore, url: str) -> None:
    counts: list[int] = []

    async def watch() -> None:
        while True:
            counts.append(sum(kept_in(url)))
            await asyncio.sleep(0)

    watching = asyncio.create_task(watch())
    await store.files.write("s", "/d/f", b"", org=None, now=NOW)
    with pytest.raises(FileError, match="'/d' is a directory"):
        await store.files.write("s", "/d", LARGE, org=None, now=NOW)
    with pytest.raises(QuotaExceeded):
        await store.files.write("s", "/a", LARGE, org=None, now=NOW, quota=FileQuota(session_bytes=PART_BYTES))
    watching.cancel()
    assert max(counts) <= 1, "the blob of the empty file"


async def test_a_session_that_goes_while_content_is_uploaded_leaves_none(store: SqlStore, url: str) -> None:
    writing = await uploading(store, url)
    await store.sessions.delete("s")
    with pytest.raises(FileError, match="was deleted"):
        await writing
    assert kept_in(url) == [0, 0, 0]


async def test_an_upload_that_is_cancelled_leaves_nothing(store: SqlStore, url: str) -> None:
    writing = await uploading(store, url)
    writing.cancel()
    with suppress(asyncio.CancelledError):
        await writing
    if await store.files.stat("s", "/a") is None:  # the last transaction had not begun
        assert kept_in(url) == [0, 0, 0]


async def test_writers_of_the_same_content_keep_it_whole(store: SqlStore, url: str) -> None:
    """Some replace and delete at the same time what others write."""

    async def work(number: int) -> None:
        session, path = "st"[number % 2], f"/{number}"
        for _ in range(4):
            await store.files.write(session, path, LARGE, org="acme", now=NOW)
            assert (await store.files.read(session, path))[1] == LARGE
            await store.files.delete(session, path, recursive=False)

    await asyncio.gather(*map(work, range(6)))
    assert kept_in(url) == [0, 0, 0]


async def test_the_upload_of_a_process_that_died_is_removed(store: SqlStore, url: str) -> None:
    run_at(url, "INSERT INTO loose_parts VALUES ('u', 'acme', 'd', '2020-01-01T00:00:00.000000Z')")
    run_at(url, "INSERT INTO blob_parts VALUES ('acme', 'd', 0, '')")
    writing = await uploading(store, url, "acme")
    await store._parts.sweep()
    await writing
    assert parts_in(url) == [("acme", number) for number in range(4)], "those of the living one are kept"
    assert kept_in(url) == [0, 4, 0]


async def test_an_upload_that_is_taken_for_abandoned_is_completed(store: SqlStore, url: str) -> None:
    writing = await uploading(store, url)
    run_at(url, "UPDATE loose_parts SET until = '2020-01-01T00:00:00.000000Z'")
    await store._parts.sweep()
    await writing
    assert (await store.files.read("s", "/a"))[1] == LARGE
    assert kept_in(url) == [0, 4, 0]


async def test_content_of_an_earlier_version_stays_as_it_is(store: SqlStore, url: str) -> None:
    """It stands in one row, however large."""
    await store.files.write("s", "/a", b"small", org=None, now=NOW)
    zeros = "zeroblob(3145735)" if url.startswith("sqlite") else "decode(repeat('00', 3145735), 'hex')"
    run_at(url, f"INSERT INTO blobs VALUES ('', 'old', 3145735, {zeros})")
    run_at(url, "UPDATE files SET digest = 'old', size_bytes = 3145735")
    assert (await store.files.read("s", "/a"))[1] == bytes(len(LARGE))
    await store.files.write("s", "/a", LARGE, org=None, now=NOW)
    assert (await store.files.read("s", "/a"))[1] == LARGE


async def test_content_that_lost_a_part_says_so(store: SqlStore, url: str) -> None:
    await store.files.write("s", "/a", LARGE, org=None, now=NOW)
    run_at(url, "DELETE FROM blob_parts WHERE number = 2")
    with pytest.raises(StoreError, match="only 2,097,159 of 3,145,735 bytes"):
        await store.files.read("s", "/a")
