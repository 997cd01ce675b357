"""Files in SQL: content once within an org, gone with the last file, never torn (spec 5, P25)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from capset.errors import FileError
from capset_testing.store_suite.support import NOW, begin
from tests.helpers.stores.sql.support import opened, opened_at, run_at


def blobs_in(url: str) -> list[tuple[str, int]]:
    return run_at(url, "SELECT org, size FROM blobs ORDER BY org, size")


@pytest.mark.spec("P25")
async def test_content_is_kept_once_within_an_org_and_goes_with_the_last_file(url: str) -> None:
    async with opened_at(url) as store:
        await begin(store, "s", "t", "u")
        write, delete = store.files.write, store.files.delete
        for session, file, org in (("s", "/a", "acme"), ("s", "/b", "acme"), ("t", "/a", "acme"), ("u", "/a", None)):
            await write(session, file, b"shared", org=org, now=NOW)
        assert blobs_in(url) == [("", 6), ("acme", 6)]
        await write("s", "/a", b"another", org="acme", now=NOW)
        assert blobs_in(url) == [("", 6), ("acme", 6), ("acme", 7)]
        await delete("s", "/", recursive=True)
        assert blobs_in(url) == [("", 6), ("acme", 6)]
        await write("t", "/a", b"replaced", org="acme", now=NOW)
        await delete("u", "/a", recursive=False)
        assert blobs_in(url) == [("acme", 8)]


@pytest.mark.spec("P25")
async def test_writing_the_same_again_keeps_the_content(url: str) -> None:
    async with opened_at(url) as store:
        await begin(store, "s", "t", "u")
        for _ in range(2):
            await store.files.write("s", "/a", b"same", org=None, now=NOW)
        assert blobs_in(url) == [("", 4)]
        assert (await store.files.read("s", "/a"))[1] == b"same"


async def test_a_write_that_is_refused_leaves_no_content(url: str) -> None:
    async with opened_at(url) as store:
        await begin(store, "s", "t", "u")
        await store.files.write("s", "/d/f", b"f", org=None, now=NOW)
        with pytest.raises(FileError, match="'/d' is a directory"):
            await store.files.write("s", "/d", b"refused", org=None, now=NOW)
        assert blobs_in(url) == [("", 1)]


@pytest.mark.spec("P25")
async def test_a_reader_never_sees_a_torn_file(url: str) -> None:
    contents = [bytes([number]) * 300_000 for number in range(8)]
    async with opened_at(url) as store:
        await begin(store, "s", "t", "u")
        await store.files.write("s", "/a", contents[0], org=None, now=NOW)

        async def write(content: bytes) -> None:
            await store.files.write("s", "/a", content, org=None, now=NOW)

        async def read() -> bool:
            stat, content = await store.files.read("s", "/a")
            return content in contents and stat.size_bytes == len(content)

        results = await asyncio.gather(*[do for content in contents for do in (write(content), read(), read())])
    assert all(result is not False for result in results)


@pytest.mark.spec("P23")
async def test_a_readonly_row_refuses(url: str) -> None:
    async with opened_at(url) as store:
        await begin(store, "s", "t", "u")
        await store.files.write("s", "/d/f", b"f", org=None, now=NOW)
        run_at(url, "UPDATE files SET is_readonly = TRUE WHERE path = '/d/f'")
        stat, _ = await store.files.read("s", "/d/f")
        assert stat.is_readonly
        with pytest.raises(FileError, match="cannot write '/d/f': '/d/f' is read-only"):
            await store.files.write("s", "/d/f", b"g", org=None, now=NOW)
        with pytest.raises(FileError, match="cannot delete '/': '/d/f' is read-only"):
            await store.files.delete("s", "/", recursive=True)


@pytest.mark.spec("P25")
async def test_a_session_that_goes_leaves_no_row(url: str) -> None:
    """Not even that of the root, which says how far versions have come."""
    async with opened_at(url) as store:
        await begin(store, "s", "t")
        for session in "st":
            await store.files.write(session, "/d/f", b"f", org=None, now=NOW)
            await store.files.delete(session, "/d/f", recursive=False)
        await store.sessions.delete("s")
        assert await store.files.delete("s", "/", recursive=True) == 0
        assert run_at(url, "SELECT session, path FROM files ORDER BY path") == [("t", "/"), ("t", "/d")]


@pytest.mark.nightly
async def test_a_large_tree_is_deleted_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with opened(path) as store:
        await begin(store, "s", "t", "u")
        names = [f"/d{number % 7}/{number}" for number in range(1200)]
        await asyncio.gather(*[store.files.write("s", name, name.encode(), org=None, now=NOW) for name in names])
        assert await store.files.delete("s", "/", recursive=True) == 1207
    assert blobs_in(f"sqlite:///{path}") == []
