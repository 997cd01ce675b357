"""Checks of quotas, and of versions, which never stand for two contents (spec 5, P25)."""

from __future__ import annotations

import asyncio
from typing import Final

from capset.definitions.calls.files import FileQuota, FileStat
from capset.errors import FileError, QuotaExceeded
from capset.stores.base import Store
from capset_testing.store_suite.support import LATER, NOW, Make, expect, expect_error, with_sessions

_SESSION: Final = "session-1"
_SMALL: Final = FileQuota(file_bytes=10, session_bytes=25, session_files=3)


async def _write(store: Store, path: str, size: int, quota: FileQuota = _SMALL, session: str = _SESSION) -> FileStat:
    stat, _ = await store.files.write(session, path, b"x" * size, org="acme", now=NOW, quota=quota)
    return stat


async def _expect_refused(store: Store, path: str, size: int, quota: FileQuota = _SMALL) -> None:
    error = await expect_error(QuotaExceeded, _write(store, path, size, quota), f"writing {size} bytes to {path}")
    expect((error.code, error.status, error.retryable), ("quota_exceeded", 413, False), "its code and status")
    expect(repr(path) in error.message, True, f"whether {path!r} is named by {error.message!r}")


async def a_session_holds_no_more_than_its_quota(make: Make) -> None:
    """Check limits of file bytes, total bytes and files; a refused write leaves nothing, a deletion frees room."""
    async with with_sessions(make, _SESSION, "session-2") as store:
        await _expect_refused(store, "/new/a", 11)
        expect(await store.files.list(_SESSION, "/", recursive=True), [], "the entries after that")
        for path, size in (("/a", 10), ("/b", 10), ("/d/c", 4)):
            await _write(store, path, size)
        await _expect_refused(store, "/d/c", 6)
        await _expect_refused(store, "/new", 0)
        await _write(store, "/d/c", 5)
        await _write(store, "/a", 1)
        await _expect_refused(store, "/d/c", 11)
        await _write(store, "/d/c", 10)
        await store.files.delete(_SESSION, "/b", recursive=False)
        await _expect_refused(store, "/e", 15)
        await _write(store, "/e", 10)
        for path in ("/a", "/b"):  # the same content, which the store has already
            await _write(store, path, 10, session="session-2")
        expect(len(await store.files.list("session-2", "/", recursive=True)), 2, "the files of another session")
        sizes = {stat.path: stat.size_bytes for stat in await store.files.list(_SESSION, "/", recursive=True)}
        expect(sizes, {"/a": 1, "/d": 0, "/d/c": 10, "/e": 10}, "the files")


async def equal_content_counts_for_every_file(make: Make) -> None:
    """Check that it counts though it is stored once: otherwise a quota would reveal the files of others."""
    async with with_sessions(make, _SESSION) as store:
        for path in ("/a", "/b"):
            await _write(store, path, 10)
        await _expect_refused(store, "/c", 10)


async def what_makes_nothing_grow_is_taken(make: Make) -> None:
    """Check a session that exceeds a lowered quota, even a quota of zero."""
    none = FileQuota(0, 0, 0)
    async with with_sessions(make, _SESSION) as store:
        await _write(store, "/d/a", 9)
        for size in (9, 8, 0):
            expect((await _write(store, "/d/a", size, none)).size_bytes, size, "the size")
        await _expect_refused(store, "/d/a", 1, none)
        await _expect_refused(store, "/d/b", 0, none)
        moved = await store.files.move(_SESSION, "/d/a", "/d/c", overwrite=False, now=NOW, quota=none)
        expect(moved.path, "/d/c", "where it was moved to")


