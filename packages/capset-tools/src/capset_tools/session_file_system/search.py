"""Text search for a model's pattern, in linear time by RE2 (spec 5, P24)."""

from __future__ import annotations

import asyncio
import re
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Protocol, cast

from pydantic import Field
from typing_extensions import TypedDict

from capset import Context, ToolError, tool
from capset.ext import FileStat, slot
from capset_tools.session_file_system.content import text_of
from capset_tools.session_file_system.read import parts_of

LINE_CHARACTERS: Final = 500
"""A longer line is cut to this length, around the match."""
_LEAD: Final = 100
_MEMORY: Final = 2 << 20
"""Maximum bytes of a compiled pattern; the library caches the 128 used last."""


class FoundLines(Protocol):
    """A match; its position is in bytes."""

    def start(self) -> int: ...


class Regex(Protocol):
    """A pattern compiled by google-re2, which has no type annotations; only the used part of its interface."""

    def search(self, text: bytes, pos: int = 0) -> FoundLines | None: ...
    def fullmatch(self, text: bytes) -> FoundLines | None: ...


@dataclass(frozen=True, slots=True)
class LineHit:
    """A matching line. ``line`` and ``column`` count from 1, columns in characters."""

    line: int
    column: int
    text: str
    before: tuple[str, ...]
    after: tuple[str, ...]


def compile_pattern(pattern: str) -> Regex:
    """Compile a pattern that matches within lines, with ``^`` and ``$`` as their ends.

    Raises ``ToolError`` if it is malformed, or takes too much memory.
    """
    return compile_re2("pattern", pattern, "(?m)", never_nl=True)


def compile_re2(what: str, pattern: str, prefix: str = "", **options: bool) -> Regex:
    """Compile ``prefix + pattern`` with RE2's ``options``. Raises ``ToolError``, whose message begins with ``what``."""
    import re2  # pyright: ignore[reportMissingTypeStubs]

    untyped = cast("Any", re2)
    chosen = untyped.Options()
    chosen.log_errors = False
    chosen.max_mem = _MEMORY
    for name, value in options.items():
        setattr(chosen, name, value)
    try:
        return cast("Regex", untyped.compile(prefix + pattern, chosen))
    except untyped.error as error:
        why = error.args[0].decode(errors="replace").replace(f": {prefix}", ": ", 1)
        raise ToolError(
            f"{what} is not a valid RE2 expression (no look-around, no back-references): {why}",
            code="invalid_pattern",
        ) from None


def hits(regex: Regex, data: bytes, context: int) -> Iterator[LineHit]:
    """Yield each matching line of UTF-8 text once, at its first match, with ``context`` lines before and after."""
    if data:
        # A line end at the end of the file does not begin another line; a carriage return is not part of its line.
        data = data.replace(b"\r\n", b"\n").removesuffix(b"\n")
        yield from _hits(regex, data, context, 0, len(data) + 1, 1)


def _hits(regex: Regex, data: bytes, context: int, position: int, stop: int, line: int) -> Iterator[LineHit]:
    """Yield the matching lines that begin before ``stop``, starting at ``position``, where line ``line`` begins."""
    while position < stop and (match := regex.search(data, position)) is not None:
        begin = max(data.rfind(b"\n", position, match.start()) + 1, position)
        if begin >= stop:
            return
        end = _line_end(data, begin)
        line += data.count(b"\n", position, begin)
        # A zero-width match may lie inside a character; its column is that of the character.
        column = len(data[begin : match.start()].decode(errors="ignore")) + 1
        yield LineHit(
            line,
            column,
            _cut(data[begin:end].decode(), column),
            tuple(_lines_before(data, begin, context)),
            tuple(_lines_after(data, end, context)),
        )
        position = end + 1
        line += 1


def _lines_before(data: bytes, begin: int, count: int) -> list[str]:
    lines: list[str] = []
    while begin > 0 and len(lines) < count:
        end, begin = begin - 1, data.rfind(b"\n", 0, begin - 1) + 1
        lines.insert(0, _cut(data[begin:end].decode()))
    return lines


