"""Checks of sessions' files (spec 5, P22–P25)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from hashlib import sha256
from io import BytesIO
from typing import Final

from capset.errors import FileError, VersionMismatch
from capset.stores.base import Store
from capset_testing.store_suite.support import LATER, NOW, Make, expect, expect_error, with_sessions

_SESSION: Final = "session-1"


async def _write(store: Store, path: str, content: bytes = b"x", *, session: str = _SESSION) -> None:
    await store.files.write(session, path, content, org=None, now=NOW)


async def _paths(store: Store, path: str = "/", *, recursive: bool = False) -> list[str]:
    return [stat.path for stat in await store.files.list(_SESSION, path, recursive=recursive)]


async def a_file_comes_back_as_it_was_written(make: Make) -> None:
    """Check a file with any bytes, and that its parents are created."""
    content = bytes(range(256)) * 5000
    async with with_sessions(make, _SESSION, "session-2") as store:
        stat, created = await store.files.write(_SESSION, "/a/b/c.bin", content, org="acme", now=NOW)
        expect(created, True, "whether the file is new")
        expect((stat.path, stat.name, stat.size_bytes), ("/a/b/c.bin", "c.bin", len(content)), "the file")
        expect((stat.version, stat.created_at, stat.modified_at), (1, NOW, NOW), "its version and times")
        expect(await store.files.read(_SESSION, "/a/b/c.bin"), (stat, content), "the file, read")
        expect(await store.files.stat(_SESSION, "/a/b/c.bin"), stat, "the file's stat")
        digest = sha256(content).hexdigest()
        expect(await store.files.digest(_SESSION, "/a/b/c.bin"), (stat, digest), "the file, with its digest")
        parent = await store.files.stat(_SESSION, "/a/b")
        expect(parent and (parent.is_directory, parent.created_at), (True, NOW), "its parent")
        empty, _ = await store.files.write(_SESSION, "/empty", b"", org="acme", now=NOW)
        expect(await store.files.read(_SESSION, "/empty"), (empty, b""), "an empty file")


async def a_file_is_read_and_written_in_parts(make: Make) -> None:
    """Check reads of any range, also across several rows of a store, and writes from an open file."""
    content = bytes(range(251)) * 10_000  # 2.5 MB, and no part is like another
    async with with_sessions(make, _SESSION, "session-2") as store:
        file = BytesIO(content)
        file.seek(99)  # it must be read from the beginning anyway
        stat, _ = await store.files.write(_SESSION, "/large", file, org="acme", now=NOW)
        expect(stat.size_bytes, len(content), "the size of the open file's content")
        await _write(store, "/small", content[:100])
        mebibyte = 1 << 20
        for start, size in (
            *((0, 10), (mebibyte - 5, 10), (mebibyte, mebibyte), (mebibyte + 7, 2 * mebibyte), (10, 0)),
            *((len(content) - 1, 10), (len(content), 10), (len(content) + mebibyte, 10)),
        ):
            part = await store.files.read(_SESSION, "/large", start=start, size=size)
            expect(part == (stat, content[start : start + size]), True, f"whether {size} bytes from {start} are right")
            _, few = await store.files.read(_SESSION, "/small", start=start, size=size)
            expect(few, content[:100][start : start + size], f"{size} bytes from {start} of a small file")
        _, rest = await store.files.read(_SESSION, "/large", start=mebibyte + 1)
        expect(rest == content[mebibyte + 1 :], True, "whether the rest of the file is right")


async def a_write_makes_a_new_version(make: Make) -> None:
    """Check that the version increases and the creation time stays."""
    async with with_sessions(make, _SESSION, "session-2") as store:
        await _write(store, "/a.txt", b"one")
        stat, created = await store.files.write(_SESSION, "/a.txt", b"two!", org=None, now=LATER)
        expect(created, False, "whether the file is new")
        expect((stat.version, stat.size_bytes), (2, 4), "its version and size")
        expect((stat.created_at, stat.modified_at), (NOW, LATER), "its times")
        expect(await store.files.read(_SESSION, "/a.txt"), (stat, b"two!"), "the file, read")


async def concurrent_writes_are_one_after_the_other(make: Make) -> None:
    """Every write makes a version; the file has one of the contents, whole."""
    contents = [bytes([number]) * 10_000 for number in range(20)]
    async with with_sessions(make, _SESSION, "session-2") as store:
        await asyncio.gather(*[_write(store, "/a/b.bin", content) for content in contents])
        stat, content = await store.files.read(_SESSION, "/a/b.bin")
        expect(stat.version, 20, "the version after 20 writes")
        expect(content in contents, True, "whether the content is one that was written")
        expect(await _paths(store, recursive=True), ["/a", "/a/b.bin"], "the entries")


async def directories_come_first_in_a_listing(make: Make) -> None:
    """Check the order: directories, then by name in code point order; recursively, by path."""
    async with with_sessions(make, _SESSION, "session-2") as store:
        for path in ("/b.txt", "/Z.txt", "/é", "/d/y/f", "/d/x", "/d-1", "/c/f", "/𐍈", "/\ufb01"):
            await _write(store, path)
        expect(await _paths(store), ["/c", "/d", "/Z.txt", "/b.txt", "/d-1", "/é", "/\ufb01", "/𐍈"], "the root")
        expect(await _paths(store, "/d"), ["/d/y", "/d/x"], "a directory")
        expect(await _paths(store, "/d", recursive=True), ["/d/x", "/d/y", "/d/y/f"], "a directory, recursively")
        expect(len(await _paths(store, recursive=True)), 12, "the entries of the root, recursively")


async def names_are_no_patterns(make: Make) -> None:
    """Check that a directory's name is matched exactly: no case folding, no wildcards, no prefixes."""
    names = ("a", "A", "a_", "ab", "a%", "a*", "a.", "a0")
    async with with_sessions(make, _SESSION, "session-2") as store:
        for name in names:
            await _write(store, f"/{name}/f")
        for name in names:
            expect(await _paths(store, f"/{name}", recursive=True), [f"/{name}/f"], f"the tree of {name!r}")
        expect(await store.files.delete(_SESSION, "/a", recursive=True), 2, "entries of one tree deleted")
        expect(len(await _paths(store)), len(names) - 1, "the other trees")


