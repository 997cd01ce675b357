from __future__ import annotations

import pytest

from capset import Session
from capset.errors import FileError, PermissionDenied
from capset_tools.session_file_system import session_file_system
from capset_tools.session_file_system.write import move_file
from tests.helpers.tools.support import FILES, session_of

WRITE = FILES[1]


async def paths(session: Session) -> list[str]:
    return [stat.path for stat in await session.files.list("/", recursive=True) if not stat.is_directory]


@pytest.mark.spec("P22")
async def test_a_file_gets_another_name_and_keeps_its_content() -> None:
    async with session_of(session_file_system, WRITE) as session:
        await session.files.write("/a.txt", b"hello")
        moved = await session.call(move_file, source="//a.txt", target="/new/place/b.txt/")
        assert moved == {"source": "/a.txt", "path": "/new/place/b.txt", "is_directory": False, "size_bytes": 5}
        assert await paths(session) == ["/new/place/b.txt"]
        assert (await session.files.read("/new/place/b.txt"))[1] == b"hello"


@pytest.mark.spec("P22")
async def test_a_directory_moves_with_all_that_is_in_it() -> None:
    async with session_of(session_file_system, WRITE) as session:
        for path in ("/d/a", "/d/e/b", "/dd"):
            await session.files.write(path, path.encode())
        moved = await session.call(move_file, source="/d", target="/x/y")
        assert moved == {"source": "/d", "path": "/x/y", "is_directory": True, "size_bytes": 0}
        assert await paths(session) == ["/dd", "/x/y/a", "/x/y/e/b"]
        assert (await session.files.read("/x/y/e/b"))[1] == b"/d/e/b"


@pytest.mark.spec("P22")
async def test_a_file_is_replaced_only_where_that_is_asked_for() -> None:
    async with session_of(session_file_system, WRITE) as session:
        await session.files.write("/a", b"a")
        await session.files.write("/b", b"b")
        with pytest.raises(FileError) as refused:
            await session.call(move_file, source="/a", target="/b")
        assert refused.value.status == 409
        assert (await session.files.read("/b"))[1] == b"b"
        await session.call(move_file, source="/a", target="/b", overwrite=True)
        assert await paths(session) == ["/b"]
        assert (await session.files.read("/b"))[1] == b"a"


@pytest.mark.spec("P22", "P23")
@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("/missing", "/x"),
        ("/", "/x"),
        ("/d", "/"),
        ("/d", "/d/e/f"),
        ("/a", "/d"),
        ("/d", "/a"),
        ("/a", "/d/b/c"),
        ("a", "/x"),
        ("/a", "/../x"),
        ("/a", "/x\0"),
        ("/a", "/" + "x" * 1024),
    ],
)
async def test_what_cannot_be_moved_stays_where_it_is(source: str, target: str) -> None:
    async with session_of(session_file_system, WRITE) as session:
        for path in ("/a", "/d/b"):
            await session.files.write(path, b"")
        with pytest.raises(FileError):
            await session.call(move_file, source=source, target=target, overwrite=True)
        assert await paths(session) == ["/a", "/d/b"]


@pytest.mark.spec("G10")
async def test_moving_needs_the_permission_to_write() -> None:
    async with session_of(session_file_system, FILES[0]) as session:
        with pytest.raises(PermissionDenied, match=WRITE):
            await session.call(move_file, source="/a", target="/b")
