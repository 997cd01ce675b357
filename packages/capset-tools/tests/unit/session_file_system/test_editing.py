from __future__ import annotations

import asyncio
import re
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset import Agent, Kernel, Principal
from capset.definitions.governance.settings import Governance
from capset.errors import FileError, InvalidArguments, PermissionDenied, QuotaExceeded, ToolError, VersionMismatch
from capset_tools.session_file_system import session_file_system
from capset_tools.session_file_system.read import PART_BYTES
from capset_tools.session_file_system.write import edit_file, replaced
from tests.helpers.kernel.support import opened
from tests.helpers.tools.session_file_system.support import meddled
from tests.helpers.tools.support import FILES, session_of

POEM = b"\xef\xbb\xbfA rose is\na rose\n\tis a r\xc3\xb6se.\n\nNot a tulip"
texts = st.text(alphabet="ab \n\r", max_size=30)


@pytest.mark.spec("P22")
async def test_one_piece_is_replaced_and_all_the_rest_is_kept() -> None:
    async with session_of(session_file_system, *FILES) as session:
        await session.files.write("/docs/rose.txt", POEM)
        edited = await session.call(edit_file, path="/docs//rose.txt", old_text="röse.\n\n", new_text="söng;\n")
        stat, content = await session.files.read("/docs/rose.txt")
    assert content == b"\xef\xbb\xbfA rose is\na rose\n\tis a s\xc3\xb6ng;\nNot a tulip"
    assert edited == {
        "path": "/docs/rose.txt",
        "replacements": 1,
        "size_bytes": len(content),
        "version": stat.version,
    }
    assert stat.version == 2


@pytest.mark.spec("P22")
async def test_all_of_them_are_replaced_where_that_is_asked_for() -> None:
    async with session_of(session_file_system, *FILES) as session:
        await session.files.write("/a", b"one two one\none")
        edited = await session.call(edit_file, path="/a", old_text="one", new_text="", replace_all=True)
        assert (edited["replacements"], edited["size_bytes"]) == (3, 6)
        assert (await session.files.read("/a"))[1] == b" two \n"


@given(before=texts, old=texts.filter(bool), after=texts, new=texts)
def test_nothing_but_the_piece_changes(before: str, old: str, after: str, new: str) -> None:
    text = before + old + after
    feeds = text.count("\n")
    if feeds and text.count("\r\n") == feeds:
        return  # whose line ends are taken as its own, see below
    places = [at for at in range(len(text)) if text.startswith(old, at)]
    if len(places) == 1:
        assert replaced("/a", text.encode(), old, new, False) == ((before + new + after).encode(), 1)
    else:
        with pytest.raises(ToolError, match="times, on lines"):
            replaced("/a", text.encode(), old, new, False)
    assert replaced("/a", text.encode(), old, new, True) == (text.replace(old, new).encode(), text.count(old))


@pytest.mark.spec("P22")
@pytest.mark.parametrize(
    ("data", "old", "new", "expected"),
    [
        (b"one\r\ntwo\r\n", "one\ntwo", "1\n2\n3", b"1\r\n2\r\n3\r\n"),
        (b"one\r\ntwo\r\n", "one\r\ntwo", "1\r\n2", b"1\r\n2\r\n"),
        (b"one\r\ntwo", "two", "2\n3", b"one\r\n2\r\n3"),
        (b"one\r\ntwo\r\n", "one\r\n", "1\n", b"1\ntwo\r\n"),
        (b"one\r\ntwo\r\n", "one\r\ntwo\n", "1", b"1"),
        (b"one\r\ntwo\n", "two\n", "2\n3\n", b"one\r\n2\n3\n"),
        (b"one\ntwo\n", "two", "2\r\n3", b"one\n2\r\n3\n"),
        (b"a\rb", "b", "c\nd", b"a\rc\nd"),
    ],
)
def test_the_line_ends_of_a_file_are_kept(data: bytes, old: str, new: str, expected: bytes) -> None:
    assert replaced("/a", data, old, new, False) == (expected, 1)


@pytest.mark.spec("P22")
async def test_line_ends_can_be_changed_and_a_change_of_nothing_is_refused() -> None:
    async with session_of(session_file_system, *FILES) as session:
        await session.files.write("/a", b"one\r\ntwo\r\n")
        for old, new in (("one\n", "one\r\n"), ("one\r\ntwo\n", "one\r\ntwo\r\n"), ("\n", "\r\n")):
            with pytest.raises(ToolError, match=r"all lines of '/a' end in CRLF: there is nothing to change") as same:
                await session.call(edit_file, path="/a", old_text=old, new_text=new, replace_all=True)
            assert same.value.code == "nothing_to_change"
        assert (await session.files.read("/a"))[0].version == 1
        edited = await session.call(edit_file, path="/a", old_text="\r\n", new_text="\n", replace_all=True)
        assert (edited["replacements"], edited["version"]) == (2, 2)
        assert (await session.files.read("/a"))[1] == b"one\ntwo\n"
        await session.call(edit_file, path="/a", old_text="\n", new_text="\r\n", replace_all=True)
        assert (await session.files.read("/a"))[1] == b"one\r\ntwo\r\n"