async def what_is_there_decides_what_can_be_done(make: Make) -> None:
    """Check that a file used as a directory, a directory used as a file, and a missing entry are refused, by name."""
    async with with_sessions(make, _SESSION, "session-2") as store:
        files = store.files
        await _write(store, "/d/f")
        refused: list[tuple[str, Callable[[], Awaitable[object]], str]] = [
            ("a file below a file", lambda: _write(store, "/d/f/g"), "/d/f"),
            ("a file over a directory", lambda: _write(store, "/d"), "/d"),
            ("a file over the root", lambda: _write(store, "/"), "/"),
            ("reading a directory", lambda: files.read(_SESSION, "/d"), "/d"),
            ("the digest of a directory", lambda: files.digest(_SESSION, "/d"), "/d"),
            ("the digest of what is missing", lambda: files.digest(_SESSION, "/d/g"), "/d/g"),
            ("reading the root", lambda: files.read(_SESSION, "/"), "/"),
            ("reading what is missing", lambda: files.read(_SESSION, "/d/g"), "/d/g"),
            ("listing a file", lambda: files.list(_SESSION, "/d/f", recursive=False), "/d/f"),
            ("listing what is missing", lambda: files.list(_SESSION, "/g", recursive=True), "/g"),
            ("deleting a directory with entries", lambda: files.delete(_SESSION, "/d", recursive=False), "/d"),
            ("deleting the root with entries", lambda: files.delete(_SESSION, "/", recursive=False), "/"),
        ]
        for label, call, named in refused:
            error = await expect_error(FileError, call(), label)
            expect(repr(named) in error.message, True, f"whether {named!r} is named by {error.message!r}")
        expect(await _paths(store, recursive=True), ["/d", "/d/f"], "the entries after all that")
        expect(await files.stat(_SESSION, "/g"), None, "the stat of what is missing")


async def deleting_says_how_many_entries_went(make: Make) -> None:
    """Check the numbers: 1 for a file, a directory with everything in it, 0 for a missing entry."""
    async with with_sessions(make, _SESSION, "session-2") as store:
        for path in ("/a/b/c", "/a/b/d", "/a/e", "/f"):
            await _write(store, path)
        files = store.files
        expect(await files.delete(_SESSION, "/f", recursive=False), 1, "a file")
        expect(await files.delete(_SESSION, "/f", recursive=True), 0, "what is missing")
        expect(await files.delete(_SESSION, "/a/b", recursive=True), 3, "a directory")
        expect(await files.delete(_SESSION, "/a/e", recursive=True), 1, "the last file of a directory")
        expect(await files.delete(_SESSION, "/a", recursive=False), 1, "an empty directory")
        expect(await files.delete(_SESSION, "/", recursive=False), 0, "the empty root")


