"""A session's files with what capabilities mount over them (spec 1, C18; spec 5, P25)."""

from __future__ import annotations

import pytest

from capset import Agent, Capability, Context, Kernel, Principal, tool
from capset.definitions.governance.settings import Governance
from capset.errors import FileError, QuotaExceeded
from tests.helpers.kernel.support import opened


@pytest.mark.spec("C18")
async def test_mounted_files_are_there_read_only_and_cover_what_was(store: str) -> None:
    @tool
    async def look(ctx: Context) -> list[str]:
        """List everything."""
        return [entry.path for entry in await ctx.files.list("/", recursive=True)]

    guide = Capability("guide", tools=[look], files={"/docs/guide.md": "Read me.", "/docs/raw.bin": b"\x00\x01"})
    async with opened(Agent("tester", uses=[guide], files={"/top.txt": "Mine."}), store=store) as desk:
        files = desk.session.files
        await files.write("/docs/own.txt", b"own")
        paths = await desk.session.call(look)
        assert paths == ["/docs", "/docs/guide.md", "/docs/own.txt", "/docs/raw.bin", "/top.txt"]
        stat, content = await files.read("/docs/guide.md")
        assert (content, stat.is_readonly, stat.size_bytes) == (b"Read me.", True, 8)
        for refused in (
            files.write("/docs/guide.md", b"x"),
            files.write("/docs/guide.md/below", b"x"),
            files.write("/docs", b"x"),
            files.delete("/docs/guide.md"),
            files.delete("/docs", recursive=True),
            files.list("/docs/guide.md"),
            files.read("/docs"),
        ):
            with pytest.raises(Exception, match=r"read-only|directory"):
                await refused
        assert await files.delete("/", recursive=True) == 2
        assert [entry.name for entry in await files.list("/")] == ["docs", "top.txt"]
        assert await files.stat("/docs")
        assert await files.stat("/docs/own.txt") is None


@pytest.mark.spec("C18", "P25")
async def test_what_was_stored_where_a_mount_comes_later_is_covered_and_kept(store: str) -> None:
    principal, plain, mounted = Principal("ann"), Agent("one"), Agent("one", files={"/docs/guide": "Read me."})
    async with Kernel(store=store) as kernel:
        async with kernel.open(plain, principal=principal) as session:
            await session.files.write("/docs/guide/inner/old.txt", b"old")
            folder = await session.files.stat("/docs")
        async with kernel.open(mounted, principal=principal, session_id=session.id) as over:
            files = over.files
            assert await files.stat("/docs") == folder
            assert [entry.path for entry in await files.list("/", recursive=True)] == ["/docs", "/docs/guide"]
            for covered in ("/docs/guide/inner", "/docs/guide/inner/old.txt"):
                assert await files.stat(covered) is None
                for refused in (files.read(covered), files.list(covered)):
                    with pytest.raises(FileError) as caught:
                        await refused
                    assert caught.value.status == 404
                for refused in (files.write(covered, b"x"), files.delete(covered, recursive=True)):
                    with pytest.raises(FileError, match="read-only"):
                        await refused
        async with kernel.open(plain, principal=principal, session_id=session.id) as reopened:
            assert (await reopened.files.read("/docs/guide/inner/old.txt"))[1] == b"old"


@pytest.mark.spec("C18", "P22")
async def test_nothing_moves_what_is_mounted_or_the_directory_that_holds_it(store: str) -> None:
    agent = Agent("one", files={"/docs/in/guide": "Read me."})
    async with opened(agent, store=store) as desk:
        files = desk.session.files
        for path in ("/docs/own", "/docs/in/own", "/plain/f"):
            await files.write(path, b"own")
        before = await files.list("/", recursive=True)
        for source, target, why in (
            ("/docs/in/guide", "/new", "read-only"),
            ("/docs/in/guide/below", "/new", "read-only"),
            ("/docs/in", "/new", "holds read-only files"),
            ("/docs", "/new", "holds read-only files"),
            ("/plain/f", "/docs/in/guide", "read-only"),
            ("/plain", "/docs/in/guide/below", "read-only"),
            ("/plain/f", "/docs", "there is already a directory '/docs'"),
            ("/", "/new", "'/' cannot be moved"),
            ("/docs", "/docs", "holds read-only files"),
        ):
            with pytest.raises(FileError, match=why):
                await files.move(source, target, overwrite=True)
        assert await files.list("/", recursive=True) == before
        assert (await files.move("//docs/./own", "/docs/in/moved/", version=1)).path == "/docs/in/moved"
        await files.move("/plain", "/docs/in/plain")
        names = [entry.path.removeprefix("/docs/in/") for entry in await files.list("/docs/in", recursive=True)]
        assert names == ["guide", "moved", "own", "plain", "plain/f"]


@pytest.mark.spec("C18", "P24")
async def test_many_files_are_read_with_what_is_mounted_and_without_what_it_covers(store: str) -> None:
    principal, plain = Principal("ann"), Agent("one")
    mounted = Agent("one", files={"/docs/guide": "Read me.", "/own/new": "Mounted."})
    async with Kernel(store=store) as kernel:
        async with kernel.open(plain, principal=principal) as session:
            for path in ("/docs/guide/old", "/a", "/own/new"):
                await session.files.write(path, path.encode())
        async with kernel.open(mounted, principal=principal, session_id=session.id) as over:
            paths = ["/own/new", "/docs/guide/old", "/docs", "//a", "/docs/guide", "/missing", "/"]
            contents = await over.files.read_many(paths)
            expected = [("/own/new", b"Mounted."), ("/a", b"/a"), ("/docs/guide", b"Read me.")]
            assert [(stat.path, content) for stat, content in contents] == expected
            assert list(await over.files.read_many(["/docs"])) == []
            with pytest.raises(FileError, match="absolute"):
                await over.files.read_many(["a"])


@pytest.mark.spec("C18", "P25")
async def test_what_is_mounted_is_outside_the_quota(store: str) -> None:
    agent = Agent("one", files={"/docs/guide": "x" * 100, "/docs/raw": "x" * 100})
    governance = Governance(file_bytes=10, session_bytes=10, session_files=1)
    async with opened(agent, store=store, governance=governance) as desk:
        files = desk.session.files
        await files.write("/docs/own", b"x" * 10)
        with pytest.raises(QuotaExceeded, match="has 1 file, this needs 1 more, and the limit is 1"):
            await files.write("/docs/new", b"")
        with pytest.raises(QuotaExceeded, match="'/docs/own' would be 11 bytes long, and a file is at most 10"):
            await files.write("/docs/own", b"x" * 11)
        with pytest.raises(QuotaExceeded, match="has 1 directory, this needs 1 more"):
            await files.move("/docs/own", "/new/own")
        stat, _ = await files.read("/docs/guide")
        assert (stat.version, stat.is_readonly) == (0, True)
