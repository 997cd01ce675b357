"""The tools that change a session's files: write_file and delete_file (spec 5, P22, P23)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from capset import Context, tool
from capset.builtin.session_file_system.content import Encoding, bytes_of
from capset.ext import normalise_path


class WrittenFile(TypedDict):
    path: Annotated[str, Field(description="The file's normalised path.")]
    size_bytes: Annotated[int, Field(description="The size that was written.")]
    created: Annotated[bool, Field(description="Whether the file is new; false if it was replaced.")]


class Deletion(TypedDict):
    path: Annotated[str, Field(description="The normalised path.")]
    deleted: Annotated[bool, Field(description="Whether anything went; false if there was nothing.")]


@tool(effect="write", permissions={"session_files:write"})
async def write_file(ctx: Context, path: str, content: str, encoding: Encoding = "text") -> WrittenFile:
    """Create a file, or replace all of it if there is one. Directories on the way are made.

    Use it to keep results, notes and reports. To change a file, read it first and write it back whole.

    Args:
        path: Absolute path of the file, such as /reports/summary.md.
        content: What the file shall hold, all of it.
        encoding: text to store content as UTF-8; base64 for the bytes that content stands for.
    """
    stat, created = await ctx.files.write(path, bytes_of(content, encoding))
    return WrittenFile(path=stat.path, size_bytes=stat.size_bytes, created=created)


@tool(effect="destructive", permissions={"session_files:write"})
async def delete_file(ctx: Context, path: str, recursive: bool = False) -> Deletion:
    """Delete a file or directory for good. Use it for what is no longer needed; a missing path is no error.

    Args:
        path: Absolute path. The root itself stays: with recursive it is emptied.
        recursive: Whether to delete a directory with everything in it; without, only an empty one goes.
    """
    gone = await ctx.files.delete(path, recursive=recursive)
    return Deletion(path=normalise_path(path), deleted=gone > 0)