def _lines_after(data: bytes, end: int, count: int) -> list[str]:
    lines: list[str] = []
    while end < len(data) and len(lines) < count:
        begin, end = end + 1, _line_end(data, end + 1)
        lines.append(_cut(data[begin:end].decode()))
    return lines


def _line_end(data: bytes, begin: int) -> int:
    end = data.find(b"\n", begin)
    return len(data) if end < 0 else end


def _cut(text: str, column: int = 1) -> str:
    if len(text) <= LINE_CHARACTERS:
        return text
    begin = max(0, min(column - 1 - _LEAD, len(text) - LINE_CHARACTERS))
    end = begin + LINE_CHARACTERS
    return ("…" if begin else "") + text[begin:end] + ("…" if end < len(text) else "")


_TOKEN: Final = re.compile(r"(?P<levels>(?<![^/])\*\*/)|(?P<all>\*\*)|\[(?P<set>!?\]?[^\]]*)\]|(?P<one>.)", re.DOTALL)
_ONE: Final = {"*": "[^/]*", "?": "[^/]"}


def path_filter(glob: str | None) -> Callable[[str], bool]:
    """Return a test for normalised paths. Raises ``ToolError`` for a malformed glob.

    A glob without a slash is matched against base names, any other against whole paths from the root. ``*`` and ``?``
    stop at slashes, ``**`` does not; ``[ab]``, ``[!ab]`` and ``{one,two}`` are supported. Matching is case-sensitive.
    """
    if glob is None:
        return lambda _: True
    is_whole_path = "/" in glob
    regex = compile_re2(
        f"path_pattern {glob!r}",
        translate(glob if glob.startswith("/") or not is_whole_path else f"/{glob}"),
        dot_nl=True,
    )
    if is_whole_path:
        return lambda path: regex.fullmatch(path.encode()) is not None
    return lambda path: regex.fullmatch(path.rpartition("/")[2].encode()) is not None


def translate(glob: str) -> str:
    """Translate a glob to an RE2 expression. Raises ``ToolError`` for unbalanced braces."""
    parts: list[str] = []
    depth = 0
    for token in _TOKEN.finditer(glob):
        character = token["one"]
        depth += (character == "{") - (character == "}")
        if depth < 0:
            break
        if token["levels"]:
            parts.append("(?:.*/)?")
        elif token["all"]:
            parts.append(".*")
        elif token["set"] is not None:
            parts.append(_set(token["set"]))
        elif character in ("{", "}"):
            parts.append("(?:" if character == "{" else ")")
        elif character == "," and depth:
            parts.append("|")
        else:
            parts.append(_ONE.get(character, re.escape(character)))
    if depth:
        raise ToolError(f"path_pattern {glob!r}: braces must be paired, as in *.{{md,txt}}", code="invalid_pattern")
    return "".join(parts)


def _set(members: str) -> str:
    negated = members.startswith("!")
    escaped = re.sub(r"[\\\[\]^&~|]", r"\\\g<0>", members.removeprefix("!"))
    return f"[^/{escaped}]" if negated else f"[{escaped}]"


BATCH_BYTES: Final = 8 << 20
"""How many bytes of files are in memory at once. A larger file is read in parts, and is skipped if a line with its
context is longer."""
BATCH_FILES: Final = 500
BATCHES: Final = 2
"""How many batches all searches of a process have in memory at once."""

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
    files_skipped: Annotated[
        int,
        Field(description="How many were passed over because they are not UTF-8 text, or their lines are too long."),
    ]


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
    search = LineSearch(compile_pattern(pattern), context_lines, max_matches)
    is_selected = path_filter(path_pattern)
    stats = await ctx.files.list("/", recursive=True)
    for batch in batched([stat for stat in stats if not stat.is_directory and is_selected(stat.path)]):
        async with slot(ctx, "grep_files", at_once=BATCHES):
            # Matching takes CPU time, but RE2 lets other threads run. Between batches, the call can be cancelled.
            if batch[0].size_bytes > BATCH_BYTES:
                await _search_large(ctx, batch[0], search)
            else:
                files = await ctx.files.read_many([stat.path for stat in batch])
                await asyncio.to_thread(search.look_at, files)
                del files  # before the next ones are read
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