@pytest.mark.spec("P22")
@pytest.mark.parametrize(
    ("old", "hint"),
    [
        ("a tulip is", "read the file, and copy the text exactly"),
        ("a rose\nis a röse", "text that differs from it only in white space begins on line 2: copy it exactly"),
        ("a rose  \n    is a röse", "text that differs from it only in white space begins on line 2: copy it exactly"),
        ("not A TULIP", "text that differs from it only in white space and case begins on line 5: copy it exactly"),
        ("\t\t\t", "read the file, and copy the text exactly"),
    ],
)
async def test_a_text_that_is_not_there_is_an_error_that_helps(old: str, hint: str) -> None:
    async with session_of(session_file_system, *FILES) as session:
        await session.files.write("/a", POEM)
        with pytest.raises(ToolError, match=f"^'/a' does not contain old_text; {re.escape(hint)}$") as refused:
            await session.call(edit_file, path="/a", old_text=old, new_text="x")
        assert refused.value.code == "text_not_found"
        assert (await session.files.read("/a"))[0].version == 1


@pytest.mark.spec("P22")
@pytest.mark.parametrize(
    ("data", "old", "where"),
    [
        (b"rose\n\na rose, rose", "rose", "3 times, on lines 1, 3, 3; add"),
        (b"\naaa", "aa", "2 times, on lines 2, 2; add"),
        (b"x\n" * 50, "x", "50 times, on lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and more; add"),
    ],
)
async def test_a_text_that_is_there_more_than_once_is_one_too(data: bytes, old: str, where: str) -> None:
    async with session_of(session_file_system, *FILES) as session:
        await session.files.write("/a", data)
        with pytest.raises(ToolError, match=f"^old_text occurs in '/a' {where}") as refused:
            await session.call(edit_file, path="/a", old_text=old, new_text="y")
        assert refused.value.code == "text_ambiguous"
        assert (await session.files.read("/a"))[1] == data


@pytest.mark.parametrize("data", [b"text with a \0", b"\xff\xfe"])
async def test_what_is_not_text_is_refused(data: bytes) -> None:
    async with session_of(session_file_system, *FILES) as session:
        await session.files.write("/b", data)
        with pytest.raises(ToolError, match="not UTF-8 text") as refused:
            await session.call(edit_file, path="/b", old_text="t", new_text="x")
    assert refused.value.code == "not_text"


