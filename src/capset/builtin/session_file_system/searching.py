"""The tool that searches in files: grep_files (spec 5, P24)."""

from __future__ import annotations

import asyncio
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from capset import Context, tool
from capset.builtin.session_file_system.content import text_of
from capset.builtin.session_file_system.globbing import path_filter
from capset.builtin.session_file_system.matching import Regex, compile_pattern, hits
from capset.ext import FileError, Files

Glob = Annotated[str, Field(min_length=1, max_length=1000)]


class GrepMatch(TypedDict):
    path: Annotated[str, Field(description="The file.")]
    line: Annotated[int, Field(description="The line's number, from 1; read_file with offset line - 1 begins there.")]
    column: Annotated[int, Field(description="Where the first match in the line begins, in characters from 1.")]
    text: Annotated[str, Field(description="The line; of one over 500 characters the part around the match, with …")]
    before: Annotated[list[str], Field(description="The lines before it, as many as context_lines says.")]
    after: Annotated[list[str], Field(description="The lines after it.")]


class GrepResult(TypedDict):
    pattern: Annotated[str, Field(description="The pattern that was searched for.")]
    matches: Annotated[list[GrepMatch], Field(description="The matching lines, by path, then by line.")]
    match_count: Annotated[int, Field(description="How many matching lines are listed.")]
    truncated: Annotated[bool, Field(description="Whether there are more than are listed.")]
    files_searched: Annotated[int, Field(description="How many text files were looked at.")]
    files_skipped: Annotated[int, Field(description="How many were passed over because they are not UTF-8 text.")]


@tool(effect="read", permissions={"session_files:read"})
async def grep_files(
    ctx: Context,
    pattern: Annotated[str, Field(min_length=1, max_length=1000)],
    path_pattern: Glob | None = None,
    context_lines: Annotated[int, Field(ge=0, le=20)] = 0,
    max_matches: Annotated[int, Field(ge=1, le=1000)] = 100,
) -> GrepResult:
    """Search the text files of this session for lines that match a regular expression.

    Use it to find where something is said or defined, instead of reading file after file. Each matching line
    is listed once.

    Args:
        pattern: RE2 regular expression, matched within lines: no look-around, no back-references. Begin it
            with (?i) to ignore case.
        path_pattern: Glob of the files to search; all if left out. Without a slash it is matched with file
            names (*.txt, *.{md,py}), otherwise with whole paths (/docs/*.md; /docs/**/*.md for any depth).
        context_lines: How many lines to show before and after each match.
        max_matches: How many matching lines to list at most.
    """
    search = _Search(compile_pattern(pattern), context_lines, max_matches)
    wanted = path_filter(path_pattern)
    for stat in await ctx.files.list("/", recursive=True):
        if stat.is_directory or not wanted(stat.path):
            continue
        data = await _content(ctx.files, stat.path)
        if data is None:
            continue
        # Matching is heavy, and RE2 lets other threads run; between files the call can be cancelled.
        await asyncio.to_thread(search.look_at, stat.path, data)
        if search.truncated:
            break
    return GrepResult(
        pattern=pattern,
        matches=search.matches,
        match_count=len(search.matches),
        truncated=search.truncated,
        files_searched=search.searched,
        files_skipped=search.skipped,
    )


class _Search:
    """What one search has found so far."""

    def __init__(self, regex: Regex, context: int, most: int) -> None:
        self._regex = regex
        self._context = context
        self._most = most
        self.matches: list[GrepMatch] = []
        self.truncated = False
        self.searched = 0
        self.skipped = 0

    def look_at(self, path: str, data: bytes) -> None:
        if text_of(data) is None:
            self.skipped += 1
            return
        self.searched += 1
        for hit in hits(self._regex, data, self._context):
            if len(self.matches) == self._most:
                self.truncated = True
                return
            self.matches.append(
                GrepMatch(
                    path=path,
                    line=hit.line,
                    column=hit.column,
                    text=hit.text,
                    before=list(hit.before),
                    after=list(hit.after),
                )
            )


async def _content(files: Files, path: str) -> bytes | None:
    """Return a listed file's content; ``None`` if it has gone, or become a directory, since it was listed."""
    try:
        return (await files.read(path))[1]
    except FileError:
        now = await files.stat(path)
        if now is None or now.is_directory:
            return None
        raise
