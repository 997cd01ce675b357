from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset import Agent, Capability, Kernel, Principal
from capset.errors import FileError, InvalidArguments, PermissionDenied, ToolError, VersionMismatch
from capset_tools.session_file_system import session_file_system
from capset_tools.session_file_system.content import bytes_of, part_of
from capset_tools.session_file_system.read import list_directory, read_file, stat_file
from capset_tools.session_file_system.write import delete_file, edit_file, move_file, write_file
from tests.helpers.tools.support import FILES, session_of

READ, WRITE = FILES


@pytest.mark.spec("P22")
async def test_created_is_true_only_for_a_new_file() -> None:
    async with session_of(session_file_system, *FILES) as session:
        first = await session.call(write_file, path="/a/b//c.txt", content="héllo")
        second = await session.call(write_file, path="/a/b/c.txt", content="")
        assert (await session.call(read_file, path="/a/b/c.txt"))["content"] == ""
    assert first == {"path": "/a/b/c.txt", "size_bytes": 6, "created": True, "version": 1}
    assert second == {"path": "/a/b/c.txt", "size_bytes": 0, "created": False, "version": 2}


@pytest.mark.spec("P25")
async def test_with_a_version_nothing_is_written_over_what_somebody_else_wrote() -> None:
    async with session_of(session_file_system, *FILES) as session:
        first = await session.call(write_file, path="/a", content="mine", version=0)
        read = await session.call(read_file, path="/a")
        assert read["version"] == first["version"] == (await session.call(stat_file, path="/a")).get("version")
        for old in (0, 2):
            with pytest.raises(VersionMismatch):
                await session.call(write_file, path="/a", content="new", version=old)
        assert (await session.call(write_file, path="/a", content="new", version=read["version"]))["version"] == 2
        with pytest.raises(VersionMismatch):
            await session.call(write_file, path="/a", content="newer", version=read["version"])
        assert (await session.call(read_file, path="/a"))["content"] == "new"


@pytest.mark.spec("P23")
async def test_what_is_read_only_refuses_and_so_does_the_tree_that_holds_it() -> None:
    kit = Capability("kit", tools=session_file_system.every_tool, files={"/docs/inner/guide.md": "Read me."})
    async with session_of(kit, *FILES) as session:
        await session.files.write("/own/x", b"")
        refused = [
            session.try_call(write_file, path="/docs/inner/guide.md", content="x"),
            session.try_call(edit_file, path="/docs/inner/guide.md", old_text="Read", new_text="Write"),
            session.try_call(delete_file, path="/docs/inner/guide.md"),
            session.try_call(delete_file, path="/docs", recursive=True),
            session.try_call(move_file, source="/docs/inner/guide.md", target="/mine"),
            session.try_call(move_file, source="/docs", target="/mine"),
            session.try_call(move_file, source="/own/x", target="/docs/inner/guide.md", overwrite=True),
        ]
        for call in refused:
            result = await call
            assert isinstance(result.error, FileError)
            assert "read-only" in result.error.message
        assert (await session.call(stat_file, path="/docs/inner/guide.md")).get("is_readonly") is True
        assert await session.call(delete_file, path="/", recursive=True) == {"path": "/", "deleted": True}
        listing = await session.call(list_directory, recursive=True)
    assert [entry["path"] for entry in listing["entries"]] == ["/docs", "/docs/inner", "/docs/inner/guide.md"]


@pytest.mark.spec("P22")
async def test_parents_are_created() -> None:
    async with session_of(session_file_system, *FILES) as session:
        await session.call(write_file, path="/a/b/c.txt", content="x")
        listing = await session.call(list_directory, recursive=True)
    assert [(entry["path"], entry["is_directory"]) for entry in listing["entries"]] == [
        ("/a", True),
        ("/a/b", True),
        ("/a/b/c.txt", False),
    ]


@pytest.mark.spec("P22")
async def test_base64_stands_for_bytes() -> None:
    data = bytes(range(256))
    async with session_of(session_file_system, *FILES) as session:
        content = base64.b64encode(data).decode()
        saved_file = await session.call(write_file, path="/b", content=content, encoding="base64")
        read = await session.call(read_file, path="/b")
        assert (await session.files.read("/b"))[1] == data
    assert saved_file["size_bytes"] == 256
    assert (read["content"], read["encoding"]) == (content, "base64")


@pytest.mark.parametrize("content", ["a", "abc", "====", "YQ", "YQ==\n", "YQ= =", "Y!==", "YQ==YQ==", "é==="])
async def test_what_is_not_base64_is_refused_and_nothing_is_written(content: str) -> None:
    async with session_of(session_file_system, *FILES) as session:
        with pytest.raises(ToolError, match="content is not valid base64"):
            await session.call(write_file, path="/b", content=content, encoding="base64")
        assert not (await session.call(stat_file, path="/b"))["exists"]


