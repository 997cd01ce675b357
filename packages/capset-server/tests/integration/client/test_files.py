"""A session's files through the client."""

from __future__ import annotations

from functools import partial

import pytest

from capset.errors import FileError, NotFound, PermissionDenied, VersionMismatch
from capset_server.client import Client
from tests.helpers.client.fixtures import Served

ODD = [
    "/a b.txt", "/ä/日本/😀", "/50%.txt", "/%2F", "/%2e%2e", "/a#b", "/a?b=c&d", "/...", "/.a", "/a+b=c;d,e@f:g",
    "/a\\b", "/ ", "/\t", "/'\"<>|*~^`{}[]", "/e\u0301", "/" + "x" * 900, "/files/", "//twice//./slashed",
]  # fmt: skip


@pytest.mark.parametrize("path", ODD)
async def test_a_name_is_kept_whatever_it_is(boss: Client, session: str, path: str) -> None:
    saved = await boss.files.write(session, path, path.encode(), version=0)
    assert (saved.created, saved.file.version) == (True, 1)
    content = await boss.files.read(session, path)
    assert (content.content, content.version) == (path.encode(), 1)
    paths = [entry.path for entry in (await boss.files.folder(session, recursive=True)).items if not entry.is_directory]
    assert paths == [saved.file.path]
    assert saved.file.path == "/" + "/".join(part for part in path.split("/") if part not in ("", "."))
    await boss.files.delete(session, path)
    with pytest.raises(FileError, match="there is no file") as caught:
        await boss.files.read(session, path)
    assert caught.value.status == 404


@pytest.mark.parametrize("path", ["/\n", "/a\n", "/a\nb"])
async def test_a_new_line_is_part_of_a_name(boss: Client, session: str, path: str) -> None:
    await boss.files.write(session, "/a", b"")
    assert (await boss.files.write(session, path, b"x", version=0)).file.path == path


@pytest.mark.parametrize("path", ["a.txt", "", "/../a", "/a/..", "/a\0", "/\udcff", "/" + "x" * 1024, "/x" * 65])
async def test_a_path_that_cannot_be_is_not_asked_for(boss: Client, session: str, path: str) -> None:
    for method in (boss.files.read, boss.files.folder, partial(boss.files.write, content=b""), boss.files.delete):
        with pytest.raises(FileError):
            await method(session, path)


async def test_every_byte_is_kept(boss: Client, session: str) -> None:
    for content in (bytes(range(256)) * 4_000, b""):
        await boss.files.write(session, "/all", content)
        assert (await boss.files.read(session, "/all")).content == content


async def test_a_version_that_is_expected(boss: Client, session: str) -> None:
    for version in (0, 1, None):
        await boss.files.write(session, "/a", b"x", version=version)
    assert (await boss.files.read(session, "/a")).version == 3
    for version in (0, 2, 4):
        with pytest.raises(VersionMismatch):
            await boss.files.write(session, "/a", b"lost", version=version)
    with pytest.raises(VersionMismatch):
        await boss.files.delete(session, "/a", version=2)
    assert (await boss.files.read(session, "/a")).content == b"x"
    await boss.files.delete(session, "/a", version=3)


async def test_folders(boss: Client, session: str) -> None:
    assert (await boss.files.folder(session)).items == []
    for path in ("/b/c/d", "/b/a", "/e"):
        await boss.files.write(session, path, b"x")
    assert [entry.path for entry in (await boss.files.folder(session)).items] == ["/b", "/e"]
    below = await boss.files.folder(session, "/b/", recursive=True)
    assert (below.path, [entry.path for entry in below.items]) == ("/b", ["/b/a", "/b/c", "/b/c/d"])
    for method, path in ((boss.files.read, "/b"), (boss.files.folder, "/e"), (boss.files.folder, "/z")):
        with pytest.raises(FileError, match=f"'{path}'"):
            await method(session, path)
    with pytest.raises(FileError):
        await boss.files.delete(session, "/b")
    await boss.files.delete(session, "/b", recursive=True)
    await boss.files.delete(session, "/", recursive=True)
    assert (await boss.files.folder(session)).items == []


async def test_whose_they_are(served: Served, boss: Client, session: str) -> None:
    await boss.files.write(session, "/a", b"x")
    async with Client(served.url, key=served.ada) as ada:
        with pytest.raises(NotFound, match="there is no session"):
            await ada.files.read(session, "/a")
        own_session = await ada.sessions.create("foreman")
        with pytest.raises(PermissionDenied, match="lacks the permission session_files:write"):
            await ada.files.write(own_session.id, "/a", b"x")
