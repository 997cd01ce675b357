"""What a server's schemas only note is neither checked nor sent, and loses no result (spec 3, K23, K24)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.connect.mcp.scripted import ADD, plain, scripted, site_of
from tests.helpers.kernel.support import records_of

LINE = {"type": "object", "properties": {"note": {"type": "string", "default": None}, "count": {"default": 1}}}
NOTED: dict[str, Any] = {
    **ADD,
    "inputSchema": {
        "type": "object",
        "properties": {
            "title": {"type": "string", "default": None, "title": "Title"},  # what the SDK makes of title: str = None
            "lines": {"type": "array", "items": LINE},
            "at": {"type": "string", "format": "date-time"},
            "code": {"type": "string", "pattern": "^(?!x)"},
        },
    },
    "outputSchema": {
        "type": "object",
        "properties": {
            "total": {"type": "integer"},
            "unit": {"type": "string", "default": None},
            "on": {"type": "string", "format": "date"},
        },
        "required": ["total"],
    },
}


@pytest.mark.spec("K23", "K24")
async def test_defaults_formats_and_odd_patterns_of_a_server_hold_nothing_up() -> None:
    answering = plain(content=[{"type": "text", "text": "3"}], structuredContent={"total": 3, "on": "Monday"})
    arguments: dict[str, Any] = {"lines": [{}, {"count": 2}], "at": "noon", "code": "xyz"}
    async with site_of(scripted(answering, NOTED)) as (site, wire):
        result = await site.call("books_add", **arguments)
        (record,) = await records_of(site.kernel.audit, tool="books_add")
    assert wire.calls[0][1]["params"]["arguments"] == arguments, "nothing is filled in"
    assert record.outcome == "succeeded"
    assert "Monday" in str(result)
    assert "unit" not in str(result)
