"""Files in SQL: content once within an org, gone with the last file, never torn (spec 5, P25)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from capset.errors import FileError
from capset.stores.sql.sqlite import SqliteStore
from capset.stores.sql.store import SqlStore
from capset_testing.store_suite.support import NOW
from tests.helpers.stores.sql.support import run_at

pytestmark = pytest.mark.spec("P25")


@pytest.mark.parametrize("again", [1, 2])
async def test_content_is_kept_once_within_an_org_and_goes_with_the_last_file(
    store: SqlStore, url: str, again: int
) -> None:
    def blobs() -> list[tuple[str, int]]:
        return run_at(url, "SELECT org, size FROM blobs ORDER BY org, size")

    write, delete = store.files.write, store.files.delete
    for session, path, org in again * (
        *(("s", "/a", "acme"), ("s", "/b", "acme"), ("t", "/a", "acme"), ("u", "/a", None)),
    ):
        await write(session, path, b"shared", org=org, now=NOW)
    assert blobs() == [("", 6), ("acme", 6)]
    await write("s", "/a", b"another", org="acme", now=NOW)
    assert blobs() == [("", 6), ("acme", 6), ("acme", 7)]
    await delete("s", "/", recursive=True)
    assert blobs() == [("", 6), ("acme", 6)]
    await write("t", "/a", b"replaced", org="acme", now=NOW)
    await delete("u", "/a", recursive=False)
    await write("u", "/d/f", b"f", org=None, now=NOW)
    with pytest.raises(FileError, match="'/d' is a directory"):
        await write("u", "/d", b"refused", org=None, now=NOW)
    assert blobs() == [("", 1), ("acme", 8)]


async def test_a_reader_never_sees_a_torn_file(store: SqlStore) -> None:
    contents = [bytes([number]) * 300_000 for number in range(8)]

    async def write(content: bytes) -> None:
        await store.files.write("s", "/a", content, org=None, now=NOW)

    async def read() -> bool:
        stat, content = await store.files.read("s", "/a")
        return content in contents and stat.size_bytes == len(content)

    await write(contents[0])
    results = await asyncio.gather(*[do for content in contents for do in (write(content), read(), read())])
    assert all(result is not False for result in results)


@pytest.mark.spec("P23")
async def test_a_readonly_row_refuses(store: SqlStore, url: str) -> None:
    await store.files.write("s", "/d/f", b"f", org=None, now=NOW)
    run_at(url, "UPDATE files SET is_readonly = TRUE WHERE path = '/d/f'")
    assert (await store.files.read("s", "/d/f"))[0].is_readonly
    with pytest.raises(FileError, match="cannot write '/d/f': '/d/f' is read-only"):
        await store.files.write("s", "/d/f", b"g", org=None, now=NOW)
    with pytest.raises(FileError, match="cannot delete '/': '/d/f' is read-only"):
        await store.files.delete("s", "/", recursive=True)


async def test_a_session_that_goes_leaves_no_row(store: SqlStore, url: str) -> None:
    """Not even that of the root, which says how far versions have come."""
    for session in "st":
        await store.files.write(session, "/d/f", b"f", org=None, now=NOW)
        await store.files.delete(session, "/d/f", recursive=False)
    await store.sessions.delete("s")
    assert await store.files.delete("s", "/", recursive=True) == 0
    assert run_at(url, "SELECT session, path FROM files ORDER BY path") == [("t", "/"), ("t", "/d")]


@pytest.mark.nightly
async def test_a_large_tree_is_deleted_whole(file_store: SqliteStore, tmp_path: Path) -> None:
    files, names = file_store.files, [f"/d{number % 7}/{number}" for number in range(1200)]
    await asyncio.gather(*[files.write("s", name, name.encode(), org=None, now=NOW) for name in names])
    assert await files.delete("s", "/", recursive=True) == 1207
    assert run_at(f"sqlite:///{tmp_path}/a.db", "SELECT * FROM blobs") == []
