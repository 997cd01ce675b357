from __future__ import annotations

import base64
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset.errors import FileError, InvalidArguments, PermissionDenied, ToolError
from capset_tools.session_file_system import session_file_system
from capset_tools.session_file_system.content import part_of
from capset_tools.session_file_system.read import PART_BYTES, list_directory, read_file, stat_file
from tests.helpers.tools.support import FILES, fields_of, session_of

READ = FILES[0]
LINES = "one\ntwo\r\nthree\u2028still three\n\nfive"


@pytest.mark.spec("P22")
async def test_a_text_comes_whole_as_it_is() -> None:
    async with session_of(session_file_system, READ) as session:
        await session.files.write("/docs/a.txt", LINES.encode())
        part = await session.call(read_file, path="/docs//./a.txt")
    assert part == {
        "path": "/docs/a.txt",
        "content": LINES,
        "encoding": "text",
        "size_bytes": len(LINES.encode()),
        "version": 1,
        "unit": "lines",
        "offset": 0,
        "total": 5,
        "next_offset": None,
    }


@pytest.mark.spec("P22")
@pytest.mark.parametrize(
    "data", [b"\xff\xfe", bytes(range(256)), b"text with a \0", b"\xed\xa0\x80", "é".encode()[:1], b"\x89PNG\r\n"]
)
async def test_what_is_not_text_comes_as_base64(data: bytes) -> None:
    async with session_of(session_file_system, READ) as session:
        await session.files.write("/b", data)
        part = await session.call(read_file, path="/b")
    assert (part["encoding"], part["unit"], part["total"]) == ("base64", "bytes", len(data))
    assert base64.b64decode(part["content"]) == data
    assert part["size_bytes"] == len(data)


@pytest.mark.spec("P23")
@pytest.mark.parametrize(
    ("offset", "limit", "content", "next_offset"),
    [
        (0, 1, "one\n", 1),
        (1, 2, "two\r\nthree\u2028still three\n", 3),
        (3, 1, "\n", 4),
        (4, 1, "five", None),
        (4, 100, "five", None),
        (5, None, "", None),
        (2, None, "three\u2028still three\n\nfive", None),
    ],
)
async def test_offset_and_limit_count_lines_of_text(
    offset: int, limit: int | None, content: str, next_offset: int | None
) -> None:
    async with session_of(session_file_system, READ) as session:
        await session.files.write("/a.txt", LINES.encode())
        part = await session.call(read_file, path="/a.txt", offset=offset, limit=limit)
    assert (part["content"], part["offset"], part["next_offset"]) == (content, offset, next_offset)
    assert part["size_bytes"] == len(LINES.encode())


@pytest.mark.spec("P23")
async def test_offset_and_limit_count_bytes_of_anything_else() -> None:
    async with session_of(session_file_system, READ) as session:
        await session.files.write("/b", b"\xff0123456789")
        part = await session.call(read_file, path="/b", offset=1, limit=4)
    assert base64.b64decode(part["content"]) == b"0123"
    assert (part["encoding"], part["total"], part["next_offset"]) == ("base64", 11, 5)


@pytest.mark.spec("P23")
@pytest.mark.parametrize(("data", "has"), [(b"", "0 lines"), (b"a\nb\n", "2 lines"), (b"\xff" * 2, "2 bytes")])
async def test_an_offset_beyond_the_end_is_an_error(data: bytes, has: str) -> None:
    async with session_of(session_file_system, READ) as session:
        await session.files.write("/f", data)
        with pytest.raises(ToolError, match=f"offset 3 is beyond the end: the file has {has}"):
            await session.call(read_file, path="/f", offset=3)


