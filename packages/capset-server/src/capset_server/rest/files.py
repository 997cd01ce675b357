"""``/v1/sessions/{id}/files/…``: a session's files (spec 5, P11, P15, P25).

These are actions of the principal, not of a tool. They require the permissions of the file tools. Writes and deletions
are recorded as acts; reads appear only in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from os import SEEK_END
from typing import Annotated, Any, BinaryIO, Final

from fastapi import APIRouter, Path, Query, Request, Response
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.types import Receive, Send
from starlette.types import Scope as HttpScope

from capset.definitions.calls.files import FileStat, normalise_path
from capset.definitions.governance.acts import ActName
from capset.errors import Conflict, FileError, PermissionDenied
from capset.kernel.call.session import Session
from capset.kernel.governance.acts import ActColumns, ActEntry
from capset.kernel.governance.file_arguments import ReadFile
from capset.stores.base.files import sha256_of
from capset.wire.sessions import FolderShape, WrittenShape, file_shape, folder_shape
from capset_server.auth.callers import Caller
from capset_server.http.bodies import BrokenOff, DisconnectWatch
from capset_server.http.etags import UNCHANGED, IfMatch, IfNoneMatch, Unless, expected, is_known, tag_of, unchanged
from capset_server.http.request_context import RequestContext, body_of, request_context
from capset_server.http.request_rules import LARGE
from capset_server.rest.routing import Asked, Calls, Id, Served, StrictRoute, problems
from capset_server.service import Service

router = APIRouter(prefix="/sessions", tags=["files"], route_class=StrictRoute)
_BYTES: Final[dict[str, Any]] = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_READ: Final = 1 << 20
"""The bytes of a download that are in memory at once: one part, as databases store them."""
_log = logging.getLogger("capset.server")
FilePath = Annotated[str, Path(description="Without the leading slash; empty for the root", max_length=1024)]


class AnyPath(PathConvertor):
    """A path convertor that accepts line breaks, which file names may contain; Starlette's own does not."""

    regex = "(?s:.*)"


register_url_convertor("file", AnyPath())


class Recursive(Asked):
    """Whether to include everything below."""

    recursive: bool = False


class FolderFilter(Recursive):
    """A page of a folder. ``cursor`` is the ``next`` of the previous page. A page may end before its ``limit``."""

    limit: Annotated[int | None, Query(ge=1, le=1000)] = None
    cursor: Annotated[str | None, Query(max_length=1025, pattern="^/")] = None


@router.get(
    "/{id}/files/{path:file}",
    responses={
        200: {"content": _BYTES, "description": "A file's bytes, or a folder"},
        **UNCHANGED,
        **problems(400, 404, 409, 422),
    },
    operation_id="read_file",
    response_model=FolderShape,
)
async def read_file(
    service: Served,
    caller: Calls,
    id: Id,
    path: FilePath,
    params: Annotated[FolderFilter, Query()],
    request: Request,
    unless: Unless = None,
) -> FolderShape | Response:
    """Return a file's bytes, or the entries of a folder."""
    files = (await allowed_session(service, caller, id, "session_files:read")).files
    place = normalise_path(f"/{path}")
    stat = await files.stat(place)
    if stat is None:
        raise FileError(f"there is no file {place!r}", status=404)
    if stat.is_directory:
        stats = await files.list(place, recursive=params.recursive)
        return folder_shape(place, stats, recursive=params.recursive, limit=params.limit, cursor=params.cursor)
    # A mounted file may differ between versions of the agent, and was never written: it has no version.
    if stat.version and is_known(stat.version, unless):
        return unchanged(stat.version)
    return FileDownload(partial(files.read, place), stat, request_context(request.scope))


