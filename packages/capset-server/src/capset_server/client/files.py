"""The files of a session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from capset.definitions.calls.files import normalise_path
from capset.errors import FileError
from capset.wire.sessions import FileShape, FolderShape, WrittenShape
from capset_server.client.answers import JSON, media_type_of
from capset_server.client.connection import Connection, if_match, path_of, segment


@dataclass(frozen=True, slots=True)
class FileContent:
    """A file's bytes, and their version."""

    content: bytes = field(repr=False)
    version: int


class FileResource:
    """``client.files``; needs the scope ``capset:call``.

    The principal needs the permission ``session_files:read`` or ``session_files:write``. Paths are absolute, such as
    ``/notes/a b.txt``. An invalid one raises ``FileError``.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read(self, session: str, path: str) -> FileContent:
        """Return a file. Raises ``FileError`` if there is none, or it is a folder."""
        response = await self._connection.request("GET", _path(session, path))
        if media_type_of(response) == JSON:
            raise FileError(f"{path!r} is a folder", hint="files.folder() lists it")
        tag = response.headers.get("etag", "").strip('"')
        if not (tag.isascii() and tag.isdigit()):
            raise self._connection.answers.foreign("answered with a file that has no version")
        return FileContent(response.content, int(tag))

    async def folder(self, session: str, path: str = "/", *, recursive: bool = False) -> FolderShape:
        """Return a folder's entries, or everything below it. Raises ``FileError`` if there is none, or it is a file."""
        items = list[FileShape]()
        cursor: str | None = None
        while True:
            page = await self._page(session, path, {"recursive": recursive, "cursor": cursor})
            items += page.items
            if page.next is None:
                return FolderShape(path=page.path, items=items)
            if page.next == cursor:
                raise self._connection.answers.foreign("returned one page of a folder twice")
            cursor = page.next

    async def _page(self, session: str, path: str, query: Mapping[str, Any]) -> FolderShape:
        async with self._connection.head(_path(session, path), query) as response:
            if media_type_of(response) != JSON:
                raise FileError(f"{path!r} is not a folder", hint="files.read() reads it")
            with self._connection.answers.named(safe=True):
                return self._connection.answers.parsed(FolderShape, await response.aread())

    async def write(self, session: str, path: str, content: bytes, *, version: int | None = None) -> WrittenShape:
        """Create or replace a file, and create its parent folders. The server limits its size.

        With ``version``, raises ``VersionMismatch`` unless the file has that version; 0 stands for a missing file.
        Raises ``QuotaExceeded`` if the session has no room for it.
        """
        headers = {"Content-Type": "application/octet-stream", **_if_match(version)}
        return await self._connection.send(WrittenShape, "PUT", _path(session, path), content, headers)

    async def delete(self, session: str, path: str, *, recursive: bool = False, version: int | None = None) -> None:
        """Delete a file or a folder; a folder with entries needs ``recursive``. ``/`` is emptied, but not deleted.

        Raises ``FileError`` if there is none, and ``VersionMismatch`` as ``write`` does.
        """
        await self._connection.delete(_path(session, path), query={"recursive": recursive}, headers=_if_match(version))


def _path(session: str, path: str) -> str:
    parts = [segment(part) for part in normalise_path(path).split("/") if part]
    return "/".join([path_of("sessions", session, "files"), *(parts or [""])])


def _if_match(version: int | None) -> dict[str, str]:
    """Return the header that makes a change depend on a file's version; 0 stands for a missing file."""
    return {"If-None-Match": "*"} if version == 0 else if_match(version)