@pytest.mark.parametrize("data", [b"line\n" * (PART_BYTES // 4), b"\xff" * (PART_BYTES + 1)])
async def test_large_files_are_cut_all_the_same(data: bytes) -> None:
    async with session_of(session_file_system, READ) as session:
        await session.files.write("/large", data)
        part = await session.call(read_file, path="/large", offset=2, limit=1)
    assert part["content"] == ("line\n" if part["encoding"] == "text" else "/w==")
    assert part["next_offset"] == 3


@pytest.mark.spec("P23")
@given(st.binary(max_size=60) | st.text(alphabet="ab\n\r\u2028é\0", max_size=60).map(str.encode), st.integers(1, 20))
def test_the_parts_of_a_file_give_the_file(data: bytes, limit: int) -> None:
    offset, parts = 0, b""
    while True:
        part = part_of(data, offset, limit)
        parts += part.content.encode() if part.encoding == "text" else base64.b64decode(part.content)
        assert 0 <= part.next - offset <= limit
        assert part.total == part_of(data, 0, None).total
        if part.next == part.total:
            break
        assert part.next == offset + limit
        offset = part.next
    assert parts == data


@pytest.mark.parametrize(
    ("arguments", "field"), [({"offset": -1}, "offset"), ({"limit": 0}, "limit"), ({"limit": 1.0}, "limit")]
)
async def test_offset_and_limit_are_checked(arguments: dict[str, Any], field: str) -> None:
    async with session_of(session_file_system, READ) as session:
        with pytest.raises(InvalidArguments) as refused:
            await session.call(read_file, path="/a", **arguments)
    assert list(fields_of(refused.value)) == [field]


@pytest.mark.spec("P22")
@pytest.mark.parametrize("tool", [read_file, stat_file, list_directory])
@pytest.mark.parametrize("path", ["", "a.txt", "/a/../b", "/a\0b", "/\ud800", "/" + "x" * 1024, "/a" * 65])
async def test_paths_that_cannot_be_are_refused(tool: Any, path: str) -> None:
    async with session_of(session_file_system, READ) as session:
        with pytest.raises(FileError, match="path"):
            await session.call(tool, path=path)


async def test_a_missing_file_or_a_directory_cannot_be_read() -> None:
    async with session_of(session_file_system, READ) as session:
        await session.files.write("/docs/a.txt", b"")
        with pytest.raises(FileError, match=re.escape("/docs/b.txt")):
            await session.call(read_file, path="/docs/b.txt")
        with pytest.raises(FileError, match="is a directory"):
            await session.call(read_file, path="/docs")


@pytest.mark.spec("P22")
async def test_paths_are_case_sensitive() -> None:
    async with session_of(session_file_system, READ) as session:
        await session.files.write("/A.txt", b"")
        assert (await session.call(stat_file, path="/A.txt"))["exists"]
        assert not (await session.call(stat_file, path="/a.txt"))["exists"]


@pytest.mark.spec("P23")
async def test_stat_tells_all_of_what_is_there_and_three_things_of_what_is_not() -> None:
    async with session_of(session_file_system, READ) as session:
        stat, _ = await session.files.write("/docs/a.txt", b"12345")
        file = await session.call(stat_file, path="/docs/a.txt")
        directory = await session.call(stat_file, path="/docs/")
        root = await session.call(stat_file, path="/")
        missing = await session.call(stat_file, path="/docs//b.txt/")
    assert file == {
        "path": "/docs/a.txt",
        "name": "a.txt",
        "exists": True,
        "is_directory": False,
        "is_readonly": False,
        "size_bytes": 5,
        "version": 1,
        "created_at": stat.created_at,
        "modified_at": stat.modified_at,
    }
    assert "version" not in directory
    assert directory.items() >= {"path": "/docs", "name": "docs", "exists": True, "is_directory": True}.items()
    assert root.items() >= {"path": "/", "name": "/", "exists": True, "is_directory": True}.items()
    assert missing == {"path": "/docs/b.txt", "name": "b.txt", "exists": False}


@pytest.mark.spec("P23")
async def test_a_listing_has_directories_first_then_names() -> None:
    async with session_of(session_file_system, READ) as session:
        for path in ("/b.txt", "/z/deep/file", "/a.txt", "/y/file"):
            await session.files.write(path, b"123")
        root = await session.call(list_directory)
        below = await session.call(list_directory, path="/z//", recursive=True)
    assert [entry["path"] for entry in root["entries"]] == ["/y", "/z", "/a.txt", "/b.txt"]
    assert (root["path"], root["count"]) == ("/", 4)
    entry = root["entries"][2]
    assert entry["modified_at"].endswith("Z")
    assert entry == {
        "path": "/a.txt",
        "name": "a.txt",
        "is_directory": False,
        "is_readonly": False,
        "size_bytes": 3,
        "modified_at": entry["modified_at"],
    }
    assert [entry["path"] for entry in below["entries"]] == ["/z/deep", "/z/deep/file"]
    assert (below["path"], below["count"]) == ("/z", 2)


async def test_only_a_directory_can_be_listed() -> None:
    async with session_of(session_file_system, READ) as session:
        await session.files.write("/a.txt", b"")
        assert (await session.call(list_directory))["count"] == 1
        for path in ("/a.txt", "/missing"):
            with pytest.raises(FileError, match=path):
                await session.call(list_directory, path=path)


@pytest.mark.spec("G10")
@pytest.mark.parametrize("tool", [read_file, stat_file, list_directory])
async def test_looking_needs_the_permission_to_read(tool: Any) -> None:
    async with session_of(session_file_system, FILES[1]) as session:
        with pytest.raises(PermissionDenied, match="session_files:read"):
            await session.call(tool, path="/")
