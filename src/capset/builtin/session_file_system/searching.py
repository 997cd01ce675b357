"""The tool that searches in files: grep_files (spec 5, P24)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Final

from pydantic import Field
from typing_extensions import TypedDict

from capset import Context, tool
from capset.builtin.session_file_system.content import text_of
from capset.builtin.session_file_system.globbing import path_filter
from capset.builtin.session_file_system.matching import Regex, compile_pattern, hits
from capset.ext import FileStat

BATCH_BYTES: Final = 8 << 20
"""How much of the files is in memory at once; a larger file is there alone."""
BATCH_FILES: Final = 500

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
    listed = await ctx.files.list("/", recursive=True)
    for batch in batched([stat for stat in listed if not stat.is_directory and wanted(stat.path)]):
        files = await ctx.files.read_many(batch)
        # Matching is heavy, and RE2 lets other threads run; between batches the call can be cancelled.
        await asyncio.to_thread(search.look_at, files)
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

    def look_at(self, files: Sequence[tuple[FileStat, bytes]]) -> None:
        """Search in these files, until there are too many matches."""
        for stat, data in files:
            if text_of(data) is None:
                self.skipped += 1
                continue
            self.searched += 1
            for hit in hits(self._regex, data, self._context):
                if len(self.matches) == self._most:
                    self.truncated = True
                    return
                self.matches.append(
                    GrepMatch(
                        path=stat.path,
                        line=hit.line,
                        column=hit.column,
                        text=hit.text,
                        before=list(hit.before),
                        after=list(hit.after),
                    )
                )


def batched(files: Iterable[FileStat]) -> Iterator[list[str]]:
    """Yield the files' paths, in order, as many at once as fit into memory, and one at least."""
    batch: list[str] = []
    size = 0
    for stat in files:
        if batch and (size + stat.size_bytes > BATCH_BYTES or len(batch) == BATCH_FILES):
            yield batch
            batch, size = [], 0
        batch.append(stat.path)
        size += stat.size_bytes
    if batch:
        yield batch
