"""Names of tools here: that of the server before their own, and shortened if they are too long (spec 7, M93)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset.definitions.names import TOOL
from capset_connect.mcp import McpServer
from capset_connect.openapi import OpenApi
from tests.helpers.connect.mcp.opening import opened
from tests.helpers.connect.mcp.raw import ECHO, done, raw
from tests.helpers.connect.mcp.urls import declared, serving

BOOKS = McpServer(name="books", command=["x"])
LETTERS = st.text("abcdefghijklmnopqrstuvwxyz_-./0123456789", min_size=1, max_size=256)


@pytest.mark.spec("M93")
def test_a_long_name_ends_with_a_part_of_its_hash() -> None:
    long = "read_" + "x" * 100
    assert BOOKS.tool_name("read") == "books_read"
    assert BOOKS.tool_name("y" * 58) == f"books_{'y' * 58}", "64 letters fit"
    assert BOOKS.tool_name(long) == f"{f'books_{long}'[:55]}_469bf7a6"
    api = OpenApi(name="books", document={})
    assert api.tool_name(long) == BOOKS.tool_name(long), "as that of an operation"


@pytest.mark.spec("M93")
@given(first=LETTERS, second=LETTERS)
def test_names_here_are_valid_and_long_ones_are_told_apart(first: str, second: str) -> None:
    shared = "x" * 60
    names = [BOOKS.tool_name(f"{shared}{suffix}") for suffix in (first, second)]
    assert all(TOOL.fullmatch(name) for name in (*names, BOOKS.tool_name(first)))
    assert (names[0] == names[1]) == (first == second)


@pytest.mark.spec("M93", "M5")
async def test_a_tool_with_a_long_name_is_pinned_and_called_by_its_own() -> None:
    long, called = "x" * 100, list[str]()

    def noted(message: Any) -> Any:
        called.append(message["params"]["name"])
        return done(message)

    tools = [{**ECHO, "name": f"{long}1"}, {**ECHO, "name": f"{long}2"}]
    async with serving(raw(noted, tools=tools)) as upstream, opened(declared(upstream)) as site:
        assert [pin.tool for pin in await site.kernel.store.pins.list()] == [f"{long}1", f"{long}2"]
        for tool in site.capability.every_tool:
            assert await site.session.call(tool) == "done"
    assert sorted(called) == [f"{long}1", f"{long}2"]