async def the_root_is_always_there(make: Make) -> None:
    """Check a session without files, and one that was emptied."""
    async with with_sessions(make, _SESSION, "session-2") as store:
        root = await store.files.stat(_SESSION, "/")
        root_fields = root and (root.path, root.name, root.is_directory, root.size_bytes, root.version)
        expect(root_fields, ("/", "/", True, 0, 0), "the root of a new session")
        expect(await _paths(store), [], "the entries of a new session")
        await _write(store, "/a/b")
        expect(await store.files.delete(_SESSION, "/", recursive=True), 2, "entries deleted with the root")
        expect(await store.files.stat(_SESSION, "/"), root, "the root, emptied")


async def a_session_never_reaches_anothers_files(make: Make) -> None:
    """Check two sessions whose files share content."""
    async with with_sessions(make, _SESSION, "session-2") as store:
        await _write(store, "/a.txt", b"shared")
        await _write(store, "/a.txt", b"shared", session="session-2")
        await _write(store, "/b.txt", b"other", session="session-2")
        expect(await _paths(store, recursive=True), ["/a.txt"], "the files of one session")
        await store.files.delete("session-2", "/", recursive=True)
        expect((await store.files.read(_SESSION, "/a.txt"))[1], b"shared", "the file of the other session")


async def an_expected_version_is_held_to(make: Make) -> None:
    """Only the expected version is written or deleted; 0 stands for a missing file."""
    async with with_sessions(make, _SESSION, "session-2") as store:
        files = store.files

        async def write(version: int) -> object:
            return await files.write(_SESSION, "/a.txt", b"x", org=None, now=NOW, version=version)

        await expect_error(VersionMismatch, write(1), "version 1 of a missing file")
        await write(0)
        await expect_error(VersionMismatch, write(0), "version 0 of an existing file")
        await write(1)
        for wrong in (0, 1, 3):
            gone = files.delete(_SESSION, "/a.txt", recursive=False, version=wrong)
            await expect_error(VersionMismatch, gone, f"deleting version {wrong}")
        expect(await files.delete(_SESSION, "/a.txt", recursive=False, version=2), 1, "deleting the right version")
        gone = files.delete(_SESSION, "/a.txt", recursive=False, version=2)
        await expect_error(VersionMismatch, gone, "deleting it again")


async def a_session_that_is_gone_takes_no_files(make: Make) -> None:
    """Check that writes are refused: otherwise such files would stay for ever, out of reach of any session."""
    async with with_sessions(make, _SESSION) as store:
        await _write(store, "/a.txt")
        await store.sessions.delete(_SESSION)
        for session in (_SESSION, "session-3"):
            late = store.files.write(session, "/b.txt", b"late", org=None, now=NOW)
            error = await expect_error(FileError, late, "writing to a missing session")
            expect(error.status, 404, "its status")
            expect(await store.files.list(session, "/", recursive=True), [], "the files of a missing session")


async def a_moved_file_is_the_same_elsewhere(make: Make) -> None:
    """Check that content and creation time stay, and that the version is new to both paths."""
    async with with_sessions(make, _SESSION) as store:
        files = store.files
        for content in (b"one", b"two", b"three"):
            await _write(store, "/a/b.txt", content)
        await files.write(_SESSION, "/taken", b"here", org="acme", now=NOW)
        stat = await files.move(_SESSION, "/a/b.txt", "/c/d/e.txt", overwrite=False, now=LATER, version=3)
        expect(
            (stat.path, stat.size_bytes, stat.created_at, stat.modified_at),
            ("/c/d/e.txt", 5, NOW, LATER),
            "the moved file",
        )
        expect(stat.version > 3, True, "whether its version is new")
        expect(await files.read(_SESSION, "/c/d/e.txt"), (stat, b"three"), "the file, read")
        expect(await _paths(store, recursive=True), ["/a", "/c", "/c/d", "/c/d/e.txt", "/taken"], "the entries")
        over = await files.move(_SESSION, "/c/d/e.txt", "/taken", overwrite=True, now=LATER)
        expect((over.version, over.created_at), (2, NOW), "the version and time of a file that replaced another")
        expect(await files.read(_SESSION, "/taken"), (over, b"three"), "the file that replaced another, read")
        expect(await files.stat(_SESSION, "/c/d/e.txt"), None, "the entry at its old path")
        await files.delete(_SESSION, "/", recursive=True)
        expect(await _paths(store), [], "the entries after all that")