async def directories_count_beside_files(make: Make) -> None:
    """Check that directories have the same limit as files, including parents that a write or move would create."""
    quota = FileQuota(session_files=4)
    async with with_sessions(make, _SESSION) as store:
        await _write(store, "/1/2/3/f", 1, quota)
        await _expect_refused(store, "/1/4/5/f", 1, quota)
        move = store.files.move(_SESSION, "/1/2", "/4/5/6", overwrite=False, now=NOW, quota=quota)
        await expect_error(QuotaExceeded, move, "moving below two new directories")
        await store.files.move(_SESSION, "/1/2", "/4/2", overwrite=False, now=NOW, quota=quota)
        await _expect_refused(store, "/5/f", 1, quota)
        await store.files.delete(_SESSION, "/1", recursive=False)
        await _write(store, "/5/f", 1, quota)
        for name in "gh":
            await _write(store, f"/5/{name}", 1, quota)
        await _expect_refused(store, "/5/i", 1, quota)
        expect(len(await store.files.list(_SESSION, "/", recursive=True)), 8, "the entries")


async def a_move_frees_what_it_overwrites(make: Make) -> None:
    """Check that both the bytes and the entry are freed."""
    async with with_sessions(make, _SESSION) as store:
        for path, size in (("/a", 10), ("/b", 10), ("/c", 5)):
            await _write(store, path, size)
        await store.files.move(_SESSION, "/a", "/b", overwrite=True, now=NOW, quota=_SMALL)
        await _write(store, "/d", 10)
        await _expect_refused(store, "/e", 0)


async def concurrent_writes_keep_to_the_quota(make: Make) -> None:
    """Exactly as many writes succeed as fit."""
    quota = FileQuota(file_bytes=10, session_bytes=45, session_files=7)
    async with with_sessions(make, _SESSION, "session-2") as store:

        async def write(path: str, size: int, session: str) -> bool:
            try:
                await _write(store, path, size, quota, session)
            except QuotaExceeded:
                return False
            return True

        long = await asyncio.gather(*[write(f"/d{n % 3}/{n}", 10, _SESSION) for n in range(20)])
        many = await asyncio.gather(*[write(f"/{n}/f", 1, "session-2") for n in range(20)])
        expect((sum(long), sum(many)), (4, 7), "how many were written")
        expect(len(await store.files.list("session-2", "/", recursive=True)), 14, "files and directories")


async def a_version_is_never_used_twice(make: Make) -> None:
    """Check that a new version is above all removed ones, so that a path and a version have only one content."""
    async with with_sessions(make, _SESSION, "session-2") as store:
        files, contents = store.files, dict[tuple[str, int], bytes]()

        async def check_contents(step: str) -> None:
            for stat in await files.list(_SESSION, "/", recursive=True):
                content = b"" if stat.is_directory else (await files.read(_SESSION, stat.path))[1]
                expect(contents.setdefault((stat.path, stat.version), content), content, f"{stat.path} after {step}")

        async def write(path: str, content: bytes) -> int:
            stat, _ = await files.write(_SESSION, path, content, org=None, now=NOW)
            await check_contents(f"writing {content!r}")
            return stat.version

        expect([await write("/a", b"1"), await write("/a", b"2"), await write("/d/b", b"3")], [1, 2, 1], "the first")
        await files.delete(_SESSION, "/a", recursive=False, version=2)
        expect(await write("/a", b"4"), 3, "the version of what was deleted and is written again")
        await files.move(_SESSION, "/a", "/d/c", overwrite=False, now=LATER)
        await check_contents("moving")
        await files.move(_SESSION, "/d/b", "/d/c", overwrite=True, now=LATER)
        await check_contents("moving over another")
        await write("/a", b"5")
        await write("/d/b", b"6")
        await files.move(_SESSION, "/d", "/e", overwrite=False, now=LATER)
        await write("/d/c", b"7")
        await files.delete(_SESSION, "/", recursive=True)
        for path in ("/a", "/d/b", "/d/c", "/e/b", "/e/c"):
            await write(path, path.encode())
        root = await files.stat(_SESSION, "/")
        expect(root and (root.path, root.version), ("/", 0), "the root after all that")
        expect(
            [file.path for file in await files.list(_SESSION, "/", recursive=False)], ["/d", "/e", "/a"], "the entries"
        )
        stat, _ = await files.write("session-2", "/a", b"1", org=None, now=NOW)
        expect(stat.version, 1, "the version in another session")
        await expect_error(FileError, files.read(_SESSION, "/"), "reading the root")