async def test_text_without_utf8_is_refused() -> None:
    async with session_of(session_file_system, *FILES) as session:
        result = await session.try_call(write_file, path="/b", content="ab\ud800")
    assert isinstance(result.error, ToolError)
    assert "lone surrogate at position 2" in result.error.message


@pytest.mark.spec("P22")
@given(st.binary(max_size=100))
def test_what_is_read_can_be_written_back(data: bytes) -> None:
    part = part_of(data, 0, None)
    assert bytes_of(part.content, part.encoding) == data


@given(st.text(max_size=100))
def test_text_survives(text: str) -> None:
    part = part_of(bytes_of(text, "text"), 0, None)
    assert (part.encoding == "text") is ("\0" not in text)
    assert bytes_of(part.content, part.encoding).decode() == text


@pytest.mark.parametrize("encoding", ["utf-8", None, "TEXT"])
async def test_other_encodings_are_refused(encoding: Any) -> None:
    async with session_of(session_file_system, *FILES) as session:
        with pytest.raises(InvalidArguments, match="encoding"):
            await session.call(write_file, path="/b", content="", encoding=encoding)


@pytest.mark.parametrize("path", ["/", "/dir", "/file/below", "../x", "/a\0", "relative"])
async def test_where_no_file_can_be_none_is_written(path: str) -> None:
    async with session_of(session_file_system, *FILES) as session:
        await session.files.write("/dir/x", b"")
        await session.files.write("/file", b"kept")
        before = await session.call(list_directory, recursive=True)
        with pytest.raises(FileError):
            await session.call(write_file, path=path, content="x")
        assert await session.call(list_directory, recursive=True) == before


@pytest.mark.spec("P23")
async def test_deleting_says_whether_anything_went() -> None:
    async with session_of(session_file_system, *FILES) as session:
        await session.files.write("/a.txt", b"")
        assert await session.call(delete_file, path="//a.txt") == {"path": "/a.txt", "deleted": True}
        assert await session.call(delete_file, path="/a.txt") == {"path": "/a.txt", "deleted": False}
        assert await session.call(delete_file, path="/no/such/tree", recursive=True) == {
            "path": "/no/such/tree",
            "deleted": False,
        }


@pytest.mark.spec("P23")
async def test_a_full_directory_needs_recursive() -> None:
    async with session_of(session_file_system, *FILES) as session:
        await session.files.write("/d/e/f", b"")
        await session.files.write("/dd", b"")
        with pytest.raises(FileError, match="recursive"):
            await session.call(delete_file, path="/d")
        assert (await session.call(delete_file, path="/d/e/f"))["deleted"]
        assert (await session.call(delete_file, path="/d/e"))["deleted"]
        await session.files.write("/d/e/f", b"")
        assert (await session.call(delete_file, path="/d", recursive=True))["deleted"]
        listing = await session.call(list_directory, recursive=True)
    assert [entry["path"] for entry in listing["entries"]] == ["/dd"]


@pytest.mark.spec("P23")
async def test_the_root_is_emptied_but_stays() -> None:
    async with session_of(session_file_system, *FILES) as session:
        await session.files.write("/d/f", b"")
        with pytest.raises(FileError, match="recursive"):
            await session.call(delete_file, path="/")
        assert await session.call(delete_file, path="/", recursive=True) == {"path": "/", "deleted": True}
        assert (await session.call(list_directory))["count"] == 0
        assert await session.call(delete_file, path="/", recursive=True) == {"path": "/", "deleted": False}
        assert (await session.call(stat_file, path="/"))["exists"]


@pytest.mark.spec("G10")
async def test_changing_needs_the_permission_to_write() -> None:
    async with session_of(session_file_system, READ) as session:
        with pytest.raises(PermissionDenied, match="session_files:write"):
            await session.call(write_file, path="/a", content="")
        with pytest.raises(PermissionDenied, match="session_files:write"):
            await session.call(delete_file, path="/a")


@pytest.mark.spec("P25")
async def test_a_session_never_sees_the_files_of_another() -> None:
    agent, principal = Agent("tester", uses=[session_file_system]), Principal("user-1", permissions=FILES)
    async with (
        Kernel(store="memory://") as kernel,
        kernel.open(agent, principal=principal) as session,
        kernel.open(agent, principal=principal) as other,
    ):
        await session.call(write_file, path="/mine", content="secret")
        assert not (await other.call(stat_file, path="/mine"))["exists"]
        assert (await other.call(list_directory, recursive=True))["count"] == 0
        assert not (await other.call(delete_file, path="/mine"))["deleted"]
        assert (await session.call(read_file, path="/mine"))["content"] == "secret"