class LineSearch:
    """The results of one search so far."""

    def __init__(self, regex: Regex, context: int, max_matches: int) -> None:
        self._regex = regex
        self.context = context
        self._most = max_matches
        self.matches: list[GrepMatch] = []
        self.truncated = False
        self.searched = 0
        self.skipped = 0

    def look_at(self, files: Sequence[tuple[FileStat, bytes]]) -> None:
        """Search these files until there are too many matches."""
        for stat, data in files:
            if text_of(data) is None:
                self.skipped += 1
                continue
            self.searched += 1
            if not self.add(stat.path, hits(self._regex, data, self.context)):
                return

    def hits_between(self, data: bytes, start: int, stop: int, line: int) -> Iterator[LineHit]:
        """Yield the matching lines that begin before ``stop``, starting at ``start``, where line ``line`` begins."""
        return _hits(self._regex, data, self.context, start, stop, line)

    def add(self, path: str, line_hits: Iterable[LineHit]) -> bool:
        """Add the matching lines of a file, and return whether there was room for all."""
        for hit in line_hits:
            if len(self.matches) == self._most:
                self.truncated = True
                return False
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
        return True


async def _search_large(ctx: Context, stat: FileStat, search: LineSearch) -> None:
    """Search a file in parts. Skips a file that turns out not to be text, or has lines that are too long."""
    matched = len(search.matches)
    window = LineWindow(search, stat.path)
    async for data, is_last in parts_of(ctx, stat):
        if not await asyncio.to_thread(window.feed, data, final=is_last):
            break
    if window.is_searched:
        search.searched += 1
    else:
        del search.matches[matched:]
        search.skipped += 1


class LineWindow:
    """The lines of a large file that are in memory: those that are searched next, and their context."""

    def __init__(self, search: LineSearch, path: str) -> None:
        self._search = search
        self._path = path
        self._decoder = getincrementaldecoder("utf-8")()
        self._lines: bytes = b""
        self._rest: bytes = b""  # of a line whose end was not read yet
        self._position = 0
        self._line = 1
        self.is_searched = True
        """Whether the file is UTF-8 text so far, without lines that do not fit into memory."""

    def feed(self, data: bytes, *, final: bool) -> bool:
        """Search the lines that are complete, with their context. Return whether to continue."""
        try:
            self.is_searched = "\0" not in self._decoder.decode(data, final)
        except UnicodeDecodeError:
            self.is_searched = False
        if not self.is_searched:
            return False
        self._rest += data
        end = len(self._rest) if final else self._rest.rfind(b"\n") + 1
        self._lines += self._rest[:end].replace(b"\r\n", b"\n")
        self._rest = self._rest[end:]
        if final:
            if self._position == len(self._lines):
                return False
            self._lines = self._lines.removesuffix(b"\n")
            stop = len(self._lines) + 1
        else:
            stop = self._back(len(self._lines), self._search.context)
        if stop > self._position:
            line_hits = self._search.hits_between(self._lines, self._position, stop, self._line)
            if not self._search.add(self._path, line_hits):
                return False
            self._line += self._lines.count(b"\n", self._position, stop)
            first = self._back(stop, self._search.context)
            self._lines, self._position = self._lines[first:], stop - first
        self.is_searched = len(self._lines) + len(self._rest) <= BATCH_BYTES
        return self.is_searched

    def _back(self, position: int, lines: int) -> int:
        """Return the beginning of the line that is ``lines`` lines before the one that begins at ``position``."""
        for _ in range(lines):
            position = self._lines.rfind(b"\n", 0, max(position - 1, 0)) + 1
        return position


def batched(files: Iterable[FileStat]) -> Iterator[list[FileStat]]:
    """Yield the files, in order, in batches that fit into memory, each with at least one file."""
    batch: list[FileStat] = []
    size = 0
    for stat in files:
        if batch and (size + stat.size_bytes > BATCH_BYTES or len(batch) == BATCH_FILES):
            yield batch
            batch, size = [], 0
        batch.append(stat)
        size += stat.size_bytes
    if batch:
        yield batch
