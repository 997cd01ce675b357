"""What a model of pydantic-ai's reads of long results, and how its host knows what they are (spec 4, G26)."""

from __future__ import annotations

import json

import pytest

from capset import ToolError, tool
from capset.definitions.governance.settings import RESULT_BYTES
from tests.helpers.frameworks.support import add, run
from tests.helpers.kernel.support import desk


@tool(effect="read")
async def rows(count: int) -> list[str]:
    """Return so many rows."""
    return [f"row {number}" for number in range(count)]


@tool(effect="read")
async def wail(length: int) -> str:
    """Fail at length."""
    raise ToolError("o" * length, code="wailing")


@pytest.mark.spec("G26")
async def test_a_model_reads_the_beginning_of_a_long_result() -> None:
    async with desk(rows) as open_desk:
        (part,) = await run(open_desk.session, [("rows", {"count": 20_000})])
        record = await open_desk.record()
        assert isinstance(part.content, str)
        assert len(part.content.encode()) <= RESULT_BYTES
        assert part.content.startswith('[\n "row 0",\n "row 1",')
        file = f"/results/{record.id}.json"
        assert f"the session's file {file}:" in part.content
        assert part.metadata == {"untrusted": True, "record": record.id, "file": file}
        _, stored = await open_desk.session.files.read(file)
        assert len(json.loads(stored)) == 20_000


@pytest.mark.spec("G26")
async def test_a_model_reads_the_beginning_of_a_long_error() -> None:
    async with desk(wail) as open_desk:
        (part,) = await run(open_desk.session, [("wail", {"length": 1_000_000})])
        record = await open_desk.record()
        assert part.outcome == "failed"
        assert isinstance(part.content, str)
        assert len(part.content.encode()) <= RESULT_BYTES
        assert part.content.endswith(f"]\n(wailing; correlation {record.correlation})")


@pytest.mark.spec("G26")
async def test_a_result_is_marked_as_untrusted_where_no_model_reads_it() -> None:
    async with desk(add) as open_desk:
        (part,) = await run(open_desk.session, [("add", {"a": 1})])
        assert part.content == 2
        assert part.metadata == {"untrusted": True, "record": (await open_desk.record()).id}
        assert "untrusted" not in part.model_response_str()
