"""Progress that gives a call more time, as its host declares it (spec 7, M103)."""

from __future__ import annotations

import asyncio

import pytest
from mcp.server.mcpserver import Context, MCPServer
from starlette.types import ASGIApp

from capset.errors import DeadlineExceeded, TransientError
from tests.helpers.connect.mcp.scripted import site_of

pytestmark = [pytest.mark.spec("M103"), pytest.mark.realtime]


def counting() -> ASGIApp:
    """Return a server whose tools take their time, and say how far they are or do not."""
    server = MCPServer("books")

    @server.tool(structured_output=False)
    async def count(ctx: Context, steps: int) -> str:
        """Count, four steps a second."""
        for number in range(steps):
            await ctx.report_progress(number, steps)
            await asyncio.sleep(0.25)
        return f"counted to {steps}"

    @server.tool(structured_output=False)
    async def wait(seconds: float) -> str:
        """Wait."""
        await asyncio.sleep(seconds)
        return "waited"

    return server.streamable_http_app()


async def test_each_report_gives_a_call_its_timeout_again() -> None:
    async with site_of(counting(), timeout=1.5, max_timeout=60.0) as (site, _):
        assert await site.call("books_count", steps=10) == "counted to 10"
        with pytest.raises(TransientError, match=r"within 60 s, or reported no progress for 1\.5 s"):
            await site.call("books_wait", seconds=30)
        assert await site.call("books_wait", seconds=0) == "waited"


async def test_no_report_gives_more_than_the_maximum_or_anything_without_one() -> None:
    for options in ({"timeout": 1.0, "max_timeout": 2.0}, {"timeout": 1.0}):
        async with site_of(counting(), **options) as (site, _):
            with pytest.raises((TransientError, DeadlineExceeded)):
                await site.call("books_count", steps=120)
