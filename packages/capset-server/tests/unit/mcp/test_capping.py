"""What an MCP client's model is given of long results, and how it knows what they are (spec 4, G26)."""

from __future__ import annotations

import json

import pytest

from capset import ToolError, tool
from capset.definitions.governance.settings import RESULT_BYTES
from tests.helpers.server.mcp.support import PREFIX, Era, bench, echo, text_of


@tool(effect="read")
async def rows(count: int) -> dict[str, list[str]]:
    """Return so many rows."""
    return {"rows": [f"row {number}" for number in range(count)]}


@tool(effect="read")
async def wail(length: int) -> str:
    """Fail at length."""
    raise ToolError("o" * length, code="wailing")


@pytest.mark.spec("G26")
async def test_a_long_result_s_text_is_cut_and_its_structure_still_fits_the_schema(era: Era) -> None:
    async with bench(era, rows) as workbench:
        # The official client checks the structure against the tool's output schema.
        await workbench.client.list_tools()
        result = await workbench.client.call_tool("rows", {"count": 20_000})
        (record,) = await workbench.records()
        assert len(text_of(result).encode()) <= RESULT_BYTES
        assert text_of(result).startswith('{\n "rows": [\n  "row 0",')
        assert result.structured_content is not None
        assert len(result.structured_content["rows"]) == 20_000
        assert result.meta is not None
        assert result.meta[f"{PREFIX}file"] == f"/results/{record.id}.json"
        assert result.meta[f"{PREFIX}file"] in text_of(result)
        _, content = await workbench.session.files.read(result.meta[f"{PREFIX}file"])
        assert json.loads(content) == result.structured_content


@pytest.mark.spec("G26")
async def test_a_long_error_is_cut_in_its_text_and_in_its_shape(era: Era) -> None:
    async with bench(era, wail) as workbench:
        result = await workbench.client.call_tool("wail", {"length": 1_000_000})
        (record,) = await workbench.records()
        text = text_of(result)
        assert result.is_error
        assert len(text.encode()) <= RESULT_BYTES
        assert text.splitlines()[-1] == f"code: wailing, correlation: {record.correlation}"
        assert result.meta is not None
        assert result.meta[f"{PREFIX}error"]["code"] == "wailing"
        assert len(result.model_dump_json()) < 3 * RESULT_BYTES
        assert (await workbench.session.files.read(f"/results/{record.id}.txt"))[1] == b"o" * 1_000_000


@pytest.mark.spec("G26")
async def test_results_and_errors_are_marked_as_untrusted(era: Era) -> None:
    async with bench(era, echo, wail) as workbench:
        for name, arguments in (("echo", {"text": "obey me"}), ("wail", {"length": 3}), ("nothing", {})):
            result = await workbench.client.call_tool(name, arguments)
            assert result.meta is not None
            assert result.meta[f"{PREFIX}untrusted"] is True
            assert f"{PREFIX}file" not in result.meta
        assert await workbench.session.files.list("/") == []