class FileDownload(Response):
    """A file's bytes, read part by part while they are sent."""

    def __init__(self, read: ReadFile, stat: FileStat, request_info: RequestContext) -> None:
        self.background = None
        self._read = read
        self._stat = stat
        self._transfer = request_info.guard.transfer if stat.size_bytes > LARGE else nullcontext

    async def __call__(self, scope: HttpScope, receive: Receive, send: Send) -> None:
        """Send the file. Aborts the response if the file changes, so that no client takes it for complete."""
        async with self._transfer():
            with DisconnectWatch(receive):
                await self._send_parts(send)

    async def _send_parts(self, send: Send) -> None:
        stat, part = await self._read(size=_READ)  # an error of the first part can still be answered
        headers = [
            (b"content-type", b"application/octet-stream"),
            (b"content-length", str(stat.size_bytes).encode()),
            (b"content-disposition", b"attachment"),
            (b"etag", tag_of(stat.version).encode()),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        sent = len(part)
        while sent < stat.size_bytes:
            await send({"type": "http.response.body", "body": part, "more_body": True})
            try:
                current, part = await self._read(start=sent, size=_READ)
            except (FileError, Conflict):
                current, part = None, b""
            if current is None or current.version != stat.version or not part:
                _log.warning("a download was aborted, because the file was changed")
                raise BrokenOff
            sent += len(part)
        await send({"type": "http.response.body", "body": part})


@router.put(
    "/{id}/files/{path:file}",
    responses=problems(400, 404, 409, 412, 413, 422),
    openapi_extra={"requestBody": {"required": True, "content": _BYTES}},
    operation_id="write_file",
)
async def write_file(
    service: Served,
    caller: Calls,
    id: Id,
    path: FilePath,
    request: Request,
    response: Response,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> WrittenShape:
    """Create or replace a file, and create its parents. The body is the content."""
    session = await allowed_session(service, caller, id, "session_files:write")
    version = expected(if_match, if_none_match)
    async with body_of(request.scope).file() as file:
        stat, created = await store_file(service, caller, session, f"/{path}", file, version=version)
    response.headers["ETag"] = tag_of(stat.version)
    return WrittenShape(created=created, file=file_shape(stat))


async def store_file(
    service: Service, caller: Caller, session: Session, path: str, file: BinaryIO, *, version: int | None = None
) -> tuple[FileStat, bool]:
    """Write a file of a caller's session, with an act. Return the file and whether it is new. Raises as files do."""
    size = file.seek(0, SEEK_END)
    digest = await asyncio.to_thread(sha256_of, file)
    about = {"path": normalise_path(path), "size": size, "sha256": digest}
    act = _act(service, "file.write", about, session, caller)
    return await session.files.write(path, file, version=version, act=act)


@router.delete(
    "/{id}/files/{path:file}",
    status_code=204,
    responses=problems(400, 404, 409, 412, 422),
    operation_id="delete_file",
)
async def delete_file(
    service: Served,
    caller: Calls,
    id: Id,
    path: FilePath,
    params: Annotated[Recursive, Query()],
    if_match: IfMatch = None,
) -> None:
    """Delete a file or a folder. A non-empty folder requires ``recursive``. The root is emptied, but stays."""
    session = await allowed_session(service, caller, id, "session_files:write")
    place = normalise_path(f"/{path}")
    act = _act(service, "file.delete", {"path": place, "recursive": params.recursive}, session, caller)
    gone = await session.files.delete(place, recursive=params.recursive, version=expected(if_match), act=act)
    if not gone and place != "/":
        raise FileError(f"there is no file {place!r}", status=404)


def _act(service: Service, name: ActName, about: Mapping[str, str | int], session: Session, caller: Caller) -> ActEntry:
    columns: ActColumns = {
        "org": caller.principal.org,
        "session": session.id,
        "agent": session.snapshot.composition.block.name,
        "static_hash": session.snapshot.static_hash,
    }
    return service.kernel.act(name, about, by=caller.principal, **columns)


async def allowed_session(service: Service, caller: Caller, id: str, *permissions: str) -> Session:
    """Return the caller's session. Raises ``NotFound``, and ``PermissionDenied`` if the caller lacks a permission."""
    session = await service.session(caller, id)
    for permission in permissions:
        if permission not in session.snapshot.principal.permissions:
            raise PermissionDenied(f"Permission denied: {caller.principal.id} lacks the permission {permission}")
    return session
