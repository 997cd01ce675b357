"""The tools that inspect a file or a directory: read_file, stat_file, list_directory (spec 5, P22, P23)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Annotated, Final, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from capset import Context, ToolError, tool
from capset.ext import FileStat, normalise_path, session_file, slot
from capset_tools.session_file_system.content import (
    ContentPart,
    Encoding,
    PartReader,
    TextUnit,
    Unit,
    part_of,
)

PART_BYTES: Final = 1 << 20
"""Larger files are read in parts of this size, which a worker thread decodes."""
LARGE_FILES: Final = 2
"""How many large files all calls of a process read at once; one principal reads at most one."""


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
    path: Annotated[str, Field(json_schema_extra=session_file())],
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
    stat, data = await ctx.files.read(path, size=PART_BYTES)
    size = stat.size_bytes
    # For every kind of part, everything around its content takes at most as many bytes as this.
    empty = FileContent(
        **_about(stat), content="", encoding="base64", unit="characters", offset=size, total=size, next_offset=size
    )
    room = ctx.result_bytes - len(json.dumps(empty, ensure_ascii=False).encode())
    if size > PART_BYTES:
        del data  # free it before waiting for other calls
        part = await _read_large(ctx, stat, PartReader(offset, limit, unit, room), offset)
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
    status = FileStatus(
        path=stat.path,
        name=stat.name,
        exists=True,
        is_directory=stat.is_directory,
        is_readonly=stat.is_readonly,
        size_bytes=stat.size_bytes,
        created_at=stat.created_at,
        modified_at=stat.modified_at,
    )
    return status if stat.is_directory else {**status, "version": stat.version}


@tool(effect="read", permissions={"session_files:read"})
async def list_directory(ctx: Context, path: str = "/", recursive: bool = False) -> DirectoryListing:
    """List the files and directories at a path. Use it first, to learn what there is.

    Args:
        path: Absolute path of the directory; the root if left out.
        recursive: Whether to list everything below it, not only its own entries.
    """
    entries = [_entry(stat) for stat in await ctx.files.list(path, recursive=recursive)]
    return DirectoryListing(path=normalise_path(path), entries=entries, count=len(entries))


async def _read_large(ctx: Context, stat: FileStat, reader: PartReader, offset: int) -> ContentPart:
    async with slot(ctx, "large_files", at_once=LARGE_FILES):
        async for data, is_last in parts_of(ctx, stat):
            await asyncio.to_thread(reader.feed, data, final=is_last)
            if not reader.is_text:
                break
        else:
            return reader.text_part()
        end = reader.end_of_bytes(stat.size_bytes)
        return reader.bytes_part(await read_part(ctx, stat, offset, end - offset), stat.size_bytes)


async def parts_of(ctx: Context, stat: FileStat) -> AsyncGenerator[tuple[bytes, bool]]:
    """Yield a file in parts, each with whether it is the last. Raises ``ToolError`` if the file changes in between."""
    for start in range(0, stat.size_bytes, PART_BYTES):
        yield await read_part(ctx, stat, start, PART_BYTES), start + PART_BYTES >= stat.size_bytes


async def read_part(ctx: Context, stat: FileStat, start: int, size: int) -> bytes:
    """Return a part of a file as it was when ``stat`` was read. Raises ``ToolError`` if it was changed since."""
    current, data = await ctx.files.read(stat.path, start=start, size=size)
    if current.version != stat.version:
        raise ToolError(f"{stat.path!r} was changed while it was read: read it again", code="file_changed", status=409)
    return data


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
