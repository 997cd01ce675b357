from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset import Session
from capset.errors import InvalidArguments, PermissionDenied, ToolError
from capset.ext import FileStat
from capset_tools.session_file_system import session_file_system
from capset_tools.session_file_system.search import BATCH_BYTES, BATCH_FILES, batched, grep_files
from tests.helpers.tools.session_file_system.support import meddled
from tests.helpers.tools.support import FILES, session_of
from tests.waiting import moment

READ = FILES[0]
POEM = "A rose is\r\na Rose is\r\n\r\nnot a röse, rose\r\n"


async def fill(session: Session, files: Mapping[str, str | bytes]) -> None:
    for path, content in files.items():
        await session.files.write(path, content.encode() if isinstance(content, str) else content)


@pytest.mark.spec("P24")
async def test_matches_have_line_column_and_text() -> None:
    async with session_of(session_file_system, READ) as session:
        await fill(session, {"/poems/rose.txt": POEM})
        report = await session.call(grep_files, pattern="rose")
    match = {"path": "/poems/rose.txt", "before": [], "after": []}
    assert report == {
        "pattern": "rose",
        "matches": [
            {**match, "line": 1, "column": 3, "text": "A rose is"},
            {**match, "line": 4, "column": 13, "text": "not a röse, rose"},
        ],
        "match_count": 2,
        "truncated": False,
        "files_searched": 1,
        "files_skipped": 0,
    }


@pytest.mark.spec("P24")
@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        ("(?i)rose", [1, 2, 4]),
        ("^a", [2]),
        ("is$", [1, 2]),
        ("^$", [3]),
        (r"is\s+a", []),
        ("r.se,", [4]),
        (r"\bis\b", [1, 2]),
        ("[^x]+", [1, 2, 4]),
        ("x*", [1, 2, 3, 4]),
        ("not|A", [1, 4]),
    ],
)
async def test_patterns_match_within_lines(pattern: str, lines: list[int]) -> None:
    async with session_of(session_file_system, READ) as session:
        await fill(session, {"/a": POEM})
        report = await session.call(grep_files, pattern=pattern)
    assert [match["line"] for match in report["matches"]] == lines


@pytest.mark.spec("P24")
async def test_context_lines_surround_a_match() -> None:
    async with session_of(session_file_system, READ) as session:
        await fill(session, {"/a": "1\n2\nx\n4\nx\n6\n"})
        report = await session.call(grep_files, pattern="x", context_lines=2)
    assert [(match["before"], match["after"]) for match in report["matches"]] == [
        (["1", "2"], ["4", "x"]),
        (["x", "4"], ["6"]),
    ]


@pytest.mark.spec("P24")
@pytest.mark.parametrize(
    ("max_matches", "count", "truncated"), [(1, 1, True), (4, 4, True), (5, 5, False), (6, 5, False)]
)
async def test_matches_are_bounded(max_matches: int, count: int, truncated: bool) -> None:
    async with session_of(session_file_system, READ) as session:
        await fill(session, {"/a": "x\nx\n", "/b": "x\nx\nx", "/c": "y"})
        report = await session.call(grep_files, pattern="x", max_matches=max_matches)
    assert (report["match_count"], len(report["matches"]), report["truncated"]) == (count, count, truncated)
    assert report["files_searched"] == (3 if not truncated else 1 if max_matches == 1 else 2)


@pytest.mark.spec("P24")
async def test_a_hundred_matches_are_given_unless_told_otherwise() -> None:
    async with session_of(session_file_system, READ) as session:
        await fill(session, {"/a": "x\n" * 150})
        report = await session.call(grep_files, pattern="x")
    assert (report["match_count"], report["truncated"]) == (100, True)


@pytest.mark.spec("P24")
@pytest.mark.parametrize(
    ("glob", "paths"),
    [
        (None, ["/a.txt", "/docs/b.txt", "/docs/c.md"]),
        ("*.txt", ["/a.txt", "/docs/b.txt"]),
        ("/*.txt", ["/a.txt"]),
        ("/docs/**", ["/docs/b.txt", "/docs/c.md"]),
        ("*.json", []),
    ],
)
async def test_a_glob_chooses_the_files(glob: str | None, paths: list[str]) -> None:
    async with session_of(session_file_system, READ) as session:
        await fill(session, dict.fromkeys(["/docs/c.md", "/docs/b.txt", "/a.txt"], "x"))
        report = await session.call(grep_files, pattern="x", path_pattern=glob)
    assert [match["path"] for match in report["matches"]] == paths
    assert report["files_searched"] == len(paths)


async def test_what_is_not_text_is_passed_over_and_counted() -> None:
    async with session_of(session_file_system, READ) as session:
        await fill(session, {"/bin": b"x\xff", "/nul": b"x\0", "/text": "x", "/empty": ""})
        report = await session.call(grep_files, pattern="x|^$")
    assert [match["path"] for match in report["matches"]] == ["/text"]
    assert (report["files_searched"], report["files_skipped"]) == (2, 2)


@pytest.mark.spec("P24")
@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(abc", r"missing \): \(abc"),
        ("[z-a]", "invalid character class range"),
        ("(?=a)", "no look-around"),
        (r"(a)\1", "no back-references"),
        ("a{1001}", "repetition size"),
        (r"\pL{999}", "too large"),
    ],
)
async def test_a_bad_pattern_is_an_error_that_the_model_reads(
    pattern: str, why: str, capfd: pytest.CaptureFixture[str]
) -> None:
    async with session_of(session_file_system, READ) as session:
        with pytest.raises(ToolError, match=f"^pattern .*{why}") as refused:
            await session.call(grep_files, pattern=pattern)
    assert refused.value.code == "invalid_pattern"
    assert "(?m)" not in refused.value.message
    assert capfd.readouterr().err == ""  # RE2 would log it


