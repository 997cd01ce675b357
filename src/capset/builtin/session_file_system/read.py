"""The tools that inspect a file or a directory: read_file, stat_file, list_directory (spec 5, P22, P23)."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Final, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from capset import Context, tool
from capset.builtin.session_file_system.content import Encoding, TextUnit, Unit, part_of
from capset.ext import FileStat, normalise_path

INLINE_BYTES: Final = 1 << 20
"""Files above this size are cut in a worker thread, so that they do not hold up other calls."""


class _File(TypedDict):
    path: Annotated[str, Field(description="The file's normalised path.")]
    size_bytes: Annotated[int, Field(description="The size of the whole file.")]
    version: Annotated[int, Field(description="The file's version: each write makes it grow.")]


class FileContent(_File):
    content: Annotated[str, Field(description="The part that was asked for, in `encoding`.")]
    encoding: Annotated[Encoding, Field(description="text, or base64 if the file is not UTF-8 text.")]
    unit: Annotated[
        Unit,
        Field(description="What the three numbers below count: lines, or characters where one is too long, or bytes."),
    ]
    offset: Annotated[int, Field(description="Where `content` begins.")]
    total: Annotated[int, Field(description="The length of the whole file.")]
    next_offset: Annotated[
        int | None,
        Field(description="The offset to go on with, in the same file and `unit`; null at the end of the file."),
    ]


class DirectoryEntry(TypedDict):
    path: Annotated[str, Field(description="The entry's path.")]
    name: Annotated[str, Field(description="The last part of the path.")]
    is_directory: Annotated[bool, Field(description="Whether it is a directory, and not a file.")]
    is_readonly: Annotated[bool, Field(description="Whether it can be read only, as what a capability brings.")]
    size_bytes: Annotated[int, Field(description="The file's size; 0 for a directory.")]
    modified_at: Annotated[str, Field(description="ISO 8601, UTC.")]


class DirectoryListing(TypedDict):
    path: Annotated[str, Field(description="The directory's normalised path.")]
    entries: Annotated[
        list[DirectoryEntry],
        Field(description="What it holds: directories first, then by name; by path when recursive."),
    ]
    count: Annotated[int, Field(description="How many entries there are.")]


class FileStatus(TypedDict):
    path: Annotated[str, Field(description="The normalised path.")]
    name: Annotated[str, Field(description="The last part of the path.")]
    exists: Annotated[bool, Field(description="Whether there is anything; if not, no other field follows.")]
    is_directory: NotRequired[Annotated[bool, Field(description="Whether it is a directory, and not a file.")]]
    is_readonly: NotRequired[
        Annotated[bool, Field(description="Whether it can be read only, as what a capability brings.")]
    ]
    size_bytes: NotRequired[Annotated[int, Field(description="The file's size; 0 for a directory.")]]
    version: NotRequired[Annotated[int, Field(description="Of a file: each write makes it grow.")]]
    created_at: NotRequired[Annotated[str, Field(description="ISO 8601, UTC.")]]
    modified_at: NotRequired[Annotated[str, Field(description="ISO 8601, UTC.")]]


@tool(effect="read", permissions={"session_files:read"})
async def read_file(
    ctx: Context,
    path: str,
    offset: Annotated[int, Field(ge=0)] = 0,
    limit: Annotated[int, Field(ge=1)] | None = None,
    unit: TextUnit | None = None,
) -> FileContent:
    """Read a file of this session. Use it before you change a file, and to look around what grep_files found.

    Text comes as it is, anything else as base64. What is too large for one result comes in parts: where
    next_offset is not null, go on with offset = next_offset and, if the result counts characters, unit = characters.

    Args:
        path: Absolute path, such as /docs/readme.txt.
        offset: How many lines to skip, or bytes if the file is not text.
        limit: How many lines, or bytes, to return at most; as many as there is room for if left out.
        unit: What offset and limit count in a text: lines, which is the default, or characters.
    """
    stat, data = await ctx.files.read(path)
    size = len(data)
    # Whatever the part turns out to be, what stands around its content takes no more than this.
    empty = FileContent(
        **_about(stat), content="", encoding="base64", unit="characters", offset=size, total=size, next_offset=size
    )
    room = ctx.result_bytes - len(json.dumps(empty, ensure_ascii=False).encode())
    if size > INLINE_BYTES:
        part = await asyncio.to_thread(part_of, data, offset, limit, unit, room=room)
    else:
        part = part_of(data, offset, limit, unit, room=room)
    return FileContent(
        **_about(stat),
        content=part.content,
        encoding=part.encoding,
        unit=part.unit,
        offset=part.offset,
        total=part.total,
        next_offset=part.next if part.next < part.total else None,
    )


@tool(effect="read", permissions={"session_files:read"})
async def stat_file(ctx: Context, path: str) -> FileStatus:
    """Get what is known of a file or directory without reading it: its kind, its size, its times.

    Use it to find out whether something exists, which is no error if not, or how large it is before you read it.

    Args:
        path: Absolute path of the file or directory.
    """
    stat = await ctx.files.stat(path)
    if stat is None:
        where = normalise_path(path)
        return FileStatus(path=where, name=where.rpartition("/")[2], exists=False)
    told = FileStatus(
        path=stat.path,
        name=stat.name,
        exists=True,
        is_directory=stat.is_directory,
        is_readonly=stat.is_readonly,
        size_bytes=stat.size_bytes,
        created_at=stat.created_at,
        modified_at=stat.modified_at,
    )
    return told if stat.is_directory else {**told, "version": stat.version}


@tool(effect="read", permissions={"session_files:read"})
async def list_directory(ctx: Context, path: str = "/", recursive: bool = False) -> DirectoryListing:
    """List the files and directories at a path. Use it first, to learn what there is.

    Args:
        path: Absolute path of the directory; the root if left out.
        recursive: Whether to list everything below it, not only its own entries.
    """
    entries = [_entry(stat) for stat in await ctx.files.list(path, recursive=recursive)]
    return DirectoryListing(path=normalise_path(path), entries=entries, count=len(entries))


def _about(stat: FileStat) -> _File:
    return _File(path=stat.path, size_bytes=stat.size_bytes, version=stat.version)


def _entry(stat: FileStat) -> DirectoryEntry:
    return DirectoryEntry(
        path=stat.path,
        name=stat.name,
        is_directory=stat.is_directory,
        is_readonly=stat.is_readonly,
        size_bytes=stat.size_bytes,
        modified_at=stat.modified_at,
    )
