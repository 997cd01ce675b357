"""The tools that change files: write_file, move_file, delete_file, edit_file (spec 5, P22, P23)."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

from pydantic import Field
from typing_extensions import TypedDict

from capset import Context, ToolError, tool
from capset.ext import VersionMismatch, normalise_path, session_file, slot
from capset_tools.session_file_system.content import Encoding, bytes_of, text_of, utf8_of
from capset_tools.session_file_system.read import LARGE_FILES, PART_BYTES

_ATTEMPTS: Final = 100
"""How often an edit is attempted in spite of concurrent writes. At each failure, another writer has succeeded."""
_LISTED: Final = 10
MOST_BYTES: Final = 10_000_000
"""Maximum size of an edited file, before and after: replacing a short text everywhere can make it any size."""
_HINTED: Final = 1_000_000
"""Maximum characters of a file that is searched for similar text, which takes many times its memory."""


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


@tool(effect="write", permissions={"session_files:write"}, argument_bytes=16 * 1024 * 1024)
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
# should still be able to tidy up.
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


class EditedFile(TypedDict):
    path: Annotated[str, Field(description="The file's normalised path.")]
    replacements: Annotated[int, Field(description="How many places were replaced.")]
    size_bytes: Annotated[int, Field(description="The file's size now.")]
    version: Annotated[int, Field(description="The file's version now.")]


# Both permissions: its errors reveal content of the file.
@tool(effect="write", permissions={"session_files:read", "session_files:write"})
async def edit_file(
    ctx: Context,
    path: Annotated[str, Field(json_schema_extra=session_file())],
    old_text: Annotated[str, Field(min_length=1)],
    new_text: str,
    replace_all: bool = False,
) -> EditedFile:
    """Replace a piece of text in a file and keep all the rest. Use it for changes, instead of writing a file anew.

    Read the file first. What others write meanwhile is kept: the replacement is made in the file as it is then.

    Args:
        path: Absolute path of a text file.
        old_text: What to replace, exactly as it stands in the file, with enough around it to be there once only.
        new_text: What shall stand in its place; empty to delete it.
        replace_all: Whether to replace it wherever it stands, instead of in one place only.
    """
    if old_text == new_text:
        raise ToolError("old_text and new_text are the same: there is nothing to change", code="nothing_to_change")
    utf8_of("new_text", new_text)
    for _ in range(_ATTEMPTS - 1):
        try:
            return await _edit(ctx, path, old_text, new_text, replace_all)
        except VersionMismatch:  # another writer came between the read and the write
            continue
    return await _edit(ctx, path, old_text, new_text, replace_all)


async def _edit(ctx: Context, path: str, old: str, new: str, every: bool) -> EditedFile:
    stat = await ctx.files.stat(path)
    size = 0 if stat is None else stat.size_bytes
    if stat is not None and size > MOST_BYTES:
        raise _too_large(stat.path, size)
    if size + len(new) <= PART_BYTES and not every:
        stat, data = await ctx.files.read(path)
        content, count = replaced(stat.path, data, old, new, every)
        stat, _ = await ctx.files.write(path, content, version=stat.version)
    else:
        async with slot(ctx, "large_files", at_once=LARGE_FILES):
            stat, data = await ctx.files.read(path)
            content, count = await asyncio.to_thread(replaced, stat.path, data, old, new, every)
            del data
            stat, _ = await ctx.files.write(path, content, version=stat.version)
    return EditedFile(path=stat.path, replacements=count, size_bytes=stat.size_bytes, version=stat.version)


def replaced(path: str, data: bytes, old: str, new: str, every: bool) -> tuple[bytes, int]:
    """Return the file's content after the replacement, and the number of replacements.

    If every line ends in CRLF, both texts are converted to CRLF, unless only the old text contains CRLF: such an edit
    is meant to convert to LF.

    Raises ``ToolError`` if the content is not text, if both texts are then equal, if the old text is missing (the
    message names a similar place, if there is one) or, without ``every``, occurs several times (the message names the
    lines), and if the result would be longer than ``MOST_BYTES``.
    """
    text = text_of(data)
    if text is None:
        raise ToolError(f"{path!r} is not UTF-8 text; write_file can replace all of it", code="not_text")
    feeds = text.count("\n")
    if feeds and text.count("\r\n") == feeds and not _makes_lf(old, new):
        old, new = _crlf(old), _crlf(new)
        if old == new:
            raise ToolError(
                f"old_text and new_text differ only in their line ends, and all lines of {path!r} end in CRLF: there "
                "is nothing to change; to change them to LF, give old_text with CRLF and new_text with LF alone",
                code="nothing_to_change",
            )
    first = text.find(old)
    if first < 0:
        raise ToolError(f"{path!r} does not contain old_text; {_hint(text, old)}", code="text_not_found")
    if not every and text.find(old, first + 1) >= 0:
        raise ToolError(
            f"old_text occurs in {path!r} {_where(text, old)}; add the text around the one that you mean, "
            "or pass replace_all",
            code="text_ambiguous",
        )
    count = text.count(old)
    size = len(data) + count * (len(new.encode()) - len(old.encode()))
    if size > MOST_BYTES:
        raise _too_large(path, size)
    return text.replace(old, new).encode(), count


def _too_large(path: str, size: int) -> ToolError:
    return ToolError(
        f"edit_file takes files of at most {MOST_BYTES:,} bytes, before and after; {path!r} would be one of {size:,}",
        code="too_large",
        status=413,
    )


def _makes_lf(old: str, new: str) -> bool:
    return "\r\n" in old and "\n" in new and "\r\n" not in new


def _crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _where(text: str, old: str) -> str:
    lines: list[int] = []
    line, start, at = 1, 0, text.find(old)
    while at >= 0 and len(lines) < _LISTED:
        line += text.count("\n", start, at)
        lines.append(line)
        start, at = at, text.find(old, at + 1)
    many = "" if at < 0 else " and more"
    return f"{max(text.count(old), len(lines))} times, on lines {', '.join(map(str, lines))}{many}"


def _hint(text: str, old: str) -> str:
    """Return a hint: the line of a text that differs only in white space or case, if there is one."""
    if len(text) > _HINTED:
        return "read the file, and copy the text exactly"
    for difference, fold in (("white space", _bare), ("white space and case", _folded)):
        needle, below = fold(old), fold(text)
        at = below.find(needle) if needle else -1
        if at >= 0:
            for number, line in enumerate(text.split("\n"), 1):
                at -= len(fold(line))
                if at < 0:
                    return f"text that differs from it only in {difference} begins on line {number}: copy it exactly"
    return "read the file, and copy the text exactly"


def _bare(text: str) -> str:
    return "".join(text.split())


def _folded(text: str) -> str:
    return _bare(text).casefold()