async def a_directory_moves_with_all_below_it(make: Make) -> None:
    """Check that nothing else moves, even with a similar name."""
    deep = [f"/a%_/{name}" for name in ("f", "g/h", "g/é/𐍈", "\x1a")]
    beside = ["/a%_0", "/a%", "/a%_-x/f", "/axx/f"]
    async with with_sessions(make, _SESSION, "session-2") as store:
        for path in (*deep, *beside):
            await _write(store, path, path.encode())
        await _write(store, "/a%_/f", b"of another", session="session-2")
        before = await _paths(store, recursive=True)
        moved = await store.files.move(_SESSION, "/a%_", "/x/\x1ay", overwrite=False, now=LATER)
        expect((moved.path, moved.is_directory, moved.modified_at), ("/x/\x1ay", True, LATER), "the directory")
        now = [path.replace("/a%_", "/x/\x1ay", 1) if path in ("/a%_", *deep) else path for path in before]
        now += ["/x/\x1ay/g", "/x/\x1ay/g/é", "/x"]
        expect(await _paths(store, recursive=True), sorted({*now} - {"/a%_/g", "/a%_/g/é"}), "the entries")
        expect(await _paths(store, "/x/\x1ay"), ["/x/\x1ay/g", "/x/\x1ay/\x1a", "/x/\x1ay/f"], "its entries")
        for path in deep:
            moved_path = path.replace("/a%_", "/x/\x1ay", 1)
            stat, content = await store.files.read(_SESSION, moved_path)
            expect((stat.path, content), (moved_path, path.encode()), "a moved file, read")
        expect((await store.files.read("session-2", "/a%_/f"))[1], b"of another", "another session's file")
        back = await store.files.move(_SESSION, "/x/\x1ay", "/a%_", overwrite=False, now=LATER)
        expect(back.version > moved.version, True, "whether its version is new")
        expect(await _paths(store, recursive=True), sorted([*before, "/x"]), "the entries once it is back")


async def what_cannot_be_moved_stays(make: Make) -> None:
    """Check refusals without changes: a missing entry, a taken target, the root, a target in itself, a long path."""
    long = "/".join(["", *["d" * 200] * 4])
    async with with_sessions(make, _SESSION) as store:
        for path in ("/d/f", "/e/f", "/g", f"/t{long}", f"/l{'/m' * 60}"):
            await _write(store, path)
        before = await store.files.list(_SESSION, "/", recursive=True)
        refused = [
            ("/missing", "/new", False, 404),
            ("/missing", "/missing", False, 404),
            ("/missing", "/missing/x", False, 404),
            ("/d", "/e", True, 409),
            ("/d", "/g", True, 409),
            ("/g", "/d", True, 409),
            ("/g", "/d/f", False, 409),
            ("/g", "/", True, 409),
            ("/", "/new", False, 400),
            ("/d", "/d", True, 400),
            ("/d", "/d/x/y", False, 400),
            ("/g", "/g", True, 400),
            ("/d", "/g/x", False, 400),
            ("/t", f"/{'x' * 240}", False, 400),
            ("/l", "/1/2/3/4/5", False, 400),
        ]
        for source, target, overwrite, status in refused:
            move = store.files.move(_SESSION, source, target, overwrite=overwrite, now=LATER)
            error = await expect_error(FileError, move, f"moving {source} to {target:.40}")
            expect(error.status, status, f"the status of moving {source} to {target:.40}")
        for wrong in (0, 2):
            move = store.files.move(_SESSION, "/g", "/new", overwrite=False, now=LATER, version=wrong)
            await expect_error(VersionMismatch, move, f"moving version {wrong}")
        expect(await store.files.list(_SESSION, "/", recursive=True), before, "the entries after all that")


async def many_files_are_read_at_once(make: Make) -> None:
    """Check the requested order, without missing entries and directories."""
    async with with_sessions(make, _SESSION, "session-2") as store:
        paths = [f"/d/{number}" for number in range(1100)]
        for first in range(0, len(paths), 100):
            await asyncio.gather(
                *(_write(store, path, f"content {path}".encode()) for path in paths[first : first + 100])
            )
        await _write(store, "/same", b"content /d/0")
        await _write(store, "/other", session="session-2")
        requested = [*reversed(paths), "/d", "/", "/missing", "/other", "/same", "/same"]
        files = await store.files.read_many(_SESSION, requested)
        same = "content /d/0"
        expected = [(path, f"content {path}") for path in reversed(paths)] + [("/same", same), ("/same", same)]
        expect([(stat.path, content.decode()) for stat, content in files], expected, "the files")
        expect(files[0][0], await store.files.stat(_SESSION, paths[-1]), "the stat of one")
        expect(list(await store.files.read_many(_SESSION, [])), [], "no files")