async def test_a_large_file_is_edited_all_the_same() -> None:
    async with session_of(session_file_system, *FILES) as session:
        await session.files.write("/large", b"line\n" * (PART_BYTES // 4) + b"end")
        await session.call(edit_file, path="/large", old_text="line\nend", new_text="END")
        assert (await session.files.read("/large"))[1] == b"line\n" * (PART_BYTES // 4 - 1) + b"END"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"old_text": "", "new_text": "x"}, InvalidArguments),
        ({"old_text": "a", "new_text": "a"}, ToolError),
        ({"old_text": "a", "new_text": "\ud800"}, ToolError),
        ({"old_text": "\ud800", "new_text": "a"}, InvalidArguments),
        ({"old_text": "a", "new_text": "b", "path": "/missing"}, FileError),
        ({"old_text": "a", "new_text": "b", "path": "/"}, FileError),
        ({"old_text": "a", "new_text": "b", "path": "a"}, FileError),
    ],
)
async def test_what_cannot_be_edited_is_refused(arguments: dict[str, Any], error: type[Exception]) -> None:
    call_arguments: dict[str, Any] = {"path": "/a", **arguments}
    async with session_of(session_file_system, *FILES) as session:
        await session.files.write("/a", b"a")
        with pytest.raises(error):
            await session.call(edit_file, **call_arguments)
        assert (await session.files.read("/a"))[1] == b"a"


@pytest.mark.spec("P25")
async def test_edits_at_one_time_lose_nothing(tmp_path: Path) -> None:
    agent, principal = Agent("tester", uses=[session_file_system]), Principal("user-1", permissions=FILES)
    async with (
        Kernel(store=f"sqlite:///{tmp_path}/capset.db") as kernel,
        kernel.open(agent, principal=principal) as session,
    ):
        await session.files.write("/a", "".join(f"<{number}>\n" for number in range(20)).encode())
        await asyncio.gather(
            *(
                session.call(edit_file, path="/a", old_text=f"<{number}>", new_text=f"({number})")
                for number in range(20)
            )
        )
        stat, content = await session.files.read("/a")
    assert content.decode() == "".join(f"({number})\n" for number in range(20))
    assert stat.version == 21


@pytest.mark.spec("P25")
async def test_what_somebody_else_writes_in_between_is_kept() -> None:
    async with meddled() as (session, meddling):
        await session.files.write("/a", b"one\ntwo\n")

        async def meddle() -> None:
            del meddling.before["write"]
            await session.files.write("/a", b"zero\none\ntwo\n")

        meddling.before["write"] = meddle
        edited = await session.call(edit_file, path="/a", old_text="one", new_text="1")
        assert edited["version"] == 3
        assert (await session.files.read("/a"))[1] == b"zero\n1\ntwo\n"

        async def take() -> None:
            del meddling.before["write"]
            await session.files.write("/a", b"nothing left\n")

        meddling.before["write"] = take
        with pytest.raises(ToolError, match="does not contain old_text"):
            await session.call(edit_file, path="/a", old_text="two", new_text="2")
        assert (await session.files.read("/a"))[1] == b"nothing left\n"


async def test_who_is_never_let_through_is_told_so_in_the_end() -> None:
    async with meddled() as (session, meddling):
        await session.files.write("/a", b"one")
        inside = False

        async def meddle() -> None:
            nonlocal inside
            if not inside:
                inside = True
                await session.files.write("/a", b"one")
                inside = False

        meddling.before["write"] = meddle
        with pytest.raises(VersionMismatch):
            await session.call(edit_file, path="/a", old_text="one", new_text="two")
        assert (await session.files.read("/a"))[1] == b"one"


@pytest.mark.spec("G10")
@pytest.mark.parametrize("permission", FILES)
async def test_editing_needs_both_permissions_since_its_errors_tell_what_there_is(permission: str) -> None:
    (missing,) = set(FILES) - {permission}
    async with session_of(session_file_system, permission) as session:
        await session.files.write("/a", b"a")
        with pytest.raises(PermissionDenied, match=missing):
            await session.call(edit_file, path="/a", old_text="a", new_text="b")


@pytest.mark.spec("P25")
async def test_an_edit_for_which_there_is_no_room_changes_nothing() -> None:
    agent = Agent("tester", uses=[session_file_system])
    async with opened(agent, permissions=FILES, governance=Governance(file_bytes=10)) as desk:
        await desk.session.files.write("/a", b"12345678")
        with pytest.raises(QuotaExceeded):
            await desk.session.call(edit_file, path="/a", old_text="8", new_text="8910")
        assert (await desk.session.files.read("/a"))[1] == b"12345678"
        assert (await desk.session.call(edit_file, path="/a", old_text="8", new_text="890"))["size_bytes"] == 10


@pytest.mark.spec("P22", "P25")
async def test_what_would_be_too_large_is_refused_before_it_is_made() -> None:
    async with session_of(session_file_system, *FILES) as session:
        await session.files.write("/a", b"a" * 20_000)
        tracemalloc.start()
        try:
            with pytest.raises(ToolError, match="at most 10,000,000 bytes") as refused:
                await session.call(edit_file, path="/a", old_text="a", new_text="b" * 20_000, replace_all=True)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert refused.value.code == "too_large"
        assert peak < 10_000_000, "of 400 MB that it would be"
        await session.files.write("/large", b"ab " * 3_400_000)
        with pytest.raises(ToolError, match="at most 10,000,000 bytes"):
            await session.call(edit_file, path="/large", old_text="ab", new_text="cd")


@pytest.mark.spec("P22", "P25")
async def test_the_largest_file_that_is_edited_has_ten_million_bytes() -> None:
    async with session_of(session_file_system, *FILES) as session:
        await session.files.write("/a", b"x" * 9_999_999 + b"a")
        assert (await session.call(edit_file, path="/a", old_text="a", new_text="b"))["size_bytes"] == 10_000_000
        with pytest.raises(ToolError, match="would be one of 10,000,001"):
            await session.call(edit_file, path="/a", old_text="b", new_text="bb")
        await session.files.write("/a", b"x" * 10_000_000 + b"a")
        with pytest.raises(ToolError, match="would be one of 10,000,001"):
            await session.call(edit_file, path="/a", old_text="a", new_text="")


@pytest.mark.spec("P22")
async def test_nothing_like_it_is_looked_for_in_what_is_large() -> None:
    async with session_of(session_file_system, *FILES) as session:
        await session.files.write("/a", b"ab " * 400_000)
        with pytest.raises(ToolError, match="read the file, and copy the text exactly"):
            await session.call(edit_file, path="/a", old_text="ab  ab", new_text="cd")
