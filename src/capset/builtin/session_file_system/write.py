"""The tools that write, move and delete whole files: write_file, move_file, delete_file (spec 5, P22, P23)."""

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
    version: Annotated[int, Field(description="The file's version now.")]


class MovedFile(TypedDict):
    source: Annotated[str, Field(description="The normalised path where it was.")]
    path: Annotated[str, Field(description="The normalised path where it is now.")]
    is_directory: Annotated[bool, Field(description="Whether a directory was moved, with all below it.")]
    size_bytes: Annotated[int, Field(description="The file's size; 0 for a directory.")]


class Deletion(TypedDict):
    path: Annotated[str, Field(description="The normalised path.")]
    deleted: Annotated[bool, Field(description="Whether anything went; false if there was nothing.")]


@tool(effect="write", permissions={"session_files:write"})
async def write_file(
    ctx: Context,
    path: str,
    content: str,
    encoding: Encoding = "text",
    version: Annotated[int, Field(ge=0)] | None = None,
) -> WrittenFile:
    """Create a file, or replace all of it if there is one. Directories on the way are made.

    Use it to keep results, notes and reports. To change a part of a text, edit_file is safer and shorter.

    Args:
        path: Absolute path of the file, such as /reports/summary.md.
        content: What the file shall hold, all of it.
        encoding: text to store content as UTF-8; base64 for the bytes that content stands for.
        version: The version that you read, to be refused if somebody has written since; 0 to be refused if there is
            a file. Left out, the file is replaced whatever it holds.
    """
    stat, created = await ctx.files.write(path, bytes_of(content, encoding), version=version)
    return WrittenFile(path=stat.path, size_bytes=stat.size_bytes, created=created, version=stat.version)


# An overwritten file is lost, as with write_file. G10 calls only deletion destructive, and agents that may not delete
# shall still be able to tidy up.
@tool(effect="write", permissions={"session_files:write"})
async def move_file(ctx: Context, source: str, target: str, overwrite: bool = False) -> MovedFile:
    """Move or rename a file, or a directory with everything in it. Directories on the way are made.

    Use it to rename and to tidy up, instead of writing a copy and deleting the original.

    Args:
        source: Absolute path of what to move.
        target: Absolute path that it shall have, its name included.
        overwrite: Whether to replace a file that stands at target; a directory is never replaced.
    """
    stat = await ctx.files.move(source, target, overwrite=overwrite)
    return MovedFile(
        source=normalise_path(source), path=stat.path, is_directory=stat.is_directory, size_bytes=stat.size_bytes
    )


@tool(effect="destructive", permissions={"session_files:write"})
async def delete_file(ctx: Context, path: str, recursive: bool = False) -> Deletion:
    """Delete a file or directory for good. Use it for what is no longer needed; a missing path is no error.

    Args:
        path: Absolute path. The root itself stays: with recursive it is emptied.
        recursive: Whether to delete a directory with everything in it; without, only an empty one goes.
    """
    gone = await ctx.files.delete(path, recursive=recursive)
    return Deletion(path=normalise_path(path), deleted=gone > 0)
