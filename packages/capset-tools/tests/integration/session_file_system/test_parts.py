"""What is too large for one result comes in parts, which point on in the same file, and no copy is kept (P23, G26)."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset import Agent, Session
from capset.definitions.governance.settings import RESULT_BYTES, Governance
from capset.errors import ToolError
from capset_tools.session_file_system import session_file_system
from capset_tools.session_file_system.content import ContentPart, PartReader, TextUnit, part_of
from capset_tools.session_file_system.read import read_file
from tests.helpers.frameworks.support import run
from tests.helpers.kernel.support import opened
from tests.helpers.server.mcp.support import bench, text_of
from tests.helpers.tools.session_file_system.support import meddled, pieces
from tests.helpers.tools.support import FILES

CAP = 1_500
LINES = "".join(f'{number}: "Zoë"\t\\o/ {"é🦉" * (number % 7)}\n' for number in range(400))
LONG = "short\n" + "long 🦉" * 900 + "\nlast\n"
BINARY = bytes(range(256)) * 40
FILE_SET = [LINES.encode(), LONG.encode(), BINARY, b"", b"\n" * 3_000, b'"' * 3_000, b"no end of line"]

Read = Callable[[dict[str, Any]], Awaitable[str]]


async def whole(read: Read, path: str, cap: int) -> bytes:
    """Read a file to its end as a model would, that sees nothing but text, and return it."""
    arguments: dict[str, Any] = {"path": path}
    collected = b""
    for _ in range(500):
        text = await read(arguments)
        assert len(text.encode()) <= cap
        part = json.loads(text)
        assert part["path"] == path
        content = part["content"]
        collected += content.encode() if part["encoding"] == "text" else base64.b64decode(content)
        if part["next_offset"] is None:
            return collected
        assert part["next_offset"] > part["offset"]
        unit = {"unit": "characters"} if part["unit"] == "characters" else {}
        arguments = {"path": path, "offset": part["next_offset"], **unit}
    raise AssertionError("it never ends")


@pytest.mark.spec("P23", "G26")
@pytest.mark.parametrize("data", FILE_SET, ids=lambda data: repr(data[:12]))
async def test_a_model_reads_all_of_a_file_part_by_part_and_nothing_is_kept_twice(data: bytes) -> None:
    agent = Agent("reader", uses=[session_file_system])
    async with opened(agent, permissions=FILES, governance=Governance(result_bytes=CAP)) as desk:
        session = desk.session
        await session.files.write("/docs/f", data)

        async def read(arguments: dict[str, Any]) -> str:
            result = await session.try_call(read_file, **arguments)
            rendered = await session.for_model(result.record, result.data)
            assert not rendered.is_cut
            return rendered.text

        assert await whole(read, "/docs/f", CAP) == data
        assert [entry.path for entry in await session.files.list("/", recursive=True)] == ["/docs", "/docs/f"]


LARGE = ("a line of text, to be repeated\n" * 10_000 + "x" * 200_000).encode()


async def nothing_is_kept(session: Session) -> bool:
    return [entry.path for entry in await session.files.list("/")] == ["/large"]


@pytest.mark.spec("P23", "G26")
async def test_so_does_one_behind_mcp() -> None:
    async with bench("auto", read_file, permissions=FILES) as workbench:
        await workbench.session.files.write("/large", LARGE)

        async def read(arguments: dict[str, Any]) -> str:
            result = await workbench.client.call_tool("read_file", arguments)
            assert result.structured_content == json.loads(text_of(result))
            assert result.meta is not None
            assert "dev.capset/file" not in result.meta
            return text_of(result)

        await workbench.client.list_tools()
        assert await whole(read, "/large", RESULT_BYTES) == LARGE
        assert await nothing_is_kept(workbench.session)


@pytest.mark.spec("P23", "G26")
async def test_so_does_one_of_pydantic_ai() -> None:
    async with opened(Agent("reader", uses=[session_file_system]), permissions=FILES) as desk:
        await desk.session.files.write("/large", LARGE)

        async def read(arguments: dict[str, Any]) -> str:
            (part,) = await run(desk.session, [("read_file", arguments)])
            assert "file" not in (part.metadata or {})
            return part.model_response_str()

        assert await whole(read, "/large", RESULT_BYTES) == LARGE
        assert await nothing_is_kept(desk.session)


@pytest.mark.spec("P23")
@given(
    st.binary(max_size=60) | st.text(alphabet='ab\n\r"\\\x01é🦉', max_size=80).map(str.encode),
    st.integers(4, 40),
    st.none() | st.integers(1, 9),
)
def test_the_parts_that_fit_give_the_file(data: bytes, room: int, limit: int | None) -> None:
    offset, unit, parts = 0, None, b""
    while True:
        part = part_of(data, offset, limit, unit, room=room)
        assert len(json.dumps(part.content, ensure_ascii=False).encode()) - 2 <= room or len(part.content) == 1
        assert limit is None or part.unit != unit or part.next - part.offset <= limit
        parts += part.content.encode() if part.encoding == "text" else base64.b64decode(part.content)
        if part.next == part.total:
            break
        assert part.next > part.offset
        offset, unit = part.next, "characters" if part.unit == "characters" else None
    assert parts == data


def part_of_pieces(
    data: bytes, cuts: list[int], offset: int, limit: int | None, unit: TextUnit | None, room: int | None
) -> ContentPart:
    reader = PartReader(offset, limit, unit, room)
    *first, last = pieces(data, cuts)
    for piece in first:
        reader.feed(piece, final=False)
    reader.feed(last, final=True)
    if reader.is_text:
        return reader.text_part()
    return reader.bytes_part(data[offset : reader.end_of_bytes(len(data))], len(data))


def outcome(make: Callable[[], ContentPart]) -> ContentPart | str:
    try:
        return make()
    except ToolError as error:
        return error.message


@pytest.mark.spec("P23")
@given(
    st.binary(max_size=60) | st.text(alphabet='ab\n\r"\\\x01é🦉', max_size=80).map(str.encode),
    st.lists(st.integers(0, 400), max_size=5),
    st.integers(0, 30),
    st.none() | st.integers(1, 9),
    st.sampled_from([None, "lines", "characters"]),
    st.none() | st.integers(4, 40),
)
def test_a_file_in_pieces_has_the_same_parts(
    data: bytes, cuts: list[int], offset: int, limit: int | None, unit: TextUnit | None, room: int | None
) -> None:
    expected = outcome(lambda: part_of(data, offset, limit, unit, room=room))
    assert outcome(lambda: part_of_pieces(data, cuts, offset, limit, unit, room)) == expected


@pytest.mark.spec("P23")
@pytest.mark.parametrize("end", [b"", b"\xff", b"\0"], ids=["text", "not UTF-8", "with NUL"])
async def test_a_part_of_a_large_file_is_as_that_of_a_small_one(end: bytes) -> None:
    data = b"".join(b"%07d: some text of a line\n" % number for number in range(100_000)) + "é\n".encode() + end
    async with opened(Agent("reader", uses=[session_file_system]), permissions=FILES) as desk:
        await desk.session.files.write("/large", data)
        cases: tuple[dict[str, Any], ...] = (
            *({}, {"offset": 99_990}, {"offset": 50_000, "limit": 2}, {"limit": 1}, {"offset": 10_000_000}),
            *({"unit": "characters", "offset": 1_500_000, "limit": 30}, {"unit": "lines", "offset": 100_001}),
        )
        for arguments in cases:
            result = await desk.session.try_call(read_file, path="/large", **arguments)
            offset, limit, unit = (arguments.get(name) for name in ("offset", "limit", "unit"))
            expected = outcome(partial(part_of, data, offset or 0, limit, unit, room=RESULT_BYTES))
            if isinstance(expected, str):
                assert result.error is not None
                assert result.error.message == expected
            else:
                assert result.data is not None
                assert result.data["content"] == expected.content[: len(result.data["content"])]
                assert (result.data["total"], result.data["offset"]) == (expected.total, expected.offset)
                assert len(result.data["content"]) >= min(len(expected.content), RESULT_BYTES - 4_000)


@pytest.mark.spec("P23")
async def test_a_large_file_that_is_written_meanwhile_is_not_mixed_with_what_was_there() -> None:
    async with meddled() as (session, meddling):
        await session.files.write("/large", b"a" * 3_000_000)

        async def write() -> None:
            if meddling.asked["read"] == 3:
                await session.files.write("/large", b"b" * 3_000_000)

        meddling.before["read"] = write
        with pytest.raises(ToolError, match="changed while it was read"):
            await session.call(read_file, path="/large")


@pytest.mark.spec("P23")
def test_as_many_lines_as_fit_are_given_and_of_one_that_does_not_its_beginning() -> None:
    data = b"one\ntwo\nthree and more\n"
    assert (part := part_of(data, 0, None, room=10)).content == "one\ntwo\n"
    assert (part.unit, part.offset, part.next, part.total) == ("lines", 0, 2, 3)
    assert (part := part_of(data, 2, 1, room=10)).content == "three and "
    assert (part.unit, part.offset, part.next, part.total) == ("characters", 8, 18, 23)
    assert (part := part_of(data, 18, None, "characters", room=10)).content == "more\n"
    assert (part.unit, part.next, part.total) == ("characters", 23, 23)
    assert part_of(data, 4, 3, "characters").content == "two"


@pytest.mark.parametrize("unit", ["lines", "characters"])
def test_what_is_no_text_has_no_units_of_text(unit: Any) -> None:
    with pytest.raises(ToolError, match=f"not text and has no {unit}: leave unit out"):
        part_of(b"\xff", 0, None, unit)