@pytest.mark.parametrize("glob", ["*.{md,txt", "a}", "{a}}", "[z-a]"])
async def test_a_bad_glob_is_one_too(glob: str) -> None:
    async with session_of(session_file_system, READ) as session:
        with pytest.raises(ToolError, match=r"^path_pattern ") as refused:
            await session.call(grep_files, pattern="x", path_pattern=glob)
    assert refused.value.code == "invalid_pattern"


@pytest.mark.parametrize(
    "arguments",
    [
        {"pattern": ""},
        {"pattern": "x" * 1001},
        {"pattern": "\ud800"},
        {"path_pattern": "", "pattern": "x"},
        {"path_pattern": "\ud800", "pattern": "x"},
        {"context_lines": 21, "pattern": "x"},
        {"context_lines": -1, "pattern": "x"},
        {"max_matches": 0, "pattern": "x"},
        {"max_matches": 1001, "pattern": "x"},
    ],
)
async def test_arguments_are_bounded(arguments: dict[str, Any]) -> None:
    async with session_of(session_file_system, READ) as session:
        with pytest.raises(InvalidArguments, match=next(iter(arguments))):
            await session.call(grep_files, **arguments)


@pytest.mark.spec("P24")
async def test_hostile_patterns_take_linear_time_and_leave_the_loop_free() -> None:
    async with session_of(session_file_system, READ) as session:
        await fill(session, {"/a": "a" * 2_000_000})
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await moment(0.001)
                ticks += 1

        ticking = asyncio.create_task(tick())
        for pattern in ("(a+)+$b", "(a|aa)+b", "(?:a?){100}a{100}b"):
            assert (await session.call(grep_files, pattern=pattern))["match_count"] == 0
        ticking.cancel()
    assert ticks > 0


@pytest.mark.spec("G10")
async def test_searching_needs_the_permission_to_read() -> None:
    async with session_of(session_file_system) as session:
        with pytest.raises(PermissionDenied, match="session_files:read"):
            await session.call(grep_files, pattern="x")


async def test_a_file_that_goes_during_the_search_is_left_out() -> None:
    async with meddled() as (session, meddling):
        await fill(session, {"/a": "x", "/b": "x", "/c": "x"})
        meddling.before["read_many"] = lambda: session.files.delete("/b")
        report = await session.call(grep_files, pattern="x")
    assert [match["path"] for match in report["matches"]] == ["/a", "/c"]
    assert report["files_searched"] == 2


@pytest.mark.spec("P24")
async def test_a_search_can_be_cancelled_between_batches() -> None:
    async with meddled() as (session, meddling):
        await fill(session, {f"/{number}": "x" for number in range(BATCH_FILES + 1)})
        second = asyncio.Event()

        async def wait() -> None:
            if meddling.asked["read_many"] == 2:
                second.set()
                await asyncio.Event().wait()

        meddling.before["read_many"] = wait
        searching = asyncio.create_task(session.call(grep_files, pattern="nothing like it"))
        await asyncio.wait_for(second.wait(), 60)
        searching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await searching


@pytest.mark.spec("P24")
async def test_files_are_read_by_the_batch_and_no_further_than_needed() -> None:
    async with meddled() as (session, meddling):
        await fill(session, {f"/{number:04}": "x" for number in range(BATCH_FILES + 1)})
        assert (await session.call(grep_files, pattern="x", max_matches=1000))["files_searched"] == BATCH_FILES + 1
        assert meddling.asked["read_many"] == 2
        assert (await session.call(grep_files, pattern="x", max_matches=1))["truncated"]
        assert meddling.asked["read_many"] == 3


@pytest.mark.spec("P24")
async def test_a_file_larger_than_memory_for_it_is_searched_in_parts() -> None:
    lines = b"".join(b"%08d: a line of the log\n" % number for number in range(330_000))
    assert len(lines) > BATCH_BYTES
    async with session_of(session_file_system, READ) as session:
        await fill(
            session,
            {"/a.log": lines, "/b.bin": lines + b"\0", "/c.log": b"x" * (BATCH_BYTES + 1), "/d.txt": "00329998: small"},
        )
        report = await session.call(grep_files, pattern="^0032999[89]", context_lines=1)
        assert [(match["path"], match["line"]) for match in report["matches"]] == [
            ("/a.log", 329_999),
            ("/a.log", 330_000),
            ("/d.txt", 1),
        ]
        assert report["matches"][0]["before"] == ["00329997: a line of the log"]
        assert report["matches"][0]["after"] == ["00329999: a line of the log"]
        assert (report["files_searched"], report["files_skipped"]) == (2, 2)


@given(st.lists(st.integers(0, 2 * BATCH_BYTES) | st.integers(0, BATCH_BYTES // 4), max_size=40))
def test_a_batch_is_no_larger_than_it_must_be(sizes: list[int]) -> None:
    files = [FileStat(f"/{number}", False, size, 1, "", "") for number, size in enumerate(sizes)]
    batches = list(batched(files))
    assert [stat for batch in batches for stat in batch] == files
    for batch in batches:
        assert 0 < len(batch) <= BATCH_FILES
        assert len(batch) == 1 or sum(stat.size_bytes for stat in batch) <= BATCH_BYTES
